//! Reads the figures of a run of cyclictest, which measures latencies but not their causes.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::RepetitionFigures;

/// Fields of cyclictest's JSON that are read (rt-tests, file_version 1).
#[derive(Debug, Deserialize)]
struct Document {
    sysinfo: Machine,
    /// 1 if lengths are in nanoseconds, 0 if they are in microseconds.
    resolution_in_ns: u8,
    thread: Threads,
}

#[derive(Debug, Deserialize)]
struct Machine {
    release: String,
}

/// Threads of the run. The run has only one.
#[derive(Debug, Deserialize)]
struct Threads {
    #[serde(rename = "0")]
    first: Thread,
}

#[derive(Debug, Deserialize)]
struct Thread {
    /// Number of samples of each length, up to the largest length that has a counter.
    histogram: std::collections::BTreeMap<String, u64>,
    cycles: u64,
    max: u64,
}

pub(super) fn figures(file: &Path) -> Result<RepetitionFigures> {
    let place = || file.display().to_string();
    let text = std::fs::read(file).with_context(place)?;
    let document: Document = serde_json::from_slice(&text).with_context(place)?;
    of(document).with_context(place)
}

fn of(document: Document) -> Result<RepetitionFigures> {
    let thread = document.thread.first;
    ensure!(thread.cycles > 0, "no sample");
    let ns = if document.resolution_in_ns == 0 {
        1_000
    } else {
        1
    };
    let mut lengths = Vec::new();
    for (length, count) in &thread.histogram {
        lengths.push((length.parse::<u64>()? * ns, *count));
    }
    lengths.sort_unstable();
    let worst_ns = thread.max * ns;
    let mut caveats =
        vec!["cyclictest reports neither culprits nor the wake-ups it skipped".to_owned()];
    let counted: u64 = lengths.iter().map(|(_, count)| count).sum();
    let uncounted = thread.cycles.saturating_sub(counted);
    if uncounted > 0 {
        caveats.push(format!(
            "{uncounted} were too long for the histogram: a quantile among them is not known"
        ));
    }
    Ok(RepetitionFigures {
        lengths,
        uncounted,
        worst_ns,
        // cyclictest names no culprit, so the whole latency is unexplained.
        unexplained_ns: worst_ns,
        kernel: document.sysinfo.release,
        caveats,
        ..RepetitionFigures::default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::scenario::Statistic;

    fn document(resolution_in_ns: u8, cycles: u64) -> Document {
        let text = format!(
            r#"{{"file_version": 1, "rt_test_version:": "2.40", "sysinfo": {{"release": "6.1", "realtime": 0}},
                "resolution_in_ns": {resolution_in_ns},
                "thread": {{"0": {{"histogram": {{"9": 3, "13": 1, "60": 1}}, "cycles": {cycles}, "max": 70, "cpu": 0}}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn its_histogram_gives_the_figures_and_nobody_is_named() {
        let figures = of(document(0, 5)).unwrap();
        assert_eq!(figures.lengths, [(9_000, 3), (13_000, 1), (60_000, 1)]);
        for (statistic, figure) in [
            (Statistic::Worst, 70_000.0),
            (Statistic::Median, 9_000.0),
            (Statistic::Under50us, 0.8),
            (Statistic::Explained, 0.0),
        ] {
            assert_eq!(figures.statistic(statistic), Some(figure), "{statistic}");
        }
        assert!(figures.who.is_empty() && figures.caveats[0].contains("reports neither culprits"));
    }

    #[test]
    fn of_what_has_no_counter_only_the_longest_is_known() {
        let figures = of(document(1, 7)).unwrap();
        assert_eq!(figures.lengths, [(9, 3), (13, 1), (60, 1)]);
        assert_eq!(figures.count(), 7);
        let quantiles = [0.7, 0.8, 1.0].map(|part| figures.quantile_ns(part));
        assert_eq!(quantiles, [Some(60), None, Some(70)]);
        assert_eq!(
            of(document(1, 11)).unwrap().statistic(Statistic::Median),
            None
        );
        assert!(
            figures.caveats[1].contains("2 were too long"),
            "{:?}",
            figures.caveats
        );
        assert!(of(document(1, 0)).is_err(), "nothing was measured");
    }
}
