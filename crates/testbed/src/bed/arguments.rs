//! Builds the arguments of QEMU, with one function for each group.

use std::path::Path;

use super::guest_files::GuestFiles;

/// CPU of a machine. It has a constant TSC, because kvm-amd of PREEMPT_RT requires one. It has no
/// CMPXCHG16B, because QEMU 7.2 corrupts the flags there, which crashed Linux 6.12 in every second
/// boot.
pub(super) const CPU: &str = "max,x-force-features=on,+invtsc,-cx16";
/// CPU of a machine with Xen. Each missing feature has a reason:
/// * SMAP: Dom0 dies at its first return to user space.
/// * x2APIC: QEMU 10.0 ends by itself ("Bad icount read") when Xen writes to it under virtual time.
/// * RDTSCP: a guest in SVM dies at this instruction, because Xen cannot know its length.
/// * AVX: programs of a guest in SVM die when they use AVX.
/// * XSAVE: Xen restores the XMM registers when CR0.TS traps their first use. QEMU's XSAVE and
///   XRSTOR ignore CR0.TS, so a guest would save Dom0's registers as its own. FXSAVE respects
///   CR0.TS.
pub(super) const CPU_FOR_XEN: &str =
    "max,x-force-features=on,+invtsc,-cx16,-x2apic,-smap,-rdtscp,-avx,-avx2,-xsave";

/// Returns the arguments of an emulated machine. The machine is the same on every host. Its CPU has
/// SVM, so KVM works in the machine even if the host has no KVM.
pub(super) fn machine(cpus: u32, memory_mib: u32, cpu: &str) -> Vec<String> {
    let (cpus, memory) = (cpus.to_string(), memory_mib.to_string());
    let mut arguments = vec!["-nodefaults", "-no-reboot", "-display", "none"];
    arguments.extend(["-m", &memory, "-smp", &cpus, "-cpu", cpu]);
    owned(&arguments)
}

/// Returns the arguments of two network cards on one wire. A packet takes 1 ms of the machine's own
/// clock, because each card waits 1 ms for more packets to send. There is no ioeventfd, because an
/// event of the host has no defined time in virtual time. There is no boot ROM.
pub(super) fn network() -> Vec<String> {
    let ends = ["a", "b"];
    let arguments = ends.map(|end| {
        let wire = format!("hubport,hubid=0,id={end}");
        let card = format!(
            "virtio-net-pci,netdev={end},tx=timer,x-txtimer=1000000,ioeventfd=off,romfile="
        );
        ["-netdev".to_owned(), wire, "-device".to_owned(), card]
    });
    arguments.concat()
}

/// Returns the arguments for the machine's clock. Without `virtual_time`, the clock follows the
/// clock of this machine. With `virtual_time`, each instruction takes 2^`virtual_time` ns, and
/// random numbers come from `seed`.
pub(super) fn time(virtual_time: Option<u8>, seed: u64) -> Vec<String> {
    let Some(shift) = virtual_time else {
        return owned(&["-accel", "tcg,thread=multi"]);
    };
    let (pace, seed) = (format!("shift={shift},sleep=off"), seed.to_string());
    let clock = "base=2025-01-01T00:00:00,clock=vm";
    let mut arguments = vec!["-accel", "tcg,thread=single"];
    arguments.extend(["-icount", &pace, "-seed", &seed, "-rtc", clock]);
    owned(&arguments)
}

/// Returns the arguments of a disk.
pub(super) fn disk(file: &Path) -> Vec<String> {
    let drive = format!("file={},format=raw,if=virtio", file.display());
    owned(&["-drive", &drive])
}

/// Returns the arguments for the kernel, its initramfs, and its command line. The command line ends
/// with `more`.
pub(super) fn kernel(
    vmlinux: &Path,
    initramfs: &Path,
    virtual_time: Option<u8>,
    more: &str,
) -> Vec<String> {
    // `panic=`: a panic ends the machine, with the reason on the console. With several emulator
    // threads the machine ends after some seconds, in which its stacks can be read. Otherwise it
    // ends at once.
    // `tsc=reliable`: the TSCs of several emulated CPUs are one clock, but the kernel cannot prove
    // it.
    // `noirqdebug`: results raise one interrupt per byte, and PREEMPT_RT handles many of these
    // interrupts at once. Without this parameter it would take the rest for unhandled interrupts
    // and disable the port.
    let mut line = "console=ttyS0 quiet tsc=reliable noirqdebug".to_owned();
    line += match virtual_time {
        Some(_) => " panic=-1",
        None => " panic=10",
    };
    if virtual_time.is_some() {
        line += " nokaslr random.trust_cpu=off";
    }
    if !more.is_empty() {
        line += &format!(" {more}");
    }
    let (vmlinux, initramfs) = (vmlinux.to_string_lossy(), initramfs.to_string_lossy());
    owned(&["-kernel", &vmlinux, "-initrd", &initramfs, "-append", &line])
}

/// Returns the arguments for Xen, which boots this kernel and initramfs as the first domain (Dom0).
/// Xen uses the first serial port, and Dom0 uses the second.
pub(super) fn xen(
    hypervisor: &Path,
    vmlinux: &Path,
    initramfs: &Path,
    scheduler: Option<&str>,
) -> Vec<String> {
    let (hypervisor, vmlinux) = (hypervisor.to_string_lossy(), vmlinux.to_string_lossy());
    let dom0 =
        format!("{vmlinux} console=hvc0 quiet panic=-1 noirqdebug nokaslr random.trust_cpu=off");
    let modules = format!("{dom0},{}", initramfs.display());
    let mut line = "console=com1 com1=115200,8n1 dom0_mem=1G,max:1G dom0_max_vcpus=1".to_owned();
    if let Some(name) = scheduler {
        line += &format!(" sched={name}");
    }
    owned(&[
        "-kernel",
        &hypervisor,
        "-initrd",
        &modules,
        "-append",
        &line,
    ])
}

/// Returns the arguments for three serial ports: the console, the results, and requests to the
/// machine's own QEMU monitor. The monitor reads requests on its stdin. The results contain no
/// kernel messages.
pub(super) fn ways_out(console: &Path, results: &Path, requests: &Path) -> Vec<String> {
    let ports = [console, results, requests].map(|path| format!("file:{}", path.display()));
    let mut arguments = owned(&["-monitor", "stdio"]);
    for port in ports {
        arguments.extend(["-serial".to_owned(), port]);
    }
    arguments
}

/// Returns the arguments of a Linux guest that uses KVM of the machine that runs this code. The
/// guest has a disk and two serial ports, for the console and the results.
pub fn guest(memory_mib: u32, kernel: &Path, initramfs: &Path, files: &GuestFiles) -> Vec<String> {
    // Linux 7.3 of Debian tests its ciphers after boot. This task takes half of a guest's quiet
    // time.
    let line = "console=ttyS0 quiet panic=-1 nokaslr random.trust_cpu=off cryptomgr.notests";
    let memory = memory_mib.to_string();
    let (kernel, initramfs) = (kernel.to_string_lossy(), initramfs.to_string_lossy());
    let disk = format!("file={},format=raw,if=virtio", files.disk.display());
    let ports = [&files.console, &files.results].map(|path| format!("file:{}", path.display()));
    let [console, results] = &ports;
    let mut arguments = vec!["-nodefaults", "-no-reboot", "-display", "none"];
    arguments.extend(["-accel", "kvm", "-cpu", "host", "-m", &memory]);
    arguments.extend(["-kernel", &kernel, "-initrd", &initramfs, "-append", line]);
    arguments.extend(["-drive", &disk, "-serial", console, "-serial", results]);
    owned(&arguments)
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|word| (*word).to_owned()).collect()
}
