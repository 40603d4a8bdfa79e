//! For a browser.

use anyhow::Result;
use vmnoise_report::{Beside, ComparePage, Compared, Judged};

use super::{Checked, Comparison, Run};

/// The page.
pub(super) fn render(
    threshold_ns: u64,
    window_ns: u64,
    runs: &[Run],
    comparisons: &[Comparison],
    checks: &[Checked],
) -> Result<String> {
    let runs = runs.iter().map(|run| Compared {
        file: &run.file,
        facts: &run.facts,
        sample: &run.sample,
    });
    let pairs = comparisons.iter().map(|comparison| Beside {
        second: comparison.second,
        rows: &comparison.rows,
    });
    let judged = checks.iter().map(|check| Judged {
        condition: &check.condition,
        run: check.run,
        value: check.value,
        unit: check.unit,
        holds: check.holds,
    });
    let page = ComparePage {
        threshold_ns,
        window_ns,
        runs: runs.collect(),
        pairs: pairs.collect(),
        judged: judged.collect(),
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    Ok(page.render()?)
}
