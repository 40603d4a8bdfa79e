//! The arguments of QEMU, one function for each group.

use std::path::Path;

use super::guest_files::GuestFiles;

/// kvm-amd of PREEMPT_RT refuses a CPU without a constant TSC. CMPXCHG16B of
/// QEMU 7.2 leaves rubbish in the flags, of which 6.12 died in every second boot.
pub(super) const CPU: &str = "max,x-force-features=on,+invtsc,-cx16";
/// With SMAP a Dom0 dies of its first return to user space. QEMU 10.0 ends by itself when Xen
/// writes to an x2APIC under virtual time ("Bad icount read"). A guest in SVM dies of RDTSCP,
/// whose length Xen cannot tell, and its user space of AVX. Xen restores the registers of
/// XMM when CR0.TS traps their first use, and QEMU's XSAVE and XRSTOR do not look at CR0.TS:
/// a guest would save those of Dom0 as its own. FXSAVE does.
pub(super) const CPU_FOR_XEN: &str =
    "max,x-force-features=on,+invtsc,-cx16,-x2apic,-smap,-rdtscp,-avx,-avx2,-xsave";

/// An emulated machine: it is the same on every host, and its CPU has SVM, so that
/// KVM runs inside it where it cannot run outside.
pub(super) fn machine(cpus: u32, memory_mib: u32, cpu: &str) -> Vec<String> {
    let (cpus, memory) = (cpus.to_string(), memory_mib.to_string());
    let mut arguments = vec!["-nodefaults", "-no-reboot", "-display", "none"];
    arguments.extend(["-m", &memory, "-smp", &cpus, "-cpu", cpu]);
    owned(&arguments)
}

/// Two network cards on one wire, on which a packet takes 1 ms by the machine's own clock: a card is told to wait so
/// long for more to send. An event of the host (ioeventfd) has no place in virtual time. Nobody boots from them.
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

/// By what its time passes: that of this machine, or instructions, 2^this ns each; then what is random comes
/// from the seed.
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

/// A disk of its own.
pub(super) fn disk(file: &Path) -> Vec<String> {
    let drive = format!("file={},format=raw,if=virtio", file.display());
    owned(&["-drive", &drive])
}

/// The kernel, its initramfs and its command line, with what else it is told.
pub(super) fn kernel(
    vmlinux: &Path,
    initramfs: &Path,
    virtual_time: Option<u8>,
    more: &str,
) -> Vec<String> {
    // A panic ends the machine, with its reason on the console: at once, or where several threads emulate it
    // after some seconds, in which it can be looked at. The TSC of
    // several emulated CPUs is one clock, though the kernel cannot prove it. Results
    // make an interrupt a byte, of which PREEMPT_RT handles many at once: it would take
    // the rest for an unhandled storm, and shut the port.
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

/// Xen, and what it boots: a kernel with its initramfs as the first domain (Dom0).
/// Xen itself has the first serial port, Dom0 the second.
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

/// Three serial ports: the console, results that no kernel message gets into, and
/// requests to the machine's own monitor, which reads them on its stdin.
pub(super) fn ways_out(console: &Path, results: &Path, requests: &Path) -> Vec<String> {
    let ports = [console, results, requests].map(|path| format!("file:{}", path.display()));
    let mut arguments = owned(&["-monitor", "stdio"]);
    for port in ports {
        arguments.extend(["-serial".to_owned(), port]);
    }
    arguments
}

/// A Linux guest on the KVM of the machine that this runs on, with a disk and two serial ports: the console,
/// and results.
pub fn guest(memory_mib: u32, kernel: &Path, initramfs: &Path, files: &GuestFiles) -> Vec<String> {
    // Debian's 7.3 tests its ciphers after boot, in a task of its own: half of a guest's quiet time.
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
