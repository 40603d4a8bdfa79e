//! Compares the steal time that a guest of Xen reports with Xen's own trace, which contains the
//! time for which the guest's vCPU was ready to run and waited.

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use super::trace::{self, OsnoiseEventKind};
use crate::xen_waits::{Begin, Wait};

/// Conversion from the TSC to the guest's clock. It comes from two readings of the guest's clock,
/// each between two readings of the TSC. Xen's trace uses the same TSC, because the guest reads the
/// TSC without emulation (`vmnoise doctor` confirms this).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    mono_ns: u64,
    tsc: u64,
    cycles_per_ns: f64,
    /// Clock error of a converted time, nanoseconds.
    pub bound_ns: u64,
}

/// A gap or a late wake-up of the guest, by the guest's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) steal_ns: u64,
}

/// A gap or a late wake-up with steal time, and Xen's waits within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XenGap {
    /// Steal time that the guest reports, nanoseconds.
    pub steal_ns: u64,
    /// Lower bound for the time that Xen's waits took, nanoseconds.
    pub least_ns: u64,
    /// Upper bound for the time that Xen's waits took, nanoseconds.
    pub most_ns: u64,
    /// Number of Xen's waits within the gap.
    pub waits: u64,
}

impl Clock {
    /// Creates the conversion from the outputs of `lab-disturb clock` before and after a
    /// measurement.
    ///
    /// # Errors
    /// If an output cannot be read, or both outputs have the same time.
    pub fn of(readings: [&str; 2]) -> Result<Clock> {
        let [first, last] = readings.map(|line| {
            let numbers: Vec<u64> = line
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()?;
            <[u64; 3]>::try_from(numbers).map_err(|_| anyhow!("no reading of the clocks: {line}"))
        });
        let ([before_tsc, mono_ns, after_tsc], last) = (first?, last?);
        let middle = |[before_tsc, _, after_tsc]: [u64; 3]| before_tsc.midpoint(after_tsc);
        let tsc = middle([before_tsc, mono_ns, after_tsc]);
        ensure!(last[1] > mono_ns && middle(last) > tsc, "the clocks stand");
        let cycles_per_ns = (middle(last) - tsc) as f64 / (last[1] - mono_ns) as f64;
        let widest_tsc = (after_tsc - before_tsc).max(last[2] - last[0]);
        Ok(Clock {
            mono_ns,
            tsc,
            cycles_per_ns,
            bound_ns: (widest_tsc as f64 / cycles_per_ns).ceil() as u64,
        })
    }

    /// Converts a time of the TSC to the guest's clock; `None` if the result would be negative.
    pub(super) fn mono_ns(self, tsc: u64) -> Option<u64> {
        let since_ns = (tsc as f64 - self.tsc as f64) / self.cycles_per_ns;
        self.mono_ns.checked_add_signed(since_ns.round() as i64)
    }
}

/// Compares gaps in the output of `vmnoise osnoise trace` with Xen's waits within them. Only gaps
/// with at least `at_least_ns` of steal time are compared.
///
/// # Errors
/// If the trace or the waits cannot be read, or no gap has this much steal time.
pub fn compare(trace: &str, waits: &str, clock: Clock, at_least_ns: u64) -> Result<Vec<XenGap>> {
    // The guest runs until a gap begins, so the waits in a gap did not begin earlier.
    let whole = |_: &Gap| 0;
    beside_waits(gaps(trace)?, waits, clock, at_least_ns, whole)
}

/// Compares the wake-ups that `vmnoise timerlat` lists with Xen's waits within them, as [`compare`]
/// does for gaps.
///
/// # Errors
/// If the result or the waits cannot be read, or no wake-up has this much steal time.
pub fn compare_latencies(
    result: &Value,
    waits: &str,
    clock: Clock,
    at_least_ns: u64,
) -> Result<Vec<XenGap>> {
    let worst = result["cpus"][0]["worst"].as_array();
    let worst = worst.context("a result without its latest wake-ups")?;
    let latencies = worst.iter().map(latency).collect::<Option<Vec<_>>>();
    let latencies = latencies.context("no wake-ups")?;
    beside_waits(latencies, waits, clock, at_least_ns, |it| it.start_ns)
}

fn beside_waits(
    mut gaps: Vec<Gap>,
    waits: &str,
    clock: Clock,
    at_least_ns: u64,
    from_ns: impl Fn(&Gap) -> u64,
) -> Result<Vec<XenGap>> {
    gaps.retain(|gap| gap.steal_ns >= at_least_ns);
    gaps.sort_by_key(|gap| gap.start_ns);
    ensure!(!gaps.is_empty(), "nothing was stolen");
    let waits = waits.lines().map(serde_json::from_str::<Wait>);
    let waits = waits.collect::<Result<Vec<_>, _>>()?;
    ensure!(!waits.is_empty(), "Xen's trace has no wait");
    let compare = |gap: &Gap| {
        let within = waits
            .iter()
            .filter_map(|wait| lasted(wait, gap, from_ns(gap), clock));
        let within: Vec<(u64, u64)> = within.collect();
        XenGap {
            steal_ns: gap.steal_ns,
            least_ns: within.iter().map(|(least_ns, _)| least_ns).sum(),
            most_ns: within.iter().map(|(_, most_ns)| most_ns).sum(),
            waits: within.len() as u64,
        }
    };
    Ok(gaps.iter().map(compare).collect())
}

/// Returns the lower and the upper bound for the length of a wait after `from_ns`, in nanoseconds.
/// Returns `None` if the wait did not end in the gap. The gap ends later than the wait, because the
/// guest's kernel handles pending work first.
fn lasted(wait: &Wait, gap: &Gap, from_ns: u64, clock: Clock) -> Option<(u64, u64)> {
    let end_ns = clock.mono_ns(wait.end_tsc)?;
    let ended_here = (gap.start_ns..=gap.end_ns).contains(&end_ns);
    // The end of the wait may be wrong by the clock error, and because its record was late.
    let until = |since_ns: u64| {
        let most_ns = end_ns.saturating_sub(since_ns) + clock.bound_ns;
        let late_ns = wait.decision_ns + 2 * clock.bound_ns;
        (most_ns.saturating_sub(late_ns), most_ns)
    };
    let cut = until(from_ns);
    let (least_ns, most_ns) = match wait.begin {
        Begin::Preempted { waited_ns } => (waited_ns, waited_ns),
        Begin::Woken {
            before_tsc,
            after_tsc,
        } => {
            let [before_ns, after_ns] = [before_tsc, after_tsc].map(|tsc| clock.mono_ns(tsc));
            (until(after_ns?).0, until(before_ns?).1)
        }
    };
    ended_here.then_some((least_ns.min(cut.0), most_ns.min(cut.1)))
}

/// Reads a wake-up. It begins when its timer was due.
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

/// Reads gaps and their steal time. The trace has a line with a budget for each gap, in the same
/// order.
pub(super) fn gaps(trace: &str) -> Result<Vec<Gap>> {
    let samples = trace::lines(trace)?.into_iter();
    let samples = samples.filter(|line| line.kind == OsnoiseEventKind::Sample);
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

/// Parses the steal time from `5 ns = 3 ns steal + 2 ns hv_or_hw (residual)`.
fn steal_ns(budget: &str) -> Result<u64> {
    let (_, parts) = budget.split_once(" = ").context("a budget of nothing")?;
    let mut parts = parts.split(" + ");
    let steal = parts.find_map(|part| part.strip_suffix(" ns steal"));
    Ok(steal.map_or(Ok(0), str::parse)?)
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

    /// Returns a conversion in which 7 s of the guest's clock are 500 ms of the TSC. The TSC has
    /// two cycles per nanosecond.
    fn clock() -> Clock {
        let readings = [
            "999999000 7000000000 1000001000",
            "3999999900 8500000000 4000000100",
        ];
        Clock::of(readings).unwrap()
    }

    /// Returns Xen's waits as JSON. Each is given by its end in milliseconds after 7 s of the
    /// guest's clock, and by its length in nanoseconds. Each record is at most 20 us late.
    fn waits(all: &[(f64, u64)]) -> String {
        let line = |(end_ms, waited_ns): &(f64, u64)| {
            let wait = Wait {
                end_tsc: 1_000_000_000_u64.wrapping_add_signed((end_ms * 2e6) as i64),
                decision_ns: 20_000,
                begin: Begin::Preempted {
                    waited_ns: *waited_ns,
                },
            };
            serde_json::to_string(&wait).unwrap() + "\n"
        };
        all.iter().map(line).collect()
    }

    #[test]
    fn a_clock_is_known_by_two_readings() {
        assert_eq!(clock().mono_ns(1_000_000_000), Some(7_000_000_000));
        assert_eq!(clock().mono_ns(1_002_000_000), Some(7_001_000_000));
        assert_eq!(clock().mono_ns(998_000_000), Some(6_999_000_000));
        // The longer of the two readings took 2,000 cycles.
        assert_eq!(clock().bound_ns, 1_000);
        assert!(Clock::of(["1 2 3", "1 2 3"]).is_err());
        assert!(Clock::of(["1 2", "3 4 5"]).is_err());
    }

    #[test]
    fn waits_are_found_in_the_gaps_they_ended_in() {
        // These waits end before the first gap, in the first gap, in the second gap (twice), and
        // after it.
        let waits = waits(&[
            (-1.0, 9_700),
            (10.0, 9_990_064),
            (22.0, 2_000_000),
            (24.9, 2_999_000),
            (30.0, 7_000),
        ]);
        let compared = compare(TRACE, &waits, clock(), 1_000_000).unwrap();
        let reported: Vec<_> = compared
            .iter()
            .map(|it| (it.steal_ns, it.least_ns, it.most_ns, it.waits))
            .collect();
        assert_eq!(
            reported,
            [
                (10_000_000, 9_990_064, 9_990_064, 1),
                (5_000_000, 4_999_000, 4_999_000, 2)
            ]
        );
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
        let waits = waits(&[(10.0, 9_900_000), (106.01, 10_000_000)]);
        let compared = compare_latencies(&result, &waits, clock(), 1_000_000).unwrap();
        let reported: Vec<_> = compared
            .iter()
            .map(|it| (it.steal_ns, it.least_ns, it.most_ns))
            .collect();
        // The clock error is 1 us, and the record of the wait's end is at most 20 us late.
        let cut = (6_000_000, 5_989_000, 6_011_000);
        assert_eq!(reported, [(10_000_000, 9_900_000, 9_900_000), cut]);
        assert!(compare_latencies(&serde_json::json!({}), &waits, clock(), 1).is_err());
    }

    /// If a wait's time is wrong by 3 ms, less than the wait's length, the wait matches no gap.
    #[test]
    fn what_xen_knows_nothing_of_is_matched_by_nothing() {
        let one = waits(&[(10.0, 9_990_064)]);
        let compared = compare(TRACE, &one, clock(), 1_000_000).unwrap();
        assert_eq!(compared[1].most_ns, 0);
        let moved = waits(&[(13.0, 9_990_064)]);
        assert_eq!(
            compare(TRACE, &moved, clock(), 1_000_000).unwrap()[0].most_ns,
            0
        );
        assert!(compare(TRACE, "", clock(), 1_000_000).is_err());
        assert!(compare(TRACE, &one, clock(), 20_000_000).is_err());
    }
}
