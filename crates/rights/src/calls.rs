//! The system calls that a process may make while it works. In all threads, every other call fails
//! with EPERM.
//!
//! Since Linux 5.11, the kernel remembers which calls are allowed for any arguments. It does not
//! run the filter for these calls. So the calls of a measuring thread (`ioctl` of KVM_RUN, `bpf`,
//! `clock_nanosleep`, `futex`) have no conditions.

use libc::*;
use seccompiler::{Error, apply_filter_all_threads};

use super::AttachedWork;
use super::filter::{ArgumentCondition, CallAnswer, Calls, FilterRule, program};

const MEMORY: &[i64] = &[
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
];

/// Calls by which threads wait for each other, give up rights and end. The call that ends the
/// process is also here.
const THREADS: &[i64] = &[
    SYS_set_robust_list,
    SYS_rseq,
    SYS_sigaltstack,
    SYS_futex,
    SYS_gettid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_capget,
    SYS_capset,
    SYS_exit,
    SYS_exit_group,
];

/// Calls that wait for child processes that have ended.
const CHILDREN: &[i64] = &[SYS_wait4, SYS_waitid];

/// Calls for signals. A signal handler wakes the waiting thread through a pair of sockets
/// (signal-hook). Without the last two calls, Ctrl-C does nothing.
const SIGNALS: &[i64] = &[
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_restart_syscall,
    SYS_sendto,
    SYS_recvfrom,
];

const WAITING: &[i64] = &[
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_poll,
    SYS_ppoll,
    SYS_select,
    SYS_pselect6,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_wait,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_pipe2,
];

/// Calls that read facts about the machine and this process. The kernel may provide clocks and the
/// CPU's number without a call. rustix panics if one of these calls fails.
const FACTS: &[i64] = &[
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_getcpu,
    SYS_getpid,
    SYS_getppid,
    SYS_getpgid,
    SYS_getpgrp,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
];

/// Calls that use open files, search for files, and read /proc and /sys.
const FILES: &[i64] = &[
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_stat,
    SYS_lstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fstatfs,
    SYS_access,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_dup,
    SYS_dup3,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_getdents64,
    SYS_readlink,
    SYS_readlinkat,
    SYS_getcwd,
];

/// Calls for KVM_RUN, for the terminal, and for maps of BPF programs.
const KERNEL: &[i64] = &[SYS_ioctl, SYS_bpf];

/// Calls that write a file so that it appears only when it is complete. They may also create its
/// folder.
const PLACING: &[i64] = &[
    SYS_openat,
    SYS_rename,
    SYS_renameat,
    SYS_renameat2,
    SYS_unlink,
    SYS_unlinkat,
    SYS_mkdir,
    SYS_mkdirat,
];

/// Calls that change the owner of a file.
const GIVING: &[i64] = &[SYS_fchmod, SYS_fchown];

/// Calls that find the address of a server on another machine, and connect to it.
const CONNECTING: &[i64] = &[
    SYS_connect,
    SYS_bind,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_shutdown,
];

/// Calls for a feed over vsock: the host connects to this guest.
const CONNECTED: &[i64] = &[SYS_accept4, SYS_setsockopt, SYS_getsockopt, SYS_shutdown];

/// Calls that accept connections at a listener that already exists.
const ANSWERING: &[i64] = &[
    SYS_accept4,
    SYS_setsockopt,
    SYS_getsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_shutdown,
];

/// Flags of `clone` that create namespaces. They are refused, because the creator of a user
/// namespace has every capability in it. `clone` may create only threads.
const NEW: i32 = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;

/// Commands of `fcntl` that are allowed. Other commands could make a ready file send any signal to
/// any process.
const OF_DESCRIPTORS: [i32; 4] = [F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC];

/// Allows only the calls of these works, in all existing and future threads.
pub fn limit(works: &[AttachedWork]) -> Result<(), Error> {
    apply_filter_all_threads(&program(&allowed(works)))
}

/// Returns the answer to each call of these works. Calls have conditions if their arguments matter.
fn allowed(works: &[AttachedWork]) -> Calls {
    let mut anyway = vec![
        MEMORY, THREADS, CHILDREN, SIGNALS, WAITING, FACTS, FILES, KERNEL,
    ];
    if works.contains(&AttachedWork::SendSignals) {
        anyway.push(&[SYS_kill]);
    }
    let process = std::process::id().cast_signed();
    // Ctrl-Z in the screen stops all processes of the process group.
    let stop_group = vec![is(0, 0), is(1, SIGTSTP)];
    // These `prctl` commands set the names of threads and of memory.
    let name = vec![vec![is(0, PR_SET_NAME)], vec![is(0, PR_SET_VMA)]];
    let mut descriptors: Vec<FilterRule> = OF_DESCRIPTORS.map(|what| vec![is(1, what)]).into();
    descriptors.push(vec![is(1, F_SETFL), has_of(2, O_ASYNC, 0)]);
    let mut by_rules = vec![
        (SYS_tgkill, vec![vec![is(0, process)]]),
        (SYS_kill, vec![vec![is(0, process)], stop_group]),
        (SYS_prctl, name),
        (SYS_fcntl, descriptors),
        (SYS_prlimit64, vec![vec![is(0, 0)]]),
        (
            SYS_clone,
            vec![vec![has_of(0, CLONE_THREAD | NEW, CLONE_THREAD)]],
        ),
        (SYS_openat, vec![vec![reads_only()]]),
    ];
    let asks = |asked: &[AttachedWork]| asked.iter().any(|work| works.contains(work));
    if asks(&[AttachedWork::Measure, AttachedWork::ServeGuests]) {
        anyway.push(CONNECTED);
    }
    if works.contains(&AttachedWork::ServeBooks) {
        anyway.push(ANSWERING);
    }
    if asks(&[AttachedWork::SaveFiles, AttachedWork::WriteFolders]) {
        anyway.push(PLACING);
    }
    if works.contains(&AttachedWork::SaveFiles) {
        anyway.push(GIVING);
    }
    let mut sockets = Vec::new();
    if asks(&[
        AttachedWork::HearHost,
        AttachedWork::ServeGuests,
        AttachedWork::HearGuests,
    ]) {
        anyway.push(&[SYS_connect]);
        sockets.push(vec![is(0, AF_UNIX)]);
    }
    if works.contains(&AttachedWork::SendOut) {
        anyway.push(CONNECTING);
        sockets.extend([vec![is(0, AF_INET)], vec![is(0, AF_INET6)]]);
    }
    if !sockets.is_empty() {
        by_rules.push((SYS_socket, sockets));
    }
    let by_rules = by_rules.into_iter();
    let by_rules = by_rules.map(|(number, rules)| (number, CallAnswer::Where(rules)));
    let anyway = anyway.into_iter().flatten();
    let anyway = anyway.map(|number| (*number, CallAnswer::Allowed));
    // The filter cannot check the flags of `clone3`, because they are in memory. If `clone3` fails
    // with ENOSYS, the C library uses `clone`.
    let absent = [(SYS_clone3, CallAnswer::Absent)];
    // If a call is in both lists, its later entry is used, so it is allowed without conditions.
    let calls = by_rules.chain(anyway).chain(absent);
    calls
        .map(|(number, answer)| (number as u32, answer))
        .collect()
}

/// Requires that the lower half of an argument equals `value`.
fn is(argument: u32, value: i32) -> ArgumentCondition {
    has_of(argument, -1, value)
}

/// Requires that the bits `bits` of an argument equal `value`.
fn has_of(argument: u32, bits: i32, value: i32) -> ArgumentCondition {
    ArgumentCondition {
        argument,
        mask: bits.cast_unsigned(),
        value: value.cast_unsigned(),
    }
}

/// Requires that the flags of `openat` only allow reading.
fn reads_only() -> ArgumentCondition {
    has_of(2, O_ACCMODE | O_CREAT | O_TRUNC, 0)
}

#[cfg(test)]
mod tests {
    use super::super::filter::run;
    use super::*;

    /// Larger than the largest number of a call in Linux 6.18 (470).
    const NUMBERS: u32 = 512;

    /// The kernel runs the program once for every number when it takes the program. The start of
    /// every command takes this time. The test checks the number of instructions for each number.
    #[test]
    fn each_call_is_found_by_halves() {
        const ALL: [AttachedWork; 13] = [
            AttachedWork::Measure,
            AttachedWork::HearHost,
            AttachedWork::CountExits,
            AttachedWork::FindVms,
            AttachedWork::SeeVms,
            AttachedWork::ServeGuests,
            AttachedWork::SaveFiles,
            AttachedWork::SendSignals,
            AttachedWork::ServeBooks,
            AttachedWork::WatchExits,
            AttachedWork::WriteFolders,
            AttachedWork::HearGuests,
            AttachedWork::SendOut,
        ];
        for some in 0..1 << ALL.len() {
            let works = ALL
                .iter()
                .enumerate()
                .filter(|(bit, _)| some >> bit & 1 == 1);
            let works: Vec<AttachedWork> = works.map(|(_, work)| *work).collect();
            let allowed = allowed(&works);
            let program = program(&allowed);
            // Each allowed call can split a range of numbers twice. Before the search, three
            // instructions check the architecture and load the number. After the search, one
            // instruction returns the answer.
            let most = 3 + (2 * allowed.len() + 1).next_power_of_two().ilog2() + 1;
            for number in 0..NUMBERS {
                let answer = allowed.get(&number);
                if matches!(answer, Some(CallAnswer::Where(_))) {
                    continue;
                }
                let (is_allowed, steps) = run(&program, number, [0; 6]);
                let is_listed = answer == Some(&CallAnswer::Allowed);
                assert_eq!(is_allowed, is_listed, "{number}: {works:?}");
                assert!(steps <= most, "{number}: {steps} of {most}, {works:?}");
            }
        }
    }
}
