//! Comparison as a page for a browser.

use anyhow::Result;
use vmnoise_report::{Beside, ComparePage, GroupsBeside, Judged, Recording};

use super::Compared;

/// Renders the page.
pub(super) fn render(compared: &Compared) -> Result<String> {
    let runs = compared.runs.iter().map(|run| Recording {
        file: &run.file,
        facts: &run.facts,
        measured: &run.measured,
    });
    let pairs = compared.comparisons.iter().map(|comparison| Beside {
        second: comparison.second,
        rows: &comparison.rows,
    });
    let judged = compared.checks.iter().map(|check| Judged {
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
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    Ok(page.render()?)
}
