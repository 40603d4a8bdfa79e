//! Parses scheduling policies, with rtla's letters.

use vmnoise_console::units::{Bare, parse_time};
use vmnoise_events::Policy;

/// Shortest runtime that the kernel accepts for SCHED_DEADLINE (kernel/sched/deadline.c, DL_SCALE).
const MIN_BUDGET_NS: u64 = 1_024;
/// The kernel's default limits for the period of SCHED_DEADLINE
/// (sched_deadline_period_{min,max}_us).
const DEADLINE_PERIODS_NS: std::ops::RangeInclusive<u64> = 100_000..=4_194_304_000;

/// Parses `o:NICE`, `f:PRIORITY`, `r:PRIORITY` or `d:RUNTIME:PERIOD`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse(text: &str) -> Result<Policy, String> {
    let usage = || {
        format!(
            "`{text}` is no priority; write o:NICE (-20..19), f:PRIORITY, r:PRIORITY (1..99) or d:RUNTIME:PERIOD"
        )
    };
    let (letter, rest) = text.split_once(':').ok_or_else(usage)?;
    // rtla accepts capital letters, too.
    let letter = letter.to_ascii_lowercase();
    if letter == "d" {
        let (runtime, period) = rest.split_once(':').ok_or_else(usage)?;
        return deadline(runtime, period);
    }
    let number: i32 = rest.parse().map_err(|_| usage())?;
    match &*letter {
        "o" if (-20..=19).contains(&number) => Ok(Policy::Other(number)),
        "f" if (1..=99).contains(&number) => Ok(Policy::Fifo(number)),
        "r" if (1..=99).contains(&number) => Ok(Policy::RoundRobin(number)),
        _ => Err(usage()),
    }
}

fn deadline(runtime: &str, period: &str) -> Result<Policy, String> {
    let runtime_ns = parse_time(runtime, Bare::Microseconds)?;
    let period_ns = parse_time(period, Bare::Microseconds)?;
    if !DEADLINE_PERIODS_NS.contains(&period_ns) {
        return Err(format!(
            "a deadline period of {period} is outside 100us to 4.19s, the kernel's limits"
        ));
    }
    if !(MIN_BUDGET_NS..=period_ns).contains(&runtime_ns) {
        return Err(format!(
            "a deadline runtime of {runtime} is outside 1.024us to its period of {period}"
        ));
    }
    Ok(Policy::Deadline {
        runtime_ns,
        period_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_use_the_letters_of_rtla() {
        assert_eq!(parse("F:1"), Ok(Policy::Fifo(1)));
        assert_eq!(parse("f:50"), Ok(Policy::Fifo(50)));
        assert_eq!(parse("r:1"), Ok(Policy::RoundRobin(1)));
        assert_eq!(parse("o:-5"), Ok(Policy::Other(-5)));
        for text in ["f:0", "f:100", "x:1", "50", "d:1ms", "o:20", "o:1:2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_deadline_is_a_budget_in_a_period() {
        let policy = Policy::Deadline {
            runtime_ns: 500_000,
            period_ns: 1_000_000,
        };
        assert_eq!(parse("d:500us:1ms"), Ok(policy));
        assert_eq!(parse("d:500:1000"), Ok(policy));
        for text in [
            "d:2ms:1ms",
            "d:1ns:1ms",
            "d:1ms:1h",
            "d:1ms:10us",
            "d:x:1ms",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
