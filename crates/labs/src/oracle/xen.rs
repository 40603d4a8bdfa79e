//! Holds what a guest of Xen says was stolen against the books of Xen itself: when its
//! vCPU was ready to run, and waited.

use anyhow::{Context, Result, ensure};

use super::trace::{self, Kind, seconds_ns};

/// A wait of the vCPU, on Xen's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    end_ns: u64,
    dur_ns: u64,
}

/// A gap in the guest, on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    start_ns: u64,
    end_ns: u64,
    steal_ns: u64,
}

/// A gap in which something was stolen, and Xen's waits that ended within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// What the guest says was stolen.
    pub steal_ns: u64,
    /// What Xen says.
    pub waited_ns: u64,
}

/// Compares each gap with at least this much steal; the clocks are laid over each other
/// so that they differ the least.
///
/// # Errors
/// If the trace or the waits cannot be read, or nothing was stolen.
pub fn compare(trace: &str, waits: &str, at_least_ns: u64) -> Result<Vec<Compared>> {
    let mut gaps = gaps(trace)?;
    gaps.retain(|gap| gap.steal_ns >= at_least_ns);
    let waits = waits.lines().map(wait).collect::<Result<Vec<_>>>()?;
    let first = gaps.first().context("nothing was stolen")?;
    // Most gaps begin with the loss of the CPU. Which clock is ahead is not known.
    let came_back_ns = first.start_ns + first.steal_ns;
    let offsets = waits
        .iter()
        .map(|wait| wait.end_ns.wrapping_sub(came_back_ns));
    let compared = offsets.map(|offset| {
        let compare = |gap: Gap| Compared {
            steal_ns: gap.steal_ns,
            waited_ns: waited_ns(&waits, gap, offset),
        };
        gaps.iter().copied().map(compare).collect::<Vec<Compared>>()
    });
    let differ_ns = |all: &Vec<Compared>| -> u64 {
        let each = all.iter().map(|it| it.steal_ns.abs_diff(it.waited_ns));
        each.sum()
    };
    compared
        .min_by_key(differ_ns)
        .context("Xen tells of no wait")
}

/// Waits that ended in a gap. Between the end of a wait and that of its gap the guest's
/// kernel handles what came meanwhile.
fn waited_ns(waits: &[Wait], gap: Gap, offset_ns: u64) -> u64 {
    let within = |wait: &&Wait| {
        let end_ns = wait.end_ns.wrapping_sub(offset_ns);
        (gap.start_ns..=gap.end_ns).contains(&end_ns)
    };
    waits.iter().filter(within).map(|wait| wait.dur_ns).sum()
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
    fn what_xen_knows_nothing_of_is_matched_by_nothing() {
        let compared = compare(TRACE, "0.5 9990.64\n", 1_000_000).unwrap();
        assert_eq!(compared[1].waited_ns, 0);
        assert!(compare(TRACE, "", 1_000_000).is_err());
        assert!(compare(TRACE, "0.5 1.0\n", 20_000_000).is_err());
    }
}
