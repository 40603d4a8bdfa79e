//! Tests of the cost of finding VMs, and of what a slow finder can delay.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::gettid;
use vmnoise_host::Host;
use vmnoise_testkit::TestProcess;

use super::beside::ExitCounter;
use super::vms::{come_and_go, vmnoise};
use crate::guest_vm;

/// Number of files opened on this machine in addition to the others.
const FILES: usize = 20_000;
/// Number of files in one process, which has a limit.
const FILES_EACH: usize = 2_000;
/// Time for which the finder is watched.
const WATCH: Duration = Duration::from_secs(3);
/// Largest number of system calls in that time for each VM. The finder looks once a second, so at
/// most four times, reads one link and waits. Tracing interrupts a wait, which then begins again.
const CALLS_PER_VM: usize = 4 * (1 + 2);
/// Divisor for the CPU time of the finder. If it looked at all open files each second, it would
/// take at least as much CPU time as that takes here; it may take a fourth.
const LOOKS: f64 = 4.0;
/// Number of measurements, of which the least counts: other load (cold caches, a hypervisor) only
/// adds CPU time.
const TRIES: usize = 3;

pub fn reads_no_more_where_many_files_are_open() {
    let _holders = holders();
    let mut vm = vmnoise("microvm --exercise hlt -d 60s");
    let vm = TestProcess::start(vm.stdout(Stdio::null()));
    guest_vm::found(&vm);
    let exits = ExitCounter::start("");
    let finder = exits.finder;
    // The finder has already looked at the VMs that exist.
    std::thread::sleep(Duration::from_secs(2));
    let look_ns = (0..TRIES).map(|_| look_ns()).min().unwrap() as f64;
    let mut least_ns = f64::INFINITY;
    for _ in 0..TRIES {
        least_ns = least_ns.min(ns_a_second(finder));
        if LOOKS * least_ns <= look_ns {
            break;
        }
    }
    let calls = calls_of(finder).len();
    let vms = Host::here().vms().len();
    exits.end();
    println!(
        "{least_ns:.0} ns of CPU time a second and {calls} system calls in {WATCH:?}, beside {FILES} files; a look \
         at them all takes {look_ns:.0} ns"
    );
    assert!(LOOKS * least_ns <= look_ns, "{least_ns:.0} ns a second");
    assert!(calls <= CALLS_PER_VM * vms, "{calls} calls for {vms} VMs");
    assert!(calls > 0, "it looks whether the VM is still there");
}

pub fn leaves_no_file_to_the_loop() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("host.vmn");
    let exits = ExitCounter::start(&format!(" -o {}", recording.display()));
    let begun = Instant::now();
    // New VMs come all the time, and each needs a name and a clock.
    let churn = std::thread::spawn(move || come_and_go(2, || begun.elapsed() < 2 * WATCH, || {}));
    let calls = calls_of(exits.pid());
    let gone = churn.join().unwrap();
    let (reported, _) = exits.end();
    let vms = reported["vms"].as_array().unwrap();
    let found = gone
        .iter()
        .filter(|gone| vms.iter().any(|vm| vm["vm"] == gone.pid));
    assert!(found.count() > 0, "nobody was found");
    let of_files = [libc::SYS_openat, libc::SYS_readlink, libc::SYS_getdents64];
    assert!(calls.contains(&libc::SYS_bpf), "it drains: {calls:?}");
    assert!(
        !calls.iter().any(|call| of_files.contains(call)),
        "{calls:?}"
    );
}

pub fn is_waited_for_by_nobody() {
    const VMS: usize = 40;
    const AT_A_TIME: usize = 8;
    let exits = ExitCounter::start("");
    let held = hold_to_its_end(exits.finder);
    let come = AtomicUsize::new(0);
    let more = || come.fetch_add(1, Ordering::Relaxed) < VMS;
    let gone = come_and_go(AT_A_TIME, more, || {});
    // The end of the run does not wait for it either.
    let (reported, said) = exits.end();
    held.join().unwrap();
    let vms = reported["vms"].as_array().unwrap();
    for vm in &gone {
        let found = vms.iter().find(|it| it["vm"] == vm.pid);
        let found = found.unwrap_or_else(|| panic!("{} is missing", vm.pid));
        // Nothing else is known of these VMs.
        assert_eq!(found["name"], format!("vm:{}", vm.pid));
    }
    for kind in ["ring_full", "recursion", "undecodable", "vcpus_full"] {
        assert_eq!(reported["losses"][kind], 0, "{}", reported["losses"]);
    }
    assert_eq!(
        said.matches("/proc or debugfs does not answer").count(),
        1,
        "{said}"
    );
}

/// Starts processes that together have [`FILES`] open files.
fn holders() -> Vec<TestProcess> {
    let limits = getrlimit(Resource::Nofile);
    let current = limits.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limits }).unwrap();
    // A child inherits all files without close-on-exec.
    let open = |_| rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
    let files: Vec<OwnedFd> = (0..FILES_EACH).map(open).collect();
    let sleep = |_| TestProcess::start(Command::new("sleep").arg("600"));
    (0..FILES / files.len()).map(sleep).collect()
}

/// Returns the CPU time of a thread per second, over a time that a busy machine may lengthen.
fn ns_a_second(tid: u32) -> f64 {
    let (begun, before_ns) = (Instant::now(), on_cpu_ns(tid));
    std::thread::sleep(WATCH);
    let took_ns = on_cpu_ns(tid) - before_ns;
    took_ns as f64 / begun.elapsed().as_secs_f64()
}

/// Returns the CPU time that this thread needs to read the links of all open files of all
/// processes.
fn look_ns() -> u64 {
    let this = gettid().as_raw_nonzero().get().cast_unsigned();
    let before_ns = on_cpu_ns(this);
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let folders = processes.filter_map(|it| fs::read_dir(it.path().join("fd")).ok());
    let links = folders.flat_map(|folder| folder.flatten());
    let read = links.filter(|link| fs::read_link(link.path()).is_ok());
    assert!(read.count() >= FILES);
    on_cpu_ns(this) - before_ns
}

/// Returns the CPU time of a thread so far, in ns (Documentation/scheduler/sched-stats.rst).
fn on_cpu_ns(tid: u32) -> u64 {
    let schedstat = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

/// Returns the numbers of the system calls that a thread makes while it is watched.
fn calls_of(tid: u32) -> Vec<i64> {
    let thread = hold(tid);
    let end = Instant::now() + WATCH;
    let mut calls = Vec::new();
    while Instant::now() < end {
        ptrace::syscall(thread, None).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        let registers = ptrace::getregs(thread).unwrap();
        // The thread stops at the entry of a call, where the result is still ENOSYS, and at its
        // exit.
        if registers.rax.cast_signed() == -i64::from(libc::ENOSYS) {
            calls.push(registers.orig_rax.cast_signed());
        }
    }
    ptrace::detach(thread, None).unwrap();
    calls
}

/// Stops a thread until its process ends.
fn hold_to_its_end(tid: u32) -> JoinHandle<()> {
    let (stands, is_held) = channel();
    // Only the thread that traces it can release it.
    let holder = std::thread::spawn(move || {
        let thread = hold(tid);
        stands.send(()).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
    });
    is_held.recv().unwrap();
    holder
}

fn hold(tid: u32) -> Pid {
    let thread = Pid::from_raw(tid.cast_signed());
    ptrace::seize(thread, ptrace::Options::empty()).unwrap();
    ptrace::interrupt(thread).unwrap();
    waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
    thread
}
