//! What an audit has to say of a fault that was brought about, and what it has to give.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cycle::{Outcome, Recorded};
use super::{Fault, Gives, Place, TUNED};

/// One fault, and what was said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What was brought about.
    pub what: &'static str,
    /// Which rule had to find it.
    pub rule: &'static str,
    /// At which place the audit has it, from 1 on; `None` where it explains nothing.
    pub place: Option<usize>,
    /// What came in by it, by the kernel's own events, nanoseconds of each second.
    pub injected_ns: u64,
    /// What the audit says that it explains, likewise.
    pub explained_ns: u64,
    /// What of it the change is to give back, likewise.
    pub promised_ns: u64,
    /// What all noise of the CPU was, without what only the emulator took, likewise.
    pub before_ns: u64,
    /// What it is after the change, likewise.
    pub after_ns: u64,
}

impl Judged {
    /// By how much the noise fell, nanoseconds of each second; 0 where it rose.
    pub fn gained_ns(&self) -> u64 {
        self.before_ns.saturating_sub(self.after_ns)
    }
}

/// Lays what the audit said beside what was brought about; `after` is another boot's where the change needs one.
///
/// # Errors
/// If the audit says what cannot be read, or its script left something changed.
pub fn judge(
    faults: &[&Fault],
    outcome: &Outcome,
    after: Option<&Recorded>,
) -> Result<Vec<Judged>> {
    let Outcome {
        before,
        audit,
        not_undone,
        ..
    } = outcome;
    ensure!(not_undone.is_empty(), "undo.sh did not undo {not_undone:?}");
    let after = outcome.after.as_ref().or(after);
    let after = after.context("nobody looked at what the change gave")?;
    let findings = list(&audit["findings"])?;
    let judged = faults.iter().enumerate().map(|(number, fault)| {
        let finding = findings.iter().find(|it| it["rule"] == *fault.rule);
        let explained_ns = finding.and_then(|it| it["explained_ns"].as_u64());
        if let (Some(finding), Place::UntunedUntilNextStart) = (finding, fault.place) {
            ensure_boot_is_told(finding)?;
        }
        // Two that explain as much, such as a thread that works and that may do so on this CPU, are at one place.
        let place = explained_ns.map(|ns| {
            let all = findings.iter().filter_map(|it| it["explained_ns"].as_u64());
            let more: BTreeSet<u64> = all.filter(|it| *it > ns).collect();
            more.len() + 1
        });
        Ok(Judged {
            what: fault.what,
            rule: fault.rule,
            place,
            injected_ns: before.of_second(before.injected_ns[number]),
            explained_ns: before.of_second(explained_ns.unwrap_or(0)),
            promised_ns: before.of_second(promised_ns(fault, explained_ns.unwrap_or(0), before)),
            before_ns: before.of_second(before.noise_ns),
            after_ns: after.of_second(after.noise_ns),
        })
    });
    judged.collect()
}

/// Whoever never sleeps keeps as much of the CPU as what is measured, of all that the two have of it. A scheduler does
/// not know when the emulator lets a CPU stand still: it is in the turn of either.
fn promised_ns(fault: &Fault, explained_ns: u64, before: &Recorded) -> u64 {
    match fault.gives {
        Gives::All => explained_ns,
        Gives::AboveFairShare => {
            let own_ns = before.runtime_ns.saturating_sub(before.noise_ns);
            explained_ns.saturating_sub((explained_ns + own_ns) / 2)
        }
    }
}

/// The rules that explain something.
///
/// # Errors
/// If the audit says what cannot be read.
pub fn explaining(audit: &Value) -> Result<Vec<&str>> {
    let explain = list(&audit["findings"])?.iter();
    let explain = explain.filter(|it| it["verdict"] == "explains");
    Ok(explain.filter_map(|it| it["rule"].as_str()).collect())
}

/// That the other boot was told what the audit says: one of what stands between `; or` there.
fn ensure_boot_is_told(finding: &Value) -> Result<()> {
    let told: Vec<&str> = TUNED.split(' ').collect();
    for place in list(&finding["places"])? {
        let words = place["reboot"].as_str().context("no `reboot`")?;
        let mut ways = words.split(';').map(str::trim);
        ensure!(
            ways.any(|way| told.contains(&way)),
            "the other boot was not told {words}"
        );
    }
    Ok(())
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value
        .as_array()
        .with_context(|| format!("no list: {value}"))
}

impl Recorded {
    /// So much of a second.
    fn of_second(&self, ns: u64) -> u64 {
        let per_second = u128::from(ns) * 1_000_000_000 / u128::from(self.runtime_ns.max(1));
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }
}
