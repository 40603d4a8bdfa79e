//! Formats durations with a unit that is easy to read.

/// Formats a duration in the unit that fits its size: `812 ns`, `62.4 us`, `4.020 ms`, `10.000 s`.
pub fn human(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..=9_999 => format!("{ns} ns"),
        10_000..=999_999 => format!("{:.1} us", value / 1e3),
        1_000_000..=999_999_999 => format!("{:.3} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_keeps_four_digits_or_more() {
        assert_eq!(human(812), "812 ns");
        assert_eq!(human(62_430), "62.4 us");
        assert_eq!(human(4_020_000), "4.020 ms");
        assert_eq!(human(10_000_000_000), "10.000 s");
    }
}
