//! One vCPU: its registers, its steal clock, its TSC, and the loop that enters the guest.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, Msrs, kvm_device_attr,
    kvm_msr_entry, kvm_regs, kvm_segment,
};
use kvm_ioctls::{VcpuExit, VcpuFd};

use super::Error;
use super::clock::{Bracket, GuestClock, judge};
use super::exercise::program as exercise;
use super::guest::{DONE_PORT, GuestCommand};
use super::lapic_timer::program::CODE_SELECTOR;
use super::layout::{GDT, IDT, PAGE_TABLE, PROGRAM};
use super::stats::VcpuStat;
use super::vm::{GuestMemory, MicrovmMemory};
use crate::mailbox::{Mailbox, StealPage};
use crate::tsc;

/// Number of the MSR `MSR_KVM_STEAL_TIME` (Documentation/virt/kvm/x86/msr.rst). Bit 0 of its value
/// enables the steal clock.
const MSR_KVM_STEAL_TIME: u32 = 0x4b56_4d03;
/// Bit in ecx of CPUID leaf 1 for x2APIC mode; [`CPUID_TSC_DEADLINE`] is the bit for TSC deadlines.
const CPUID_X2APIC: u32 = 1 << 21;
const CPUID_TSC_DEADLINE: u32 = 1 << 24;
/// Number of the ioctl `_IOW(KVMIO, 0xe1, struct kvm_device_attr)`, which works on a vCPU since
/// Linux 5.16.
const KVM_SET_DEVICE_ATTR: libc::Ioctl = 0x4018_aee1;
/// Limit of a descriptor table that fills one page: the offset of its last byte.
const TABLE_LIMIT: u16 = 4095;
/// Number of brackets to measure. Of so many brackets, at least one is probably narrow.
const BRACKETS: usize = 64;

/// A vCPU that is ready for commands. The thread that runs the vCPU owns this value.
#[derive(Debug)]
pub struct GuestVcpu {
    fd: VcpuFd,
    memory: Arc<GuestMemory>,
    /// Index of the vCPU in its VM.
    pub index: usize,
    /// Host CPU on which the vCPU runs.
    pub cpu: u32,
    /// Whether KVM keeps a steal clock for the vCPU.
    pub steal_clock: bool,
    /// Whether KVM accepted the TSC offset 0.
    pub offset_accepted: bool,
    /// Relation of the vCPU's TSC to the TSC of the host.
    pub clock: GuestClock,
    /// Number of exits that the guest made on command and for which KVM_RUN returned.
    pub vmm_exits: u64,
    /// Number of KVM_RUN calls since the creation of the vCPU.
    pub kvm_runs: u64,
}

/// Privilege level of the guest program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Privilege level 0, the level of a kernel.
    Cpl0,
    /// Privilege level 3, the level of an ordinary program. No KVM has to emulate instructions at
    /// this level.
    Cpl3,
}

/// Reason why [`GuestVcpu::obey`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// The guest has finished the command.
    Done,
    /// A signal arrived, and the caller wanted to stop.
    Abandoned,
}

impl GuestVcpu {
    /// Sets up the vCPU `index` of `vm`, and measures the brackets of its clock. Call this function
    /// on the thread that will run the vCPU. The thread must already be pinned to `cpu`.
    pub fn create(vm: &MicrovmMemory, index: usize, cpu: u32) -> Result<GuestVcpu, Error> {
        let fd = vm
            .fd
            .create_vcpu(index as u64)
            .map_err(Error::kvm("KVM_CREATE_VCPU"))?;
        let mut cpuid = vm
            .kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(Error::kvm("KVM_GET_SUPPORTED_CPUID"))?;
        if vm.has_lapic {
            // Some kernels report these two features, others do not. A VMM that emulates no
            // interrupt controller of its own adds them.
            let features = cpuid.as_mut_slice().iter_mut();
            let features = features.filter(|entry| entry.function == 1);
            features.for_each(|entry| entry.ecx |= CPUID_X2APIC | CPUID_TSC_DEADLINE);
        }
        fd.set_cpuid2(&cpuid)
            .map_err(Error::kvm("KVM_SET_CPUID2"))?;
        set_segments(&fd, Privilege::Cpl3)?;
        set_registers(&fd, vm.memory.guest_addresses(index))?;

        let (mailbox, _) = vm.memory.guest_addresses(index);
        let steal_page = mailbox + std::mem::offset_of!(Mailbox, steal) as u64;
        let steal_clock = register_steal_clock(&fd, steal_page);
        let offset_accepted = set_tsc_offset(&fd, 0);
        let memory = Arc::clone(&vm.memory);
        let clock = GuestClock::UNKNOWN;
        let mut vcpu = GuestVcpu {
            fd,
            memory,
            index,
            cpu,
            steal_clock,
            offset_accepted,
            clock,
            vmm_exits: 0,
            kvm_runs: 0,
        };

        vcpu.obey(GuestCommand::Touch, &|| false)?;
        vcpu.clock = judge(&vcpu.brackets()?, offset_accepted);
        Ok(vcpu)
    }

    /// Opens KVM's counter with this name; `None` if the kernel does not have it.
    pub fn stat(&self, name: &str) -> Option<VcpuStat> {
        VcpuStat::open(&self.fd, name)
    }

    /// Sets the privilege level at which the guest program continues.
    pub fn set_privilege(&self, privilege: Privilege) -> Result<(), Error> {
        set_segments(&self.fd, privilege)
    }

    /// Lets the guest program take interrupts. The program then runs as a kernel, with its own
    /// tables of segments and handlers.
    pub fn let_take_interrupts(&self) -> Result<(), Error> {
        set_segments(&self.fd, Privilege::Cpl0)?;
        let mut sregs = self.fd.get_sregs().map_err(Error::kvm("KVM_GET_SREGS"))?;
        (sregs.gdt.base, sregs.idt.base) = (GDT, IDT);
        (sregs.gdt.limit, sregs.idt.limit) = (TABLE_LIMIT, TABLE_LIMIT);
        self.fd
            .set_sregs(&sregs)
            .map_err(Error::kvm("KVM_SET_SREGS"))
    }

    /// Enters the guest until it has finished `command`, or until a signal arrives while
    /// `abandoned` returns true. After any other signal (for instance SIGCONT after SIGSTOP), the
    /// function enters the guest again.
    pub fn obey(
        &mut self,
        command: GuestCommand,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Return, Error> {
        self.memory
            .mailbox(self.index)
            .control
            .command
            .store(command as u32, Ordering::Release);
        let exercises = command == GuestCommand::Exercise;
        while !abandoned() {
            self.kvm_runs += 1;
            match self.fd.run() {
                Ok(VcpuExit::IoOut(DONE_PORT, _)) => return Ok(Return::Done),
                Ok(VcpuExit::Intr) => {}
                Ok(VcpuExit::IoOut(exercise::PORT, _) | VcpuExit::Hlt) if exercises => {
                    self.vmm_exits += 1;
                }
                // A read of an address without memory returns all ones.
                Ok(VcpuExit::MmioRead(_, data)) if exercises => {
                    data.fill(0xff);
                    self.vmm_exits += 1;
                }
                Ok(_) => {
                    return Err(Error::Exit {
                        cpu: self.cpu,
                        reason: self.exit_reason(),
                    });
                }
                Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {}
                Err(error) => {
                    return Err(Error::Kvm {
                        call: "KVM_RUN",
                        errno: error.errno(),
                    });
                }
            }
        }
        Ok(Return::Abandoned)
    }

    fn brackets(&mut self) -> Result<Vec<Bracket>, Error> {
        (0..BRACKETS)
            .map(|_| {
                let before_tsc = tsc::now_ordered();
                self.obey(GuestCommand::Stamp, &|| false)?;
                let after_tsc = tsc::now_ordered();
                let stamp = &self.memory.mailbox(self.index).counters.stamp_tsc;
                Ok(Bracket {
                    before_tsc,
                    guest_tsc: stamp.load(Ordering::Acquire),
                    after_tsc,
                })
            })
            .collect()
    }

    /// Returns the last exit by name and number. If KVM itself failed, the text also has the
    /// details.
    fn exit_reason(&mut self) -> String {
        let run = self.fd.get_kvm_run();
        let reason = run.exit_reason;
        let name = match reason {
            0 => "KVM_EXIT_UNKNOWN",
            1 => "KVM_EXIT_EXCEPTION",
            2 => "KVM_EXIT_IO",
            5 => "KVM_EXIT_HLT",
            6 => "KVM_EXIT_MMIO",
            8 => "KVM_EXIT_SHUTDOWN (the guest program faulted)",
            9 => "KVM_EXIT_FAIL_ENTRY",
            17 => "KVM_EXIT_INTERNAL_ERROR",
            24 => "KVM_EXIT_SYSTEM_EVENT",
            _ => "KVM_EXIT",
        };
        // SAFETY: every variant of the union consists of integers, and the kernel fills the variant
        // that belongs to the exit reason.
        let detail = unsafe {
            match reason {
                9 => Some(
                    run.__bindgen_anon_1
                        .fail_entry
                        .hardware_entry_failure_reason,
                ),
                17 => Some(u64::from(run.__bindgen_anon_1.internal.suberror)),
                _ => None,
            }
        };
        match detail {
            Some(detail) => format!("{name}, number {reason}, detail {detail:#x}"),
            None => format!("{name}, number {reason}"),
        }
    }
}

/// Sets the registers for long mode.
///
/// VMX checks the whole state at entry, so all values are consistent. CS, SS and their selectors
/// have the same privilege level, the TSS is usable and busy, and there is no LDT.
fn set_segments(fd: &VcpuFd, privilege: Privilege) -> Result<(), Error> {
    let cpl: u8 = match privilege {
        Privilege::Cpl0 => 0,
        Privilege::Cpl3 => 3,
    };
    let code = kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector: CODE_SELECTOR | u16::from(cpl),
        type_: 11, // execute, read, accessed
        present: 1,
        dpl: cpl,
        s: 1,
        l: 1,
        g: 1,
        ..Default::default()
    };
    // Flags: read, write, accessed.
    let data = kvm_segment {
        selector: 0x28 | u16::from(cpl),
        type_: 3,
        l: 0,
        db: 1,
        ..code
    };
    let mut sregs = fd.get_sregs().map_err(Error::kvm("KVM_GET_SREGS"))?;
    sregs.cs = code;
    (sregs.ds, sregs.es, sregs.fs, sregs.gs, sregs.ss) = (data, data, data, data, data);
    sregs.tr = kvm_segment {
        limit: 0x67,
        selector: 0x40,
        type_: 11, // busy 64-bit TSS
        present: 1,
        ..Default::default()
    };
    sregs.ldt = kvm_segment {
        unusable: 1,
        ..Default::default()
    };
    sregs.cr0 = 0x8005_0033; // PG AM WP NE ET MP PE
    sregs.cr3 = PAGE_TABLE;
    sregs.cr4 = 0x620; // OSXMMEXCPT OSFXSR PAE
    sregs.efer = 0x501; // LMA LME SCE
    fd.set_sregs(&sregs).map_err(Error::kvm("KVM_SET_SREGS"))
}

/// Sets the general registers: interrupts off, IOPL 3, and the entry point of the program.
fn set_registers(fd: &VcpuFd, (mailbox, ring): (u64, u64)) -> Result<(), Error> {
    let regs = kvm_regs {
        rip: PROGRAM,
        rdi: mailbox,
        rsi: ring,
        rflags: 0x3002, // IOPL 3, and the bit that is always 1
        ..Default::default()
    };
    fd.set_regs(&regs).map_err(Error::kvm("KVM_SET_REGS"))
}

/// Gives KVM the address of the steal page. Returns whether KVM accepted it.
fn register_steal_clock(fd: &VcpuFd, page: u64) -> bool {
    debug_assert!(page.is_multiple_of(align_of::<StealPage>() as u64));
    let entry = kvm_msr_entry {
        index: MSR_KVM_STEAL_TIME,
        data: page | 1,
        ..Default::default()
    };
    // KVM_SET_MSRS returns the number of MSRs that it accepted.
    Msrs::from_entries(&[entry]).is_ok_and(|msrs| matches!(fd.set_msrs(&msrs), Ok(1)))
}

/// Sets this TSC offset (guest minus host, in cycles). Returns whether KVM accepted it.
fn set_tsc_offset(fd: &VcpuFd, offset_tsc: u64) -> bool {
    let attr = kvm_device_attr {
        flags: 0,
        group: KVM_VCPU_TSC_CTRL,
        attr: u64::from(KVM_VCPU_TSC_OFFSET),
        addr: &raw const offset_tsc as u64,
    };
    // SAFETY: the kernel reads the attribute and the u64 to which it points. Both are alive here.
    unsafe { libc::ioctl(fd.as_raw_fd(), KVM_SET_DEVICE_ATTR, &raw const attr) == 0 }
}
