//! Extracts how long a Xen guest's vCPU waited for a CPU. The input is what `xenalyze` prints about
//! Xen's scheduler.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Name that `xenalyze` gives the first vCPU of the first guest.
const VCPU: &str = "d1v0";

/// A completed wait of a vCPU for a CPU.
///
/// Xen measures a wait as the difference of two readings of its clock, and reports this time to the
/// guest. Xen reads the clock before the scheduler decides, and writes its trace records after the
/// decision. So the records' times differ from the readings. Each record also contains how long the
/// vCPU that leaves has run, which is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// TSC of the trace record of the wait's end.
    pub end_tsc: u64,
    /// Largest delay of this record: the time until the vCPU that had the CPU was switched out,
    /// nanoseconds.
    pub decision_ns: u64,
    /// Start of the wait.
    pub begin: Begin,
}

/// Start of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Begin {
    /// The vCPU was preempted. The wait is the time for which other vCPUs have run since then.
    Preempted {
        /// Length of the wait by Xen's own clock, nanoseconds.
        waited_ns: u64,
    },
    /// The vCPU slept. Xen woke it between two records.
    Woken {
        /// TSC of the last record before Xen read its clock.
        before_tsc: u64,
        /// TSC of the first record after Xen read its clock.
        after_tsc: u64,
    },
}

/// State of this vCPU while another vCPU has the CPU: this vCPU waits or sleeps.
#[derive(Debug, Clone, Copy)]
struct Away {
    ran_ns: u64,
    woken: Option<(u64, u64)>,
    sleeps: bool,
}

/// Returns all waits in these lines. The time in each line is the number of cycles since the first
/// record, which has the TSC `first_tsc`.
///
/// # Errors
/// If a line cannot be read.
pub fn reported(lines: &str, first_tsc: u64) -> Result<Vec<Wait>> {
    let mut waits: Vec<(String, Wait)> = Vec::new();
    let mut ended = Vec::new();
    let mut away: Option<Away> = None;
    let mut wake_tsc = None;
    // `left` is the vCPU that was switched out last. `ran_ns` is how long this vCPU had run when it
    // was switched out.
    let mut ran_ns = 0;
    let mut left = String::new();
    for line in lines.lines() {
        let tsc = || -> Result<u64> {
            let time = line.split_whitespace().next().context("no time")?;
            let (seconds, cycles) = time.split_once('.').context("no time")?;
            let since_tsc = seconds.parse::<u64>()? * 1_000_000_000 + cycles.parse::<u64>()?;
            Ok(first_tsc + since_tsc)
        };
        if let Some((who, ran)) = between(line, " sched_switch prev ", ", run for ") {
            let ns = nanoseconds(ran)?;
            left = who.to_owned();
            if who == VCPU {
                ran_ns = ns;
                away = Some(Away {
                    ran_ns: 0,
                    woken: None,
                    sleeps: false,
                });
            } else if let Some(away) = &mut away {
                away.ran_ns += ns;
            }
            wake_tsc = wake_tsc.filter(|_| who != VCPU);
            if who != VCPU {
                ended = vec![tsc()?];
            }
        } else if let Some((who, waited)) =
            between(line, " sched_switch next ", ", was runnable for ")
        {
            if who == VCPU {
                let (Some(away), [end_tsc]) = (away.take(), &ended[..]) else {
                    continue;
                };
                let begin = match (away.sleeps, away.woken) {
                    (false, _) => Begin::Preempted {
                        waited_ns: away.ran_ns,
                    },
                    (true, Some((before_tsc, after_tsc))) => Begin::Woken {
                        before_tsc,
                        after_tsc,
                    },
                    (true, None) => continue,
                };
                let wait = Wait {
                    end_tsc: *end_tsc,
                    decision_ns: u64::MAX,
                    begin,
                };
                waits.push((left.clone(), wait));
            } else if left == VCPU {
                // `who` was switched out when this vCPU came. Since then, this vCPU has run for
                // `ran_ns`.
                let since_put_away_ns = nanoseconds(waited)?;
                let last = waits.last_mut().filter(|(whose, _)| whose == who);
                if let Some((_, wait)) = last {
                    wait.decision_ns = ran_ns.saturating_sub(since_put_away_ns);
                }
            }
        } else if line.ends_with(&format!(" vcpu_wake {VCPU}")) {
            wake_tsc = Some(tsc()?);
        } else if line.ends_with(&format!(" runstate_change {VCPU} running->blocked")) {
            if let Some(away) = &mut away {
                away.sleeps = true;
            }
        } else if line.ends_with(&format!(" runstate_change {VCPU} blocked->runnable"))
            && let (Some(away), Some(before_tsc)) = (&mut away, wake_tsc)
        {
            away.woken = Some((before_tsc, tsc()?));
        }
    }
    // The delay of the last record is unknown, so the last wait is dropped.
    let waits = waits.into_iter().map(|(_, wait)| wait);
    Ok(waits.filter(|wait| wait.decision_ns < u64::MAX).collect())
}

/// Returns the text between `before` and `behind`, and the text after `behind`.
fn between<'a>(line: &'a str, before: &str, behind: &str) -> Option<(&'a str, &'a str)> {
    line.split_once(before)?.1.split_once(behind)
}

/// Parses `9978.461us, next…`. xenalyze prints the fraction of a microsecond without leading zeros.
fn nanoseconds(text: &str) -> Result<u64> {
    let length = text.split("us").next().unwrap_or_default();
    let (whole_us, fraction_ns) = length.split_once('.').unwrap_or((length, "0"));
    Ok(whole_us.parse::<u64>()? * 1_000 + fraction_ns.parse::<u64>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
   2.520015096 x d1v0 sched_switch prev d1v0, run for 500.5us
   2.520016676 x d1v0 sched_switch next d0v0, was runnable for 475.125us, next slice 9996.667us
   2.520020168 x d1v0 runstate_change d1v0 running->runnable
   2.530015096 x d0v0 sched_switch prev d0v0, run for 9999.997us
   2.530016676 x d0v0 sched_switch next d1v0, was runnable for 9978.457us, next slice 9996.667us
   2.530018220 x d0v0 sched_switch prev d0v0 next d1v0
   2.534578712 x d1v0 vcpu_block d1v0
   2.534590600 x d1v0 sched_switch prev d1v0, run for 4582.560us
   2.534592180 x d1v0 sched_switch next d0v0, was runnable for 4548.584us, next slice 9996.663us
   2.534595656 x d1v0 runstate_change d1v0 running->blocked
   2.537943488 x d0v0 vcpu_wake d1v0
   2.537945460 x d0v0 runstate_change d1v0 blocked->runnable
   2.544590620 x d0v0 sched_switch prev d0v0, run for 9999.997us
   2.544592200 x d0v0 sched_switch next d1v0, was runnable for 9978.389us, next slice 5414.107us
   2.544703268 x d1v0 sched_switch prev d1v0, run for 105.700us
   2.544704848 x d1v0 sched_switch next d0v0, was runnable for 78.864us, next slice 9996.666us
   2.544708480 x d1v0 runstate_change d1v0 running->blocked
   2.554590620 x d0v0 sched_switch prev d0v0, run for 9999.997us
   2.554592200 x d0v0 sched_switch next d1v0, was runnable for 9978.389us, next slice 5414.107us
";

    #[test]
    fn a_wait_is_what_others_ran_or_since_it_was_woken() {
        let waits = reported(TRACE, 1_000).unwrap();
        let preempted = Wait {
            end_tsc: 2_530_016_096,
            decision_ns: 33_976,
            begin: Begin::Preempted {
                waited_ns: 9_999_997,
            },
        };
        let woken = Wait {
            end_tsc: 2_544_591_620,
            decision_ns: 26_836,
            begin: Begin::Woken {
                before_tsc: 2_537_944_488,
                after_tsc: 2_537_946_460,
            },
        };
        assert_eq!(waits, [preempted, woken]);
    }
}
