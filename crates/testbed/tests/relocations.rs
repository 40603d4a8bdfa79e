//! Tests that every field that the BPF programs of the built binary read is at the expected offset.
//! This is tested for Debian's kernels, with the BTF of kvm-intel and of kvm-amd. No kernel is
//! booted, because kvm-intel would not load in a lab.

use vmnoise_testbed::bed::{DebianKernel, DebianSuite, types_of_module};
use vmnoise_testbed::binary;
use vmnoise_testbed::relocations::{Relocation, bpf_objects, resolve};

/// Structures that only kvm-amd has.
const OF_SVM: [&str; 3] = ["vcpu_svm", "vmcb", "vmcb_control_area"];
const OF_VMX: [&str; 1] = ["vcpu_vmx"];
/// Offset of EXITCODE in the control area of a VMCB, bytes (AMD64 Architecture Programmer's Manual,
/// volume 2, appendix B).
const EXITCODE: u64 = 0x70;

#[derive(Clone, Copy, PartialEq)]
enum Vendor {
    Amd,
    Intel,
}

impl Vendor {
    fn module(self) -> &'static str {
        match self {
            Vendor::Amd => "kvm-amd",
            Vendor::Intel => "kvm-intel",
        }
    }
}

/// Returns the outermost structure of a path, without its suffix. Programs name variants of a
/// structure with a suffix after `___`.
fn structure(path: &str) -> &str {
    let structure = path.split('.').next().unwrap();
    structure.split("___").next().unwrap()
}

fn offset_of(relocations: &[Relocation], path: &str) -> Option<u64> {
    let of = |it: &&Relocation| it.of == path && it.asked == "byte_off";
    relocations.iter().find(of)?.found.as_ref()?.offset
}

/// Returns how the program reads the exit reason, which is the first possible way in a list.
/// Returns an error if no way is possible.
fn probe_status(relocations: &[Relocation], vendor: Vendor) -> Result<String, String> {
    match vendor {
        Vendor::Amd => {
            let vmcb = offset_of(relocations, "vcpu_svm.vmcb").ok_or("no VMCB")?;
            let code = offset_of(relocations, "vmcb.control.exit_code");
            let is_size = |it: &&Relocation| it.asked == "byte_sz" && it.of.ends_with("exit_code");
            let size = relocations.iter().find(is_size);
            let size = size.and_then(|it| it.found.as_ref()?.size);
            match (code, size) {
                (Some(EXITCODE), Some(4)) => Ok(format!("vmcb at {vmcb}, exit_code in two halves")),
                (Some(EXITCODE), Some(8)) => Ok(format!("vmcb at {vmcb}, exit_code in one")),
                other => Err(format!("exit_code: offset and size {other:?}")),
            }
        }
        Vendor::Intel => {
            let own = offset_of(relocations, "vcpu_vmx.exit_reason");
            let of_vt = offset_of(relocations, "vcpu_vmx___vt.vt.exit_reason");
            match (own, of_vt) {
                (Some(at), None) => Ok(format!("vcpu_vmx.exit_reason at {at}")),
                (None, Some(at)) => Ok(format!("vcpu_vmx.vt.exit_reason at {at}")),
                other => Err(format!("exit_reason: at {other:?}")),
            }
        }
    }
}

/// Returns whether a program works if this field does not exist, or is in another structure.
fn may_be_missing(of: &str, vendor: Vendor) -> bool {
    let others: &[&str] = match vendor {
        Vendor::Amd => &OF_VMX,
        Vendor::Intel => &OF_SVM,
    };
    // There are several ways to read the exit reason of VMX, and one of them exists: see
    // `probe_status`.
    let ways = ["vcpu_vmx.exit_reason", "vcpu_vmx___vt.vt"];
    others.contains(&structure(of))
        || ways.iter().any(|way| of.starts_with(way))
        || of == "task_struct___pre_5_14.state"
        // This field exists in kernels that support confidential guests with a clock of their own.
        || of == "kvm_vcpu.arch.guest_tsc_protected"
        // This field exists since Linux 6.18, in which a quota throttles single tasks.
        || of == "task_struct.throttled"
}

/// Returns the error of one relocation; `None` if the relocation is right.
fn complaint(relocation: &Relocation, vendor: Vendor) -> Option<String> {
    let Relocation {
        of,
        declared_size,
        found,
        ..
    } = relocation;
    let Some(found) = found else {
        return (!may_be_missing(of, vendor)).then(|| format!("{of} is not there"));
    };
    if found.offset != found.offset_by_types {
        return Some(format!("{of}: {found:?}"));
    }
    // The programs read these two fields with the size that the kernel reports.
    let size_matters = !of.ends_with("exit_code") && of != "task_struct.on_cpu";
    let other_size = size_matters && *declared_size != found.size;
    other_size.then(|| format!("{of} is declared with {declared_size:?} bytes: {found:?}"))
}

fn complaints(relocations: &[Relocation], vendor: Vendor) -> Vec<String> {
    let of_each = relocations.iter().filter_map(|it| complaint(it, vendor));
    let reads_reasons = relocations.iter().any(|it| structure(&it.of) == "vcpu_svm");
    let probe_status = probe_status(relocations, vendor).err();
    of_each
        .chain(probe_status.filter(|_| reads_reasons))
        .collect()
}

/// Returns the BTF with this name replaced by another name of the same length.
fn renamed(btf: &[u8], name: &str) -> Vec<u8> {
    let name = [b"\0", name.as_bytes(), b"\0"].concat();
    let at = btf.windows(name.len()).position(|window| window == name);
    let mut btf = btf.to_vec();
    btf[at.unwrap() + 1] = b'X';
    btf
}

fn every_field_is_there(kernel: DebianKernel, suite: DebianSuite) {
    let objects = bpf_objects(&binary()).unwrap();
    for vendor in [Vendor::Amd, Vendor::Intel] {
        let types = types_of_module(kernel, suite, vendor.module()).unwrap();
        let mut probe_statuses = Vec::new();
        for object in &objects {
            let relocations = resolve(object, &types.btf).unwrap();
            assert_eq!(complaints(&relocations, vendor), [""; 0]);
            if relocations.iter().any(|it| it.of == "vcpu_svm") {
                probe_statuses.push(probe_status(&relocations, vendor).unwrap());
            }
        }
        // Two BPF objects read exit reasons: the object of `exits`, and the object of the other
        // commands. None of them would read reasons if the field did not exist.
        let [probe_status, same] = &probe_statuses[..] else {
            panic!("{probe_statuses:?}");
        };
        assert_eq!(probe_status, same);
        println!(
            "Linux {}, {}: {probe_status}",
            types.kernel_version,
            vendor.module()
        );
    }
}

mod lab {
    use super::*;

    mod own_suite {
        use super::*;

        #[test]
        fn cloud() {
            every_field_is_there(DebianKernel::Cloud, DebianSuite::Own);
        }

        #[test]
        fn rt() {
            every_field_is_there(DebianKernel::Rt, DebianSuite::Own);
        }

        #[test]
        fn a_field_that_vanished_is_reported() {
            let objects = bpf_objects(&binary()).unwrap();
            for (vendor, field) in [(Vendor::Amd, "exit_code"), (Vendor::Intel, "exit_reason")] {
                let types = types_of_module(DebianKernel::Cloud, DebianSuite::Own, vendor.module())
                    .unwrap();
                let btf = renamed(&types.btf, field);
                let reported: Vec<String> = objects
                    .iter()
                    .flat_map(|object| complaints(&resolve(object, &btf).unwrap(), vendor))
                    .collect();
                assert!(reported.iter().any(|it| it.contains(field)), "{reported:?}");
            }
        }
    }
}

mod lab_full {
    use super::*;

    mod trixie {
        use super::*;

        #[test]
        fn cloud() {
            every_field_is_there(DebianKernel::Cloud, DebianSuite::Trixie);
        }

        #[test]
        fn rt() {
            every_field_is_there(DebianKernel::Rt, DebianSuite::Trixie);
        }
    }

    mod trixie_backports {
        use super::*;

        #[test]
        fn cloud() {
            every_field_is_there(DebianKernel::Cloud, DebianSuite::TrixieBackports);
        }

        #[test]
        fn rt() {
            every_field_is_there(DebianKernel::Rt, DebianSuite::TrixieBackports);
        }
    }
}
