//! Parses limits, each in the unit of its figure.

use vmnoise_console::units::{Bare, parse_time};
use vmnoise_judge::compare::Unit;

/// Parses a limit for the figure `name`: a time, a rate per second, or a percentage of the runtime.
///
/// # Errors
/// A sentence that says what is wrong and what is accepted.
pub fn parse(text: &str, name: &str, unit: Unit) -> Result<f64, String> {
    let number = |digits: &str, example: &str| {
        let parsed = digits.trim().parse::<f64>().ok();
        let usable = parsed.filter(|it| it.is_finite() && *it >= 0.0);
        usable.ok_or_else(|| format!("`{text}` is no limit for {name}; write {example}"))
    };
    match unit {
        Unit::Nanoseconds => Ok(parse_time(text, Bare::Microseconds)? as f64),
        Unit::PerSecond => number(text, "a number per second, such as 100"),
        Unit::Percent => match text.strip_suffix('%') {
            Some(digits) => number(digits, "a percentage of the runtime, such as 0.1%"),
            None => Err(format!(
                "{name} is in percent of the runtime; write a percentage, such as 0.1%"
            )),
        },
    }
}
