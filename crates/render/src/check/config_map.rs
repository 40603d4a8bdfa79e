//! Verdict as a patch for `kubectl patch configmap`. The patch sets the keys that KubeVirt's
//! realtime checkup writes into its ConfigMap (kiagnose/kubevirt-realtime-checkup).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use vmnoise_judge::check::{BudgetLimitResult, LimitVerdict, Quantity};

use super::{CheckResult, words};

#[derive(Debug, Serialize)]
pub(super) struct Patch {
    data: BTreeMap<&'static str, String>,
}

/// Returns the patch. The verdict "cannot tell" sets `status.succeeded` to false.
pub(super) fn patch(checked: &CheckResult<'_>) -> Result<Patch> {
    let judged = &checked.judged;
    let evidence = checked.evidence;
    let started_at: Timestamp = evidence
        .facts
        .started_at
        .parse()
        .context("reading when the run started")?;
    let length = SignedDuration::from_nanos(i64::try_from(evidence.length_ns).unwrap_or(i64::MAX));
    let ended_at = started_at
        .checked_add(length)
        .context("computing when the run ended")?;
    let is_good = matches!(judged.verdict, LimitVerdict::Pass | LimitVerdict::Warn);
    let mut data = BTreeMap::from([
        ("status.succeeded", is_good.to_string()),
        (
            "status.failureReason",
            if is_good {
                String::new()
            } else {
                let open = reasons(checked, |verdict| verdict > LimitVerdict::Warn);
                format!("{}: {open}", words::verdict(judged.verdict))
            },
        ),
        // Always written, because a patch keeps the entries of an earlier run.
        ("status.result.vmnoiseReasons", reasons(checked, |_| true)),
        ("status.startTimestamp", format!("{started_at:.0}")),
        ("status.completionTimestamp", format!("{ended_at:.0}")),
    ]);
    let max = judged
        .judgements
        .iter()
        .find(|it| it.requirement.quantity == Quantity::Max);
    if let Some(max_ns) = max.and_then(|it| it.value) {
        let us = (max_ns / 1e3).ceil();
        data.insert("status.result.oslatMaxLatencyMicroSeconds", us.to_string());
    }
    Ok(Patch { data })
}

/// Returns the reasons of the run, and those of the limits whose verdict `is_wanted` selects.
fn reasons(checked: &CheckResult<'_>, is_wanted: fn(LimitVerdict) -> bool) -> String {
    let judged = &checked.judged;
    let wanted = |it: &&BudgetLimitResult| is_wanted(it.verdict);
    let of_limits = judged.judgements.iter().filter(wanted).flat_map(|it| {
        let mut limit = it.requirement.quantity.to_string();
        if let Some(cpu) = it.cpu {
            limit += &format!(" on CPU {cpu}");
        }
        let why = words::why(checked, it);
        let why = why.into_iter().map(|why| format!("{limit}: {why}"));
        why.collect::<Vec<_>>()
    });
    let of_run = judged.reasons.iter().map(ToString::to_string);
    let all: Vec<String> = of_limits.chain(of_run).collect();
    all.join("; ")
}
