//! Compares the findings of an audit with the faults that were caused, and with the time that the
//! fix gave back.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cycle::{CycleOutcome, RecordingFindings};
use super::{FaultPlace, Gives, InjectedFault, TUNED};

/// A fault, and the audit's finding for it.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultVerdict {
    /// Description of the fault.
    pub what: &'static str,
    /// Rule of the audit that had to find the fault.
    pub rule: &'static str,
    /// Rank of the fault's finding in the audit, counted from 1; `None` if the finding explains no
    /// time.
    pub place: Option<usize>,
    /// Time that the fault took according to the kernel's own events, nanoseconds per second.
    pub injected_ns: u64,
    /// Time that the audit's finding explains, nanoseconds per second.
    pub explained_ns: u64,
    /// Part of the explained time that the change must give back, nanoseconds per second.
    pub promised_ns: u64,
    /// Noise of the CPU before the change, without the emulator's noise, nanoseconds per second.
    pub before_ns: u64,
    /// Noise of the CPU after the change, without the emulator's noise, nanoseconds per second.
    pub after_ns: u64,
}

impl FaultVerdict {
    /// Returns the decrease of the noise, nanoseconds per second; 0 if the noise rose.
    pub fn gained_ns(&self) -> u64 {
        self.before_ns.saturating_sub(self.after_ns)
    }
}

/// Compares the findings of an audit with the faults that were caused. If the change needs a
/// reboot, `after` contains the findings of a recording from a later boot.
///
/// # Errors
/// If the audit cannot be read, or `undo.sh` has not restored a file.
pub fn judge(
    faults: &[&InjectedFault],
    outcome: &CycleOutcome,
    after: Option<&RecordingFindings>,
) -> Result<Vec<FaultVerdict>> {
    let CycleOutcome {
        before,
        audit,
        not_undone,
        ..
    } = outcome;
    ensure!(not_undone.is_empty(), "undo.sh did not undo {not_undone:?}");
    let after = outcome.after.as_ref().or(after);
    let after = after.context("no recording after the change")?;
    let findings = list(&audit["findings"])?;
    let judged = faults.iter().enumerate().map(|(number, fault)| {
        let finding = findings.iter().find(|it| it["rule"] == *fault.rule);
        let explained_ns = finding.and_then(|it| it["explained_ns"].as_u64());
        if let (Some(finding), FaultPlace::UntunedUntilNextStart) = (finding, fault.place) {
            ensure_boot_is_told(finding)?;
        }
        // Findings that explain the same time share a rank. For instance, one finding names a
        // thread that works, and another says that the thread may use this CPU.
        let place = explained_ns.map(|ns| {
            let all = findings.iter().filter_map(|it| it["explained_ns"].as_u64());
            let more: BTreeSet<u64> = all.filter(|it| *it > ns).collect();
            more.len() + 1
        });
        Ok(FaultVerdict {
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

/// Returns the part of the explained time that the change must give back. A thread that never
/// sleeps keeps as much of the CPU as the measured thread: half of the time of both threads. The
/// scheduler does not know when the emulator stops a CPU, so this time is part of the time of
/// either thread.
fn promised_ns(fault: &InjectedFault, explained_ns: u64, before: &RecordingFindings) -> u64 {
    match fault.gives {
        Gives::All => explained_ns,
        Gives::AboveFairShare => {
            let own_ns = before.runtime_ns.saturating_sub(before.noise_ns);
            explained_ns.saturating_sub((explained_ns + own_ns) / 2)
        }
    }
}

/// Returns the names of the rules whose findings explain lost time.
///
/// # Errors
/// If the audit cannot be read.
pub fn explaining(audit: &Value) -> Result<Vec<&str>> {
    let explain = list(&audit["findings"])?.iter();
    let explain = explain.filter(|it| it["verdict"] == "explains");
    Ok(explain.filter_map(|it| it["rule"].as_str()).collect())
}

/// Checks that the later boot had a kernel parameter that the audit recommends. The audit separates
/// alternatives by `; or`, and one of them suffices.
fn ensure_boot_is_told(finding: &Value) -> Result<()> {
    let told: Vec<&str> = TUNED.split(' ').collect();
    for place in list(&finding["places"])? {
        let words = place["reboot"].as_str().context("no `reboot`")?;
        let mut ways = words.split(';').map(str::trim);
        ensure!(
            ways.any(|way| told.contains(&way)),
            "the other boot did not have {words}"
        );
    }
    Ok(())
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value
        .as_array()
        .with_context(|| format!("no list: {value}"))
}

impl RecordingFindings {
    /// Converts a duration in this recording to nanoseconds per second of the recording.
    fn of_second(&self, ns: u64) -> u64 {
        let per_second = u128::from(ns) * 1_000_000_000 / u128::from(self.runtime_ns.max(1));
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }
}
