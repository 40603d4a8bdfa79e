//! Result in Bencher's metric format: benchmarks, the measures of each benchmark, and the value of
//! each measure. Unknown values are left out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::CommandResult;

#[derive(Debug, Serialize)]
pub(super) struct Metric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

type Metrics<'a> = BTreeMap<&'a str, BTreeMap<&'static str, Metric>>;

/// Returns the measures of the last run:
///
/// - `latency`: duration of the run, in ns
/// - `noise`: upper bound of the time taken, in percent
/// - `longest-noise`: upper bound of the longest time taken without a break, in ns
pub(super) fn metrics(result: &CommandResult) -> Metrics<'_> {
    let mut measures = BTreeMap::new();
    if let Some(run) = result.runs.last() {
        let plain = |value: u64| Metric {
            value: value as f64,
            lower_value: None,
            upper_value: None,
        };
        measures.insert("latency", plain(run.done.wall_ns));
        let noise = run.evidence.noise_ppm();
        if let Some(most) = noise.most {
            let percent = |ppm: u64| ppm as f64 / 10_000.0;
            measures.insert(
                "noise",
                Metric {
                    value: percent(most),
                    lower_value: Some(percent(noise.least)),
                    upper_value: Some(percent(most)),
                },
            );
        }
        let longest = run.evidence.longest_ns;
        measures.extend(longest.most.map(|most| ("longest-noise", plain(most))));
    }
    BTreeMap::from([(result.command.as_str(), measures)])
}
