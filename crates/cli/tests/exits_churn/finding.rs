//! What finding VMs costs, and whom it can hold up.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
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

use super::beside::Exits;
use super::vms::{come_and_go, vmnoise};

/// Open on this machine, beside what is open anyway.
const FILES: usize = 20_000;
/// One process may have no more than its limit.
const FILES_EACH: usize = 2_000;
/// How long the finder is watched.
const WATCH: Duration = Duration::from_secs(3);
/// What it makes of system calls in that time for each VM there is: it looks once a second, so four
/// times at most, reads one link and waits. Being watched interrupts a wait, which begins anew.
const CALLS_PER_VM: usize = 4 * (1 + 2);
/// It looks once a second. Had it to look at all that is open, a second would take as much of a CPU as that
/// does here, at least; it may have a fourth of it.
const LOOKS: f64 = 4.0;
/// What else the machine does (cold caches, a hypervisor that takes the CPU) only adds to CPU
/// time, so the least of so many times is what is needed.
const TRIES: usize = 3;

pub fn reads_no_more_where_many_files_are_open() {
    let _holders = Children::with_files();
    let mut vm = vmnoise("microvm --exercise hlt -d 60s");
    let vm = vm.stdout(Stdio::null()).spawn().unwrap();
    let pid = vm.id();
    let _vm = Children(vec![vm]);
    while !Host::here().vms().iter().any(|it| it.pid == pid) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let exits = Exits::start("");
    let finder = exits.finder;
    // It has looked at the VMs there are.
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
    let exits = Exits::start(&format!(" -o {}", recording.display()));
    let begun = Instant::now();
    // Somebody always comes, whose name and clock are asked for.
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
    let exits = Exits::start("");
    let held = hold_to_its_end(exits.finder);
    let come = AtomicUsize::new(0);
    let more = || come.fetch_add(1, Ordering::Relaxed) < VMS;
    let gone = come_and_go(AT_A_TIME, more, || {});
    // Nor does the end of the run.
    let (reported, said) = exits.end();
    held.join().unwrap();
    let vms = reported["vms"].as_array().unwrap();
    for vm in &gone {
        let found = vms.iter().find(|it| it["vm"] == vm.pid);
        let found = found.unwrap_or_else(|| panic!("{} is missing", vm.pid));
        // Nobody could say more.
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

/// Processes that are ended when they are dropped.
struct Children(Vec<Child>);

impl Children {
    /// Together they have [`FILES`] open.
    fn with_files() -> Children {
        let limits = getrlimit(Resource::Nofile);
        let current = limits.maximum;
        setrlimit(Resource::Nofile, Rlimit { current, ..limits }).unwrap();
        // A child is given all that is not closed as it starts.
        let open = |_| rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
        let files: Vec<OwnedFd> = (0..FILES_EACH).map(open).collect();
        let sleep = |_| Command::new("sleep").arg("600").spawn().unwrap();
        Children((0..FILES / files.len()).map(sleep).collect())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a thread has of a CPU in a second of a while. A busy machine may make the while longer.
fn ns_a_second(tid: u32) -> f64 {
    let (begun, before_ns) = (Instant::now(), on_cpu_ns(tid));
    std::thread::sleep(WATCH);
    let took_ns = on_cpu_ns(tid) - before_ns;
    took_ns as f64 / begun.elapsed().as_secs_f64()
}

/// What this thread needs of a CPU to read where each file leads that any process has open.
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

/// Nanoseconds that a thread has had of a CPU (Documentation/scheduler/sched-stats.rst).
fn on_cpu_ns(tid: u32) -> u64 {
    let schedstat = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

/// The numbers of the system calls that a thread makes in a while.
fn calls_of(tid: u32) -> Vec<i64> {
    let thread = hold(tid);
    let end = Instant::now() + WATCH;
    let mut calls = Vec::new();
    while Instant::now() < end {
        ptrace::syscall(thread, None).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        let registers = ptrace::getregs(thread).unwrap();
        // It stops at their begins, where the answer is not there yet, and at their ends.
        if registers.rax.cast_signed() == -i64::from(libc::ENOSYS) {
            calls.push(registers.orig_rax.cast_signed());
        }
    }
    ptrace::detach(thread, None).unwrap();
    calls
}

/// Has a thread stand still until its process ends.
fn hold_to_its_end(tid: u32) -> JoinHandle<()> {
    let (stands, is_held) = channel();
    // Nobody but the thread that holds it can let it go.
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
