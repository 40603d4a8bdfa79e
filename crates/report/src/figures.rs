//! Formats numbers for readers. A line never breaks between a number and its unit.

/// Formats a duration with three digits: `812 ns`, `62.4 µs`, `4.02 ms`, `10.0 s`.
pub(crate) fn duration(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => return format!("{ns}\u{a0}ns"),
        1_000..999_500 => (1e3, "µs"),
        999_500..999_500_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}\u{a0}{unit}", three_digits(ns as f64 / unit_ns))
}

/// Formats a duration with three digits; `-` if unknown.
pub(crate) fn duration_or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), duration)
}

/// Formats a percentage: `71 %`, `4.3 %`, `0.43 %`. Very small values become `<0.001 %`.
pub(crate) fn percent(value: f64) -> String {
    match value {
        9.95.. => format!("{value:.0}\u{a0}%"),
        0.995.. => format!("{value:.1}\u{a0}%"),
        0.0995.. => format!("{value:.2}\u{a0}%"),
        0.001.. => format!("{value:.3}\u{a0}%"),
        _ if value > 0.0 => "<0.001\u{a0}%".into(),
        _ => "0\u{a0}%".into(),
    }
}

/// Adds numbers; at most `u64::MAX`. Only forged recordings reach this limit.
pub(crate) fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Returns `part` in percent of `whole`; 0 if `whole` is 0.
pub(crate) fn part_of(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 * 100.0 / whole as f64,
    }
}

/// Formats a number with narrow non-breaking spaces between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Formats a time after the start of a run in seconds, with microseconds.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.6} s", ns as f64 / 1e9)
}

/// Formats a number with its noun in the singular or plural.
pub(crate) fn times(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", count(number)),
    }
}

/// Formats ascending numbers as ranges, like a list of CPUs: `0-3, 8`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let reported = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    });
    reported.collect::<Vec<String>>().join(", ")
}

fn three_digits(value: f64) -> String {
    match value {
        99.95.. => format!("{value:.0}"),
        9.995.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_their_unit() {
        let cases = [
            (0, "0 ns"),
            (812, "812 ns"),
            (1_000, "1.00 µs"),
            (62_430, "62.4 µs"),
            (412_499, "412 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (4_020_000, "4.02 ms"),
            (999_500_000, "1.00 s"),
            (10_000_000_000, "10.0 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text.replace(' ', "\u{a0}"));
        }
    }

    #[test]
    fn percentages_show_what_is_small() {
        let cases = [
            (0.0, "0 %"),
            (0.000_1, "<0.001 %"),
            (0.012_34, "0.012 %"),
            (0.43, "0.43 %"),
            (4.26, "4.3 %"),
            (71.4, "71 %"),
            (100.0, "100 %"),
        ];
        for (value, text) in cases {
            assert_eq!(percent(value), text.replace(' ', "\u{a0}"));
        }
        assert_eq!(part_of(1, 0), 0.0);
    }

    #[test]
    fn neighbours_are_a_range() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
