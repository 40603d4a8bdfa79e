//! Holds what a guest of Xen says was stolen against the books of Xen itself: when its
//! vCPU was ready to run, and waited.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::trace::{self, Kind, seconds_ns};

/// A wait of the vCPU, on Xen's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    end_ns: u64,
    dur_ns: u64,
}

/// In how many places of a gap its steal is looked for.
const PLACES: u64 = 8;

/// A gap in the guest, or a wake-up that came late, on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    start_ns: u64,
    end_ns: u64,
    steal_ns: u64,
}

/// A gap in which something was stolen, and Xen's waits within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// What the guest says was stolen.
    pub steal_ns: u64,
    /// What Xen says.
    pub waited_ns: u64,
}

/// Compares each gap of `vmnoise osnoise trace` with at least this much steal with Xen's waits
/// in it.
///
/// # Errors
/// If the trace or the waits cannot be read, or nothing was stolen.
pub fn compare(trace: &str, waits: &str, at_least_ns: u64) -> Result<Vec<Compared>> {
    beside_waits(gaps(trace)?, waits, at_least_ns)
}

/// Compares the latest wake-ups that `vmnoise timerlat` lists in the same way.
///
/// # Errors
/// If the result or the waits cannot be read, or nothing was stolen.
pub fn compare_latencies(result: &Value, waits: &str, at_least_ns: u64) -> Result<Vec<Compared>> {
    let worst = result["cpus"][0]["worst"].as_array();
    let worst = worst.context("a result without its latest wake-ups")?;
    let latencies = worst.iter().map(latency).collect::<Option<Vec<_>>>();
    beside_waits(latencies.context("no wake-ups")?, waits, at_least_ns)
}

/// The clocks are laid over each other so that the two differ the least.
fn beside_waits(mut gaps: Vec<Gap>, waits: &str, at_least_ns: u64) -> Result<Vec<Compared>> {
    gaps.retain(|gap| gap.steal_ns >= at_least_ns);
    gaps.sort_by_key(|gap| gap.start_ns);
    let waits = waits.lines().map(wait).collect::<Result<Vec<_>>>()?;
    let first = gaps.first().context("nothing was stolen")?;
    let slack_ns = (first.end_ns - first.start_ns).saturating_sub(first.steal_ns);
    let came_back_ns: Vec<u64> = (0..=PLACES)
        .map(|place| first.start_ns + first.steal_ns + slack_ns * place / PLACES)
        .collect();
    // Which clock is ahead is not known.
    let offsets = waits.iter().flat_map(|wait| {
        let back_ns = came_back_ns.iter();
        back_ns.map(|&back_ns| wait.end_ns.wrapping_sub(back_ns))
    });
    let compared = offsets.map(|offset| {
        let compare = |gap: &Gap| Compared {
            steal_ns: gap.steal_ns,
            waited_ns: waited_ns(&waits, *gap, offset),
        };
        gaps.iter().map(compare).collect::<Vec<Compared>>()
    });
    let differ_ns = |all: &Vec<Compared>| -> u64 {
        let each = all.iter().map(|it| it.steal_ns.abs_diff(it.waited_ns));
        each.sum()
    };
    compared
        .min_by_key(differ_ns)
        .context("Xen tells of no wait")
}

/// What of the waits lies in a gap, of those that ended there. Between the end of a wait and
/// that of its gap the guest's kernel handles what came meanwhile.
fn waited_ns(waits: &[Wait], gap: Gap, offset_ns: u64) -> u64 {
    let within = |wait: &Wait| {
        let end_ns = wait.end_ns.wrapping_sub(offset_ns);
        let ended_here = (gap.start_ns..=gap.end_ns).contains(&end_ns);
        ended_here.then(|| wait.dur_ns.min(end_ns - gap.start_ns))
    };
    waits.iter().filter_map(within).sum()
}

/// A wake-up, from its planned expiry.
fn latency(worst: &Value) -> Option<Gap> {
    let start_ns = worst["expiry_mono_ns"].as_u64()?;
    let parts = worst["parts"].as_array()?.iter();
    let stolen = parts.filter(|part| part["share"] == "steal");
    Some(Gap {
        start_ns,
        end_ns: start_ns + worst["latency_ns"].as_u64()?,
        steal_ns: stolen.filter_map(|part| part["ns"].as_u64()).sum(),
    })
}

/// Lines of a gap and of its budget follow each other.
fn gaps(trace: &str) -> Result<Vec<Gap>> {
    let samples = trace::lines(trace)?.into_iter();
    let samples = samples.filter(|line| line.kind == Kind::Sample);
    let budgets = trace
        .lines()
        .filter_map(|line| line.split_once(": sample_budget: "));
    let budgets = budgets
        .map(|(_, budget)| steal_ns(budget))
        .collect::<Result<Vec<_>>>()?;
    let gaps: Vec<Gap> = samples
        .zip(&budgets)
        .map(|(line, &steal_ns)| Gap {
            start_ns: line.start_ns,
            end_ns: line.start_ns + line.dur_ns,
            steal_ns,
        })
        .collect();
    ensure!(gaps.len() == budgets.len(), "a budget without its gap");
    Ok(gaps)
}

/// Out of `5 ns = 3 ns steal + 2 ns hv_or_hw (residual)`.
fn steal_ns(budget: &str) -> Result<u64> {
    let (_, parts) = budget.split_once(" = ").context("a budget of nothing")?;
    let mut parts = parts.split(" + ");
    let steal = parts.find_map(|part| part.strip_suffix(" ns steal"));
    Ok(steal.map_or(Ok(0), str::parse)?)
}

/// `0.020012928 9978.461`: xenalyze prints the fraction of a microsecond without the zeros
/// in front, so that it may be off by one.
fn wait(line: &str) -> Result<Wait> {
    let (end, length) = line.split_once(' ').context("a wait without a length")?;
    let (whole_us, fraction_ns) = length.split_once('.').unwrap_or((length, "0"));
    Ok(Wait {
        end_ns: seconds_ns(end)?,
        dur_ns: whole_us.parse::<u64>()? * 1000 + fraction_ns.parse::<u64>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
        [000] 7.010100: sample_threshold: start 7.000000000 duration 10100000 ns interference 1\n\
        [000] 7.010100: sample_budget: 10100000 ns = 10000000 ns steal + 100000 ns irq timer0:0\n\
        [000] 7.011000: sample_threshold: start 7.010990000 duration 4000 ns interference 0\n\
        [000] 7.011000: sample_budget: 4000 ns = 4000 ns hv_or_hw (residual)\n\
        [000] 7.025060: sample_threshold: start 7.020000000 duration 5050000 ns interference 0\n\
        [000] 7.025060: sample_budget: 5050000 ns = 5000000 ns steal + 50000 ns hv_or_hw (residual)\n";

    #[test]
    fn waits_are_found_in_the_gaps_they_ended_in() {
        // Before the first gap, in it, in the second one twice, and after it.
        let waits = "0.000010000 9.7\n0.500000000 9990.64\n0.512000000 2000.0\n\
                     0.514900000 2999.0\n0.530000000 7.0\n";
        let compared = compare(TRACE, waits, 1_000_000).unwrap();
        let told: Vec<_> = compared
            .iter()
            .map(|it| (it.steal_ns, it.waited_ns))
            .collect();
        assert_eq!(told, [(10_000_000, 9_990_064), (5_000_000, 4_999_000)]);
    }

    #[test]
    fn a_wait_that_began_before_the_expiry_counts_from_there() {
        let wake_up = |expiry_ns: u64, latency_ns: u64, steal_ns: u64| {
            serde_json::json!({
                "expiry_mono_ns": expiry_ns,
                "latency_ns": latency_ns,
                "parts": [
                    {"share": "steal", "ns": steal_ns - 1_000_000},
                    {"share": "irq", "ns": latency_ns - steal_ns},
                    {"share": "steal", "ns": 1_000_000},
                ],
            })
        };
        let worst = [
            wake_up(7_100_000_000, 6_080_000, 6_000_000),
            wake_up(7_000_000_000, 10_080_000, 10_000_000),
        ];
        let result = serde_json::json!({"cpus": [{"worst": worst}]});
        let waits = "0.110020000 10000.0\n0.206030000 10000.0\n";
        let compared = compare_latencies(&result, waits, 1_000_000).unwrap();
        let told: Vec<_> = compared
            .iter()
            .map(|it| (it.steal_ns, it.waited_ns))
            .collect();
        assert_eq!(told, [(10_000_000, 10_000_000), (6_000_000, 6_010_000)]);
        assert!(compare_latencies(&serde_json::json!({}), waits, 1).is_err());
    }

    #[test]
    fn what_xen_knows_nothing_of_is_matched_by_nothing() {
        let compared = compare(TRACE, "0.5 9990.64\n", 1_000_000).unwrap();
        assert_eq!(compared[1].waited_ns, 0);
        assert!(compare(TRACE, "", 1_000_000).is_err());
        assert!(compare(TRACE, "0.5 1.0\n", 20_000_000).is_err());
    }
}
