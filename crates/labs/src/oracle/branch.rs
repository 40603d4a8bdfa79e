//! One exit out of a join, and all that the host did in it: the kind of exit that the
//! thesis on VM noise draws in its Figure 25.

use std::collections::BTreeSet;

use serde_json::Value;

/// As long as the thesis' own, nanoseconds.
const LONG_NS: u64 = 60_000;

/// An exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Why the guest was left.
    pub reason: String,
    /// How long it was, nanoseconds.
    pub dur_ns: u64,
    /// Share, name and nanoseconds of each part, which add up to it.
    pub parts: Vec<(String, String, u64)>,
}

impl Branch {
    /// Of all exits that were longer than those of the thesis, the one with the most
    /// different work in it; of several the shortest.
    pub fn of_most_kinds(joins: &[&Value]) -> Option<Branch> {
        let trees = joins.iter().filter_map(|join| join["trees"].as_array());
        let exits = trees
            .flatten()
            .filter_map(|tree| tree["exits"].as_array())
            .flatten();
        let branches = exits.filter_map(Branch::of);
        let long = branches.filter(|branch| branch.dur_ns > LONG_NS);
        long.max_by_key(|branch| (branch.kinds(), std::cmp::Reverse(branch.dur_ns)))
    }

    fn of(exit: &Value) -> Option<Branch> {
        let parts = exit["parts"].as_array()?.iter().map(|part| {
            let name = part["name"].as_str().unwrap_or_default();
            Some((
                part["share"].as_str()?.to_owned(),
                name.to_owned(),
                part["ns"].as_u64()?,
            ))
        });
        Some(Branch {
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

impl std::fmt::Display for Branch {
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
        let found = Branch::of_most_kinds(&[&join]).unwrap();
        assert_eq!(found.dur_ns, 70_000);
        assert_eq!(
            found.to_string(),
            "exit interrupt  70.000 us\n  |-    60.000 us  host_irq     a\n  `-    10.000 us  host_irq     b\n"
        );
    }
}
