//! Makes a thread of another process do a system call, and returns the kernel's answer.

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::status::ThreadStatus;

/// Code of the instruction `syscall`.
const SYSCALL: i64 = 0x050f;

/// Unused number of a descriptor: an allowed call answers EBADF.
const NO_FILE: u64 = 1 << 20;
/// From include/uapi/asm-generic/fcntl.h.
const F_SETSIG: u64 = 10;

/// Makes a thread try calls that no thread at work needs. If allowed, each would get another answer
/// than EPERM: mostly EFAULT, since it passes no valid memory.
pub fn refused(thread: &ThreadStatus) {
    let tid = Pid::from_raw(thread.number("Pid").try_into().unwrap());
    let tgid = thread.number("Tgid");
    let held = Held::of(tid);
    assert_eq!(held.calls(libc::SYS_getpid, [0; 3]), tgid.cast_signed());
    let here = libc::AT_FDCWD as u64;
    for (what, number, arguments) in [
        ("execve", libc::SYS_execve, [0, 0, 0]),
        ("a program by its file", libc::SYS_execveat, [0, 0, 0]),
        (
            "writing a file",
            libc::SYS_openat,
            [here, 0, libc::O_WRONLY as u64],
        ),
        (
            "making a file",
            libc::SYS_openat,
            [here, 0, libc::O_CREAT as u64],
        ),
        (
            "the network",
            libc::SYS_socket,
            [libc::AF_INET as u64, 1, 0],
        ),
        ("a signal to init", libc::SYS_kill, [1, 0, 0]),
        ("memory of others", libc::SYS_process_vm_readv, [tgid, 0, 0]),
        ("a name space", libc::SYS_unshare, [0, 0, 0]),
        ("another user", libc::SYS_setuid, [0, 0, 0]),
        // A read-only descriptor is enough to change the mode of a file of the same user.
        ("the mode of a file", libc::SYS_fchmod, [NO_FILE, 0o4755, 0]),
        (
            "a signal from a descriptor",
            libc::SYS_fcntl,
            [NO_FILE, libc::F_SETOWN as u64, 1],
        ),
        (
            "which signal that is",
            libc::SYS_fcntl,
            [NO_FILE, F_SETSIG, libc::SIGKILL as u64],
        ),
        (
            "its sending",
            libc::SYS_fcntl,
            [NO_FILE, libc::F_SETFL as u64, libc::O_ASYNC as u64],
        ),
        ("limits of init", libc::SYS_prlimit64, [1, 0, 0]),
        ("a process", libc::SYS_clone, [libc::SIGCHLD as u64, 0, 0]),
        (
            "a user namespace",
            libc::SYS_clone,
            [libc::CLONE_NEWUSER as u64, 0, 0],
        ),
        ("a connection", libc::SYS_connect, [NO_FILE, 0, 0]),
        ("a perf event", libc::SYS_perf_event_open, [0, 0, 0]),
    ] {
        let answer = held.calls(number, arguments);
        assert_eq!(answer, -i64::from(libc::EPERM), "{what}: {thread:?}");
    }
    // The flags of this call are in memory, so a filter cannot check them. After ENOSYS, glibc uses
    // `clone` instead.
    let answer = held.calls(libc::SYS_clone3, [0, 0, 0]);
    assert_eq!(answer, -i64::from(libc::ENOSYS));
    // Opening the same file for reading is allowed and fails, since there is no name.
    let answer = held.calls(libc::SYS_openat, [here, 0, libc::O_RDONLY as u64]);
    assert_eq!(answer, -i64::from(libc::EFAULT));
}

/// Thread that is stopped in a system call, and continues with it later.
struct Held {
    tid: Pid,
    before: libc::user_regs_struct,
}

impl Held {
    fn of(tid: Pid) -> Held {
        loop {
            ptrace::seize(tid, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
            ptrace::interrupt(tid).unwrap();
            wait(tid);
            let before = ptrace::getregs(tid).unwrap();
            let place = (before.rip - 2) as ptrace::AddressType;
            if before.orig_rax.cast_signed() >= 0
                && ptrace::read(tid, place).is_ok_and(|code| code & 0xffff == SYSCALL)
            {
                return Held { tid, before };
            }
            // The thread was not in a system call.
            ptrace::detach(tid, None).unwrap();
        }
    }

    /// Runs the instruction once more, with other registers.
    fn calls(&self, number: i64, [first, second, third]: [u64; 3]) -> i64 {
        let registers = libc::user_regs_struct {
            rip: self.before.rip - 2,
            rax: number.cast_unsigned(),
            // Prevents the kernel from restarting the call.
            orig_rax: u64::MAX,
            rdi: first,
            rsi: second,
            rdx: third,
            ..self.before
        };
        ptrace::setregs(self.tid, registers).unwrap();
        // One stop at its entry and one at its exit.
        for _ in 0..2 {
            ptrace::syscall(self.tid, None).unwrap();
            wait(self.tid);
        }
        ptrace::getregs(self.tid).unwrap().rax.cast_signed()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let again = libc::user_regs_struct {
            rip: self.before.rip - 2,
            rax: self.before.orig_rax,
            orig_rax: u64::MAX,
            ..self.before
        };
        let _ = ptrace::setregs(self.tid, again);
        let _ = ptrace::detach(self.tid, None);
    }
}

fn wait(tid: Pid) {
    waitpid(tid, Some(WaitPidFlag::__WALL)).unwrap();
}
