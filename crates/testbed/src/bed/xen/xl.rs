//! Runs `xl` (xl(1)), with which Dom0 controls Xen.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::super::apt::call;

/// Runs `xl` with these arguments, and returns its stdout.
///
/// # Errors
/// If `xl` is missing or fails. The error contains the message of `xl`.
pub fn said(arguments: &[&str]) -> Result<String> {
    call("xl", arguments, Path::new("."))
}

/// Returns the number of the domain of this name; `None` if there is none.
///
/// # Errors
/// If `xl` fails.
pub fn domain(name: &str) -> Result<Option<u32>> {
    Ok(number_of(name, &said(&["list"])?))
}

/// Finds the number in the output of `xl list`. Each line begins with a domain's name and number.
fn number_of(name: &str, list: &str) -> Option<u32> {
    let mut domains = list.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    let (_, number) = domains.find(|(known, _)| *known == name)?;
    number.parse().ok()
}

/// Returns the process ID of the QEMU that emulates the machine of an HVM guest. `domain` is the
/// number of the guest's domain.
///
/// # Errors
/// If there is no such process.
pub fn device_model(domain: u32) -> Result<u32> {
    for process in fs::read_dir("/proc")?.flatten() {
        let path = process.path();
        let text = |name| fs::read_to_string(path.join(name)).unwrap_or_default();
        let program = fs::read_link(path.join("exe")).unwrap_or_default();
        if is_device_model(domain, &text("cmdline"), &text("status"), &program) {
            let pid = process.file_name();
            return Ok(pid.to_str().context("no process")?.parse()?);
        }
    }
    bail!("no QEMU of root runs for domain {domain}: the guest is not HVM")
}

/// Returns whether a process is the QEMU of this domain. libxl starts this QEMU with known
/// arguments (libxl_dm.c). Any process can have these arguments, even a setuid program that another
/// user started. So the process must also be a QEMU, and all of its user IDs must be root.
fn is_device_model(domain: u32, command_line: &str, status: &str, program: &Path) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let is_root = users.is_some_and(|users| users.split_whitespace().all(|user| user == "0"));
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let is_of_domain = command_line.contains(&format!("\0-xen-domid\0{domain}\0"));
    is_of_domain && is_root && name.contains("qemu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_found_by_its_name() {
        let list = "Name                                        ID   Mem VCPUs\tState\tTime(s)\n\
                    Domain-0                                     0  1024     1     r-----      13.1\n\
                    lab-10                                       7   512     1     -b----       0.1\n";
        assert_eq!(number_of("lab-10", list), Some(7));
        assert_eq!(number_of("lab-1", list), None);
        assert_eq!(number_of("Name", list), None);
    }

    #[test]
    fn a_process_with_the_arguments_of_a_device_model_is_not_one_yet() {
        let is_it = |domain, users: &str, program: &str| {
            let command_line = ["qemu", "-xen-domid", "7", "-no-shutdown", ""].join("\0");
            let status = format!("Name:\tqemu\nUid:\t{users}\nGid:\t0\t0\t0\t0\n");
            is_device_model(domain, &command_line, &status, Path::new(program))
        };
        let qemu = "/usr/libexec/xen-qemu-system-i386";
        let root = "0\t0\t0\t0";
        assert!(is_it(7, root, qemu));
        assert!(!is_it(70, root, qemu), "of another domain");
        assert!(!is_it(7, "1000\t1000\t1000\t1000", qemu), "of a user");
        assert!(!is_it(7, root, "/usr/bin/sleep"), "no QEMU");
        assert!(!is_it(7, "1000\t0\t0\t0", "/usr/bin/passwd"), "lent rights");
    }
}
