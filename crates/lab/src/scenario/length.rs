//! Lengths of time in the format of command-line options: `50us`, `2s`.

use schemars::JsonSchema;
use serde::Deserialize;

/// Length of time. Files contain a number and a unit: `ns`, `us`, `ms`, `s` or `m`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct Length {
    ns: u64,
}

const UNITS: [(&str, u64); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
];

impl Length {
    /// Creates a length of `us` microseconds.
    pub(super) const fn from_us(us: u64) -> Length {
        Length { ns: us * 1_000 }
    }

    /// Returns the length in nanoseconds.
    pub fn ns(self) -> u64 {
        self.ns
    }
}

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Length, String> {
        let digits = text.find(|letter: char| !letter.is_ascii_digit());
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let ns = unit.and_then(|(_, ns)| number.parse::<u64>().ok()?.checked_mul(*ns));
        let ns = ns.ok_or_else(|| {
            format!("{text:?} is no length of time: write a number and ns, us, ms, s or m, as 50us")
        })?;
        Ok(Length { ns })
    }
}

impl std::fmt::Display for Length {
    /// Prints the length in the largest unit that leaves no fraction.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut units = UNITS.iter().rev();
        let whole = units.find(|(_, ns)| self.ns >= *ns && self.ns.is_multiple_of(*ns));
        let (unit, ns) = whole.unwrap_or(&UNITS[0]);
        write!(f, "{}{unit}", self.ns / ns)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    #[test]
    fn it_is_shown_as_it_is_written() {
        for text in ["50us", "2s", "1500ms", "10m", "1ns", "0ns"] {
            let length = Length::try_from(text.to_owned()).unwrap();
            assert_eq!(length.to_string(), text);
        }
    }

    #[test]
    fn a_number_alone_and_one_that_is_too_large_are_refused() {
        for text in [
            "50",
            "us",
            "",
            "1h",
            "-1s",
            "99999999999999999999s",
            "10000000000000m",
        ] {
            assert!(Length::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
