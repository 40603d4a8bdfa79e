//! Comparison as a page for a browser.

use anyhow::Result;
use vmnoise_report::{
    ComparePage, ComparedRecording, ConditionResult, GroupsBeside, RecordingComparison,
};

use super::ComparisonResult;

/// Renders the page.
pub(super) fn render(compared: &ComparisonResult) -> Result<String> {
    let runs = compared.runs.iter().map(|run| ComparedRecording {
        file: &run.file,
        facts: &run.facts,
        measured: &run.measured,
    });
    let pairs = compared
        .comparisons
        .iter()
        .map(|comparison| RecordingComparison {
            second: comparison.second,
            rows: &comparison.rows,
        });
    let judged = compared.checks.iter().map(|check| ConditionResult {
        condition: &check.condition,
        run: check.run,
        value: check.answer.value,
        unit: check.unit,
        holds: check.answer.holds,
    });
    let page = ComparePage {
        kind: compared.kind,
        threshold_ns: compared.threshold_ns,
        window_ns: compared.window_ns,
        runs: runs.collect(),
        pairs: pairs.collect(),
        groups: compared.groups.as_ref().map(|groups| GroupsBeside {
            before: groups.before,
            groups: &groups.groups,
            is_one_after_the_other: groups.is_one_after_the_other,
        }),
        judged: judged.collect(),
        limits: compared.not_seen(|at| compared.runs[at].file.clone()),
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    Ok(page.render()?)
}
