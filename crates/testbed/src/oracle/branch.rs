//! Finds one exit in a joined result that contains much work of the host. Figure 25 of the thesis
//! on VM noise shows such an exit.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bed::{DebianKernel, DebianSuite};
use crate::pair::{DISTURBED, HOST, PairPlan};

/// Allowed length of the exit, nanoseconds: from the length of the thesis' exit to twice this
/// length.
const LONG_NS: RangeInclusive<u64> = 60_000..=120_000;
/// Value for `--top` that is far larger than the number of gaps.
const ALL: &str = "10000";

/// Boots a host with PREEMPT_RT under virtual time. The guest's vCPU shares its CPU with a task
/// that causes work for the kernel's own threads. Returns the exit that contains the most different
/// kinds of work.
///
/// # Errors
/// If the lab fails, or has no exit of an allowed length.
pub fn busiest_exit() -> Result<OracleExit> {
    let recorded = PairPlan::of(DebianKernel::Rt, DebianSuite::Own)?
        .guest_kernel(DebianKernel::Cloud)
        .virtual_time(0)
        .disturb(&["litter:0"])
        .duration("300ms")
        .record()?;
    let joined = recorded.explain(&[DISTURBED, HOST], &["-T", "20", "--top", ALL])?;
    let branch = OracleExit::of_most_kinds(&joined, recorded.kernel_version);
    branch.context("no exit is of 60 to 120 us")
}

/// An exit, and the time that the host spent in it for each kind of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OracleExit {
    /// `uname -r` of the host's kernel.
    pub host_version: String,
    /// Reason of the exit.
    pub reason: String,
    /// Length of the exit, nanoseconds.
    pub dur_ns: u64,
    /// Parts of the exit: share, name and nanoseconds. The nanoseconds add up to the exit's length.
    pub parts: Vec<(String, String, u64)>,
}

impl OracleExit {
    /// Returns the exit with the most different kinds of work among the exits of an allowed length.
    /// If several have the same number of kinds, returns the shortest.
    fn of_most_kinds(join: &Value, host_version: String) -> Option<OracleExit> {
        let trees = join["trees"].as_array()?.iter();
        let exits = trees.filter_map(|tree| tree["exits"].as_array()).flatten();
        let branches = exits.filter_map(|exit| OracleExit::of(exit, &host_version));
        let long = branches.filter(|branch| LONG_NS.contains(&branch.dur_ns));
        long.max_by_key(|branch| (branch.kinds(), std::cmp::Reverse(branch.dur_ns)))
    }

    fn of(exit: &Value, host_version: &str) -> Option<OracleExit> {
        let parts = exit["parts"].as_array()?.iter().map(|part| {
            let name = part["name"].as_str().unwrap_or_default();
            Some((
                part["share"].as_str()?.to_owned(),
                name.to_owned(),
                part["ns"].as_u64()?,
            ))
        });
        Some(OracleExit {
            host_version: host_version.to_owned(),
            reason: exit["reason"].as_str()?.to_owned(),
            dur_ns: exit["dur_ns"].as_u64()?,
            parts: parts.collect::<Option<_>>()?,
        })
    }

    fn kinds(&self) -> usize {
        let names = self.parts.iter().map(|(share, name, _)| (share, name));
        names.collect::<BTreeSet<_>>().len()
    }
}

impl std::fmt::Display for OracleExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |ns: &u64| *ns as f64 / 1e3;
        writeln!(f, "exit {}  {:.3} us", self.reason, us(&self.dur_ns))?;
        for (at, (share, name, ns)) in self.parts.iter().enumerate() {
            let stem = if at + 1 == self.parts.len() { '`' } else { '|' };
            let line = format!("  {stem}- {:>9.3} us  {share:<13}{name}", us(ns));
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_with_the_most_different_work_is_found() {
        let part =
            |name: &str, ns: u64| serde_json::json!({"share": "host_irq", "name": name, "ns": ns});
        let exit = |dur_ns: u64, parts: &[Value]| serde_json::json!({"reason": "interrupt", "dur_ns": dur_ns, "parts": parts});
        let join = serde_json::json!({"trees": [{"exits": [
            exit(90_000, &[part("a", 90_000)]),
            exit(70_000, &[part("a", 60_000), part("b", 10_000)]),
            exit(30, &[part("a", 10), part("b", 10), part("c", 10)]),
        ]}]});
        let found = OracleExit::of_most_kinds(&join, "6.1".into()).unwrap();
        assert_eq!(found.dur_ns, 70_000);
        assert_eq!(
            found.to_string(),
            "exit interrupt  70.000 us\n  |-    60.000 us  host_irq     a\n  `-    10.000 us  host_irq     b\n"
        );
    }
}
