//! Parses times that people type, and formats times for people.

use std::time::Duration;

/// Unit of a number without a suffix.
#[derive(Debug, Clone, Copy)]
pub enum Bare {
    /// Unit of thresholds and periods, as in rtla.
    Microseconds,
    /// Unit of durations, as in rtla.
    Seconds,
}

const SUFFIXES: [(&str, u64); 7] = [
    // The whole suffix is compared, so `ms` is never read as `m`.
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Parses a time such as `250us`, `1.5s` or `10`, and returns nanoseconds.
///
/// # Errors
/// A sentence that says what is wrong and what is accepted.
pub fn parse_time(text: &str, bare: Bare) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &text[digits.len()..];
    let unit_ns = match (suffix, bare) {
        ("", Bare::Microseconds) => 1_000,
        ("", Bare::Seconds) => 1_000_000_000,
        _ => SUFFIXES
            .iter()
            .find(|(name, _)| *name == suffix)
            .map(|(_, ns)| *ns)
            .ok_or_else(|| {
                format!("`{suffix}` is no unit of time; use ns, us, ms, s, m, h or d")
            })?,
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = digits.parse().ok().filter(|_| plain).ok_or_else(|| {
        format!("`{text}` is no time; write a number and a unit, such as 10s or 250us")
    })?;
    let ns = number * unit_ns as f64;
    if ns > u64::MAX as f64 / 4.0 {
        return Err(format!("`{text}` is longer than any run"));
    }
    Ok(ns.round() as u64)
}

/// Formats a duration roughly, for a user who waits: `12 s`, `7 min`, `2 h 05 min`.
pub fn rough(time: Duration) -> String {
    let seconds = time.as_secs();
    let minutes = seconds / 60;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

/// Formats a duration in microseconds, without rounding, so that printed parts add up.
pub fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// Formats the time since the start of a run, in seconds.
pub fn seconds(ns: u64) -> String {
    format!("{:.6} s", ns as f64 / 1e9)
}

/// Converts nanoseconds to TSC cycles, rounded down.
pub fn to_tsc(ns: u64, tsc_hz: u64) -> u64 {
    let cycles = u128::from(ns) * u128::from(tsc_hz) / 1_000_000_000;
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

/// Converts TSC cycles to nanoseconds, rounded to the nearest.
pub fn to_ns(cycles: u64, tsc_hz: u64) -> u64 {
    let hz = u128::from(tsc_hz.max(1));
    let ns = (u128::from(cycles) * 1_000_000_000 + hz / 2) / hz;
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_and_bare_numbers() {
        assert_eq!(parse_time("1", Bare::Microseconds), Ok(1_000));
        assert_eq!(parse_time("1", Bare::Seconds), Ok(1_000_000_000));
        assert_eq!(parse_time("250ns", Bare::Seconds), Ok(250));
        assert_eq!(parse_time("1.5ms", Bare::Seconds), Ok(1_500_000));
        assert_eq!(parse_time("2m", Bare::Microseconds), Ok(120_000_000_000));
        assert_eq!(parse_time("1d", Bare::Microseconds), Ok(86_400_000_000_000));
    }

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        for text in ["", "s", "-1s", "1 s", "1x", "1e3s", "nan", "inf", "1.2.3s"] {
            let error = parse_time(text, Bare::Seconds).unwrap_err();
            assert!(
                error.contains("no time") || error.contains("no unit"),
                "{text}: {error}"
            );
        }
        assert!(parse_time("99999999999999d", Bare::Seconds).is_err());
    }

    #[test]
    fn cycles_are_rounded_to_the_nearest_ns() {
        assert_eq!(to_ns(3, 2_000_000_000), 2);
        assert_eq!(to_ns(24, 2_445_000_000), 10);
        assert_eq!(
            to_ns(to_tsc(1_000_000, 2_445_000_000), 2_445_000_000),
            1_000_000
        );
        assert_eq!(to_ns(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn who_waits_is_reported_no_more_than_matters() {
        let seconds = [0, 119, 120, 7199, 7200, 90_000];
        let words = seconds.map(|seconds| rough(Duration::from_secs(seconds)));
        let expected = [
            "0 s",
            "119 s",
            "2 min",
            "119 min",
            "2 h 00 min",
            "25 h 00 min",
        ];
        assert_eq!(words, expected);
    }
}
