//! Parses the times of options, and checks their bounds.

use vmnoise_console::units::{Bare, parse_time};

pub(super) const MS: u64 = 1_000_000;
const DAY: u64 = 86_400_000_000_000;

pub(super) fn within(
    text: &str,
    bare: Bare,
    min_ns: u64,
    max_ns: u64,
    range: &str,
) -> Result<u64, String> {
    let ns = parse_time(text, bare)?;
    if (min_ns..=max_ns).contains(&ns) {
        Ok(ns)
    } else {
        Err(format!("{text} is outside {range}"))
    }
}

pub(super) fn duration(text: &str) -> Result<u64, String> {
    within(text, Bare::Seconds, 10 * MS, 365 * DAY, "10ms to 365d")
}

pub(super) fn threshold(text: &str) -> Result<u64, String> {
    // Below 100 ns each iteration of the polling loop would be a gap.
    within(text, Bare::Microseconds, 100, 60_000 * MS, "100ns to 60s")
}

pub(super) fn noise(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 0, 60_000 * MS, "0 to 60s")
}

pub(super) fn period(text: &str) -> Result<u64, String> {
    within(
        text,
        Bare::Microseconds,
        100 * MS,
        DAY,
        "100ms to 1d (us if no unit)",
    )
}

pub(super) fn osnoise_period(text: &str) -> Result<u64, String> {
    within(
        text,
        Bare::Microseconds,
        1_000,
        10_000 * MS,
        "1us to 10s, as in rtla",
    )
}

pub(super) fn osnoise_runtime(text: &str) -> Result<u64, String> {
    within(
        text,
        Bare::Microseconds,
        100_000,
        10_000 * MS,
        "100us to 10s, as in rtla",
    )
}

pub(super) fn timer_interval(text: &str) -> Result<u64, String> {
    // A shorter timer expires before the guest has halted.
    within(
        text,
        Bare::Microseconds,
        20_000,
        1_000 * MS,
        "20us to 1s (us if no unit)",
    )
}

pub(super) fn warm_up(text: &str) -> Result<u64, String> {
    within(text, Bare::Seconds, 0, DAY, "0s to 1d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_without_unit_is_microseconds() {
        assert_eq!(threshold("5"), Ok(5_000));
        assert!(threshold("10ns").unwrap_err().contains("100ns"));
    }

    #[test]
    fn absurd_durations_are_refused() {
        for text in ["0", "0s", "9999d", "1ns"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
