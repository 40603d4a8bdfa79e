//! Number of events that our programs missed, as the kernel counts them.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{Object, libbpf_sys};

/// Returns the sum of `recursion_misses` of the loaded programs for whose name `named` returns
/// true.
pub(crate) fn misses_of(object: &Object, named: &dyn Fn(&OsStr) -> bool) -> std::io::Result<u64> {
    let mut misses = 0;
    for program in object.progs() {
        if program.as_fd().as_raw_fd() < 0 || !named(program.name()) {
            continue;
        }
        misses += program_info(program.as_fd())?.recursion_misses;
    }
    Ok(misses)
}

/// Returns `struct bpf_prog_info` without its arrays. libbpf-rs also fetches code and line tables,
/// which costs too much for a reading every period.
fn program_info(program: BorrowedFd<'_>) -> std::io::Result<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is a plain structure of `len` bytes. It is zeroed, so the kernel follows none
    // of its pointers.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut len)
    };
    if result < 0 {
        return Err(std::io::Error::from_raw_os_error(-result));
    }
    Ok(info)
}
