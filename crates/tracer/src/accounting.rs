//! What our own programs cost and missed, as the kernel accounts for it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{Object, libbpf_sys};
use vmnoise_events::OwnCost;

/// Sums over all programs of an object.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) cost: OwnCost,
    pub(crate) recursion_misses: u64,
}

/// Turns the kernel's accounting of BPF run time on for as long as this is held
/// (`BPF_ENABLE_STATS`, Linux 5.8). `None` where that is refused.
pub(crate) fn enable() -> Option<OwnedFd> {
    // SAFETY: takes a number and gives a file descriptor that nobody else owns.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: as above; a negative number is an error and no descriptor.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads `run_cnt`, `run_time_ns` and `recursion_misses` of every loaded program.
pub(crate) fn read(object: &Object) -> std::io::Result<Totals> {
    let mut totals = Totals::default();
    for program in object.progs() {
        if program.as_fd().as_raw_fd() < 0 {
            continue;
        }
        let info = program_info(program.as_fd())?;
        totals.cost.bpf_runs += info.run_cnt;
        totals.cost.bpf_ns += info.run_time_ns;
        totals.recursion_misses += info.recursion_misses;
    }
    Ok(totals)
}

/// `struct bpf_prog_info` without its arrays: libbpf-rs's own query fetches code
/// and line tables too, which is too dear for a reading every period.
fn program_info(program: BorrowedFd<'_>) -> std::io::Result<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is a plain structure of `len` bytes, zeroed, so that the kernel
    // follows none of its pointers.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut len)
    };
    if result < 0 {
        return Err(std::io::Error::from_raw_os_error(-result));
    }
    Ok(info)
}
