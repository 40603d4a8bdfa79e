//! `xl`, by which a Dom0 is asked and told: xl(1).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::super::apt::call;

/// What it prints.
///
/// # Errors
/// If it is not there or fails, with what it says.
pub fn said(arguments: &[&str]) -> Result<String> {
    call("xl", arguments, Path::new("."))
}

/// The number of the domain of this name, if there is one.
///
/// # Errors
/// If `xl` does not tell.
pub fn domain(name: &str) -> Result<Option<u32>> {
    Ok(number_of(name, &said(&["list"])?))
}

/// Out of lines of a name, a number, and more.
fn number_of(name: &str, list: &str) -> Option<u32> {
    let mut domains = list.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    let (_, number) = domains.find(|(known, _)| *known == name)?;
    number.parse().ok()
}

/// The process of the QEMU that is the machine of an HVM guest, by the number of its domain.
///
/// # Errors
/// If there is none.
pub fn device_model(domain: u32) -> Result<u32> {
    // As libxl starts it (libxl_dm.c).
    let words = format!("\0-xen-domid\0{domain}\0");
    for process in fs::read_dir("/proc")?.flatten() {
        let line = fs::read_to_string(process.path().join("cmdline"));
        if line.is_ok_and(|line| line.contains(&words)) {
            let pid = process.file_name();
            return Ok(pid.to_str().context("no process")?.parse()?);
        }
    }
    bail!("no QEMU runs for domain {domain}: the guest is not HVM")
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
}
