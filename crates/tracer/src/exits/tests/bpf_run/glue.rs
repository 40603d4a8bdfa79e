//! Tests of the parts of `exits.bpf.c` that read the kernel's structures. The test lays out KVM's
//! structures itself, describes them in BTF, and fills them. So it covers vendor modules that this
//! machine does not have.

use std::fs;

use libbpf_rs::btf::BtfKind;
use libbpf_rs::{Btf, Object, ObjectBuilder, ProgramInput, num_possible_cpus};

use crate::exits::wire::{self, WireVcpu};
use crate::maps::Maps;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exits_glue_test.bpf.o"));
const KERNEL: &str = "/sys/kernel/btf/vmlinux";
/// Size of `struct btf_header` of include/uapi/linux/btf.h.
const HEADER: u32 = 24;
/// Number of the type `void`.
const VOID: u32 = 0;

/// Numbers of the structures in `bpf/exits_glue_test.bpf.c`, and the size of each.
const OF_VCPU: u32 = 0;
const OF_VMCB: u32 = 1;
const STRUCTURE_BYTES: usize = 8_192 * 8;

/// Offsets in a vCPU's structure, in bytes.
const VM: u32 = 8;
const NUMBER: u32 = 16;
const EXITS: u32 = 80;
const VMCB: u32 = 0x90;
const VMX_REASON: u32 = 0xa0;
/// Offset of the structure that VMX and TDX share in newer kernels, in bytes.
const SHARED_WITH_TDX: u32 = 0x80;
/// Offset of the exit code in a VMCB, in bytes.
const SVM_CODE: u32 = 0x70;

/// KVM_ISA_VMX and KVM_ISA_SVM of arch/x86/kvm/trace.h.
const VMX: u64 = 1;
const SVM: u64 = 2;
/// EXIT_CODE_UNREAD of `bpf/exit_code.bpf.h`.
const UNREAD: u64 = u64::MAX - 1;

/// Place of the exit reason of VMX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasonPlace {
    /// In `vcpu_vmx`.
    Vmx,
    /// In `vcpu_vt`, which is a part of `vcpu_vmx`.
    SharedWithTdx,
}

/// The kernel's types, to which a test adds others.
struct KernelTypes {
    /// Magic, version and flags.
    head: Vec<u8>,
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Number of the next type.
    next: u32,
}

impl KernelTypes {
    /// Reads the kernel's types. Its own types of these names get other names, so that only those
    /// of the test are found.
    fn without(names: &[&str]) -> KernelTypes {
        let bytes = fs::read(KERNEL).unwrap();
        let word = |at: usize| {
            let word = bytes[at..at + 4].try_into().unwrap();
            u32::from_ne_bytes(word) as usize
        };
        let section = |at: usize| {
            let from = word(4) + word(at);
            bytes[from..from + word(at + 4)].to_vec()
        };
        let mut strings = section(16);
        for name in names {
            hide(&mut strings, name);
        }
        KernelTypes {
            head: bytes[..4].to_vec(),
            types: section(8),
            strings,
            next: Btf::from_path(KERNEL).unwrap().len() as u32,
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes());
        self.strings.push(0);
        at
    }

    /// Adds a type with `members` members, and returns its number. `size` is its size in bytes, or
    /// the type to which a pointer points. `more` are the words after the first three.
    fn add(&mut self, name: &str, kind: BtfKind, members: u32, size: u32, more: &[u32]) -> u32 {
        let first = [self.string(name), (kind as u32) << 24 | members, size];
        let words = first.iter().chain(more);
        self.types.extend(words.flat_map(|word| word.to_ne_bytes()));
        self.next += 1;
        self.next - 1
    }

    /// Adds a number of this many bytes.
    fn number(&mut self, name: &str, bytes: u32) -> u32 {
        self.add(name, BtfKind::Int, 0, bytes, &[8 * bytes])
    }

    /// Adds a structure of 256 bytes. Each member has a name, a type, and an offset in bytes.
    fn structure(&mut self, name: &str, members: &[(&str, u32, u32)]) -> u32 {
        let mut more = Vec::new();
        for (member, of, offset) in members {
            more.extend([self.string(member), *of, 8 * offset]);
        }
        self.add(name, BtfKind::Struct, members.len() as u32, 256, &more)
    }

    /// Returns all types in BTF format.
    fn bytes(self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let words = [HEADER, 0, types, types, strings];
        let words = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        [self.head, words, self.types, self.strings].concat()
    }
}

/// Changes a name in a section of strings.
fn hide(strings: &mut [u8], name: &str) {
    let whole = format!("\0{name}\0").into_bytes();
    let at = strings.windows(whole.len()).position(|it| it == whole);
    if let Some(at) = at {
        strings[at + 1] = b'_';
    }
}

/// Returns the kernel's types with those of KVM and both of its vendor modules.
fn types_of_kvm(reason_in: ReasonPlace) -> Vec<u8> {
    let mut all = KernelTypes::without(&[
        "kvm_vcpu",
        "vcpu_svm",
        "vmcb",
        "vmcb_control_area",
        "vcpu_vmx",
        "vcpu_vt",
    ]);
    let (half, whole) = (all.number("test_half", 4), all.number("test_whole", 8));
    let pointer = all.add("", BtfKind::Ptr, 0, VOID, &[]);
    let arch = all.structure("kvm_vcpu_arch", &[("hflags", half, 0)]);
    let stat = all.structure("kvm_vcpu_stat", &[("exits", whole, 0)]);
    all.structure(
        "kvm_vcpu",
        &[
            ("kvm", pointer, VM),
            ("vcpu_id", half, NUMBER),
            ("arch", arch, NUMBER + 8),
            ("stat", stat, EXITS),
        ],
    );
    let control = all.structure(
        "vmcb_control_area",
        &[
            ("exit_code", half, SVM_CODE),
            ("exit_code_hi", half, SVM_CODE + 4),
        ],
    );
    all.structure("vmcb", &[("control", control, 0)]);
    all.structure("vcpu_svm", &[("vmcb", pointer, VMCB)]);
    let reason = all.add("vmx_exit_reason", BtfKind::Union, 0, 4, &[]);
    match reason_in {
        ReasonPlace::Vmx => {
            all.structure("vcpu_vmx", &[("exit_reason", reason, VMX_REASON)]);
        }
        ReasonPlace::SharedWithTdx => {
            let offset = VMX_REASON - SHARED_WITH_TDX;
            let shared = all.structure("vcpu_vt", &[("exit_reason", reason, offset)]);
            all.structure("vcpu_vmx", &[("vt", shared, SHARED_WITH_TDX)]);
        }
    }
    all.bytes()
}

/// The programs of the test, and the memory of the structures.
struct Glue(Object);

impl Glue {
    fn new(reason_in: ReasonPlace) -> Glue {
        let types = tempfile::NamedTempFile::new().unwrap();
        fs::write(types.path(), types_of_kvm(reason_in)).unwrap();
        let mut builder = ObjectBuilder::default();
        builder.btf_custom_path(types.path()).unwrap();
        let mut open = builder.open_memory(OBJECT).unwrap();
        for mut program in open.progs_mut() {
            let is_of_test = program.section() == "raw_tp/test";
            program.set_autoload(is_of_test);
        }
        let cpus = num_possible_cpus().unwrap() as u32;
        for mut map in open.maps_mut() {
            match map.name().to_str() {
                Some("exit_cpus") => map.set_max_entries(cpus).unwrap(),
                Some("records") => map.set_max_entries(4_096).unwrap(),
                _ => {}
            }
        }
        Glue(open.load().unwrap())
    }

    /// Fills a structure with these words, each at its offset in bytes, and with zeros.
    fn fill(&self, structure: u32, words: &[(u32, u64)]) {
        let mut bytes = vec![0; STRUCTURE_BYTES];
        for (offset, word) in words {
            let at = *offset as usize;
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        self.0.set("structures", structure, &bytes).unwrap();
    }

    /// Runs a program with these words as its context, and returns its result.
    fn run(&self, program: &str, words: [u64; 4]) -> u32 {
        let mut context: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let mut programs = self.0.progs_mut();
        let program = programs.find(|it| it.name() == program).unwrap();
        program.test_run(input).unwrap().return_value
    }

    /// Returns the exit code that a vendor's module has stored.
    fn exit_code(&self, vendor: u64) -> u64 {
        let half = |upper| u64::from(self.run("test_exit_code", [vendor, upper, 0, 0]));
        half(1) << 32 | half(0)
    }

    fn vcpu(&self) -> WireVcpu {
        self.0.value("vcpus", 1).unwrap().unwrap()
    }
}

#[test]
fn an_exit_code_is_read_where_the_vendors_module_stores_it() {
    let (reason, neighbour) = (0x30, 0xaaaa_aaaa);
    for reason_in in [ReasonPlace::Vmx, ReasonPlace::SharedWithTdx] {
        let glue = Glue::new(reason_in);
        glue.fill(OF_VCPU, &[(VMX_REASON, neighbour << 32 | reason)]);
        assert_eq!(glue.exit_code(VMX), reason, "{reason_in:?}");
        let failure = u64::MAX;
        for code in [0x72, 0x1_0000_0400, failure] {
            glue.fill(OF_VMCB, &[(SVM_CODE, code)]);
            assert_eq!(glue.exit_code(SVM), code);
        }
        assert_eq!(glue.exit_code(0), UNREAD, "no vendor is known");
    }
}

/// The number of exits distinguishes a new vCPU from an old one in the same memory.
#[test]
fn a_vcpu_is_known_by_what_kvm_stores_of_it() {
    let glue = Glue::new(ReasonPlace::Vmx);
    glue.0.set(".data", 0, &wire::controls(true, 0)).unwrap();
    glue.0.push("free_places", 1).unwrap();
    glue.fill(OF_VCPU, &[(VM, 0x5000), (NUMBER, 3), (EXITS, 7)]);
    glue.run("test_entry", [0; 4]);
    let entered = glue.vcpu();
    assert_eq!((entered.exits, entered.entered), (7, 1));
    assert_ne!(entered.kvm_vcpu, 0);
    assert_eq!((entered.id, entered.isa), (u32::MAX, 0), "no exit yet");
    glue.run("test_exit", [VMX, 0, 0, 0]);
    let left = glue.vcpu();
    assert_eq!((left.id, left.vm, left.isa), (3, 0x5000, VMX as u32));
    assert_eq!((left.exits, left.kvm_vcpu), (7, entered.kvm_vcpu));
}

/// The task that came to CPU 0 may have ended, or may have left without an event.
#[test]
fn a_task_is_named_only_if_it_still_has_its_cpu() {
    const TASK: u64 = 42;
    let glue = Glue::new(ReasonPlace::Vmx);
    let named = |tid, has_cpu, cpu| glue.run("test_name_running", [TASK, tid, has_cpu, cpu]);
    assert_eq!(named(TASK, 1, 0), TASK as u32);
    assert_eq!(named(TASK + 1, 1, 0), 0, "its memory is another task's");
    assert_eq!(named(TASK, 0, 0), 0, "it has no CPU");
    assert_eq!(named(TASK, 1, 1), 0, "it has another CPU");
}
