//! Parses the limits of `vmnoise run --fit`.

use vmnoise_console::units::{Bare, parse_time};
use vmnoise_judge::fitness::{FitnessLimit, LimitedFigure};

/// Parses a limit such as `noise<1%` or `max<1ms`.
///
/// # Errors
/// A sentence that says what is wrong and what is accepted.
pub fn fit_limit(text: &str) -> Result<FitnessLimit, String> {
    let help = "write noise<1%, max<1ms, or both with a comma between them";
    let (name, below) = text
        .split_once('<')
        .ok_or_else(|| format!("`{text}` is no limit; {help}"))?;
    let below = below.trim();
    match name.trim() {
        "noise" => {
            let percent = below
                .strip_suffix('%')
                .and_then(|it| it.trim().parse().ok());
            let ppm = percent.map(|it: f64| (it * 10_000.0).round());
            // The limit is kept in whole parts per million, and no run could be below a limit of 0.
            let usable = ppm.filter(|it| (1.0..=1_000_000.0).contains(it));
            let ppm = usable.ok_or_else(|| {
                format!(
                    "`{below}` is no percentage from 0.0001% to 100%; write noise<1%, for example"
                )
            })?;
            Ok(FitnessLimit {
                figure: LimitedFigure::Noise,
                below: ppm as u64,
            })
        }
        "max" => Ok(FitnessLimit {
            figure: LimitedFigure::Max,
            below: parse_time(below, Bare::Microseconds)?,
        }),
        other => Err(format!("there is no figure `{other}`; {help}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let below = |text| fit_limit(text).map(|it| (it.figure, it.below));
        assert_eq!(below("noise<1%"), Ok((LimitedFigure::Noise, 10_000)));
        assert_eq!(below(" noise < 0.05 %"), Ok((LimitedFigure::Noise, 500)));
        assert_eq!(below("noise<0.0001%"), Ok((LimitedFigure::Noise, 1)));
        assert_eq!(below("max<1ms"), Ok((LimitedFigure::Max, 1_000_000)));
        assert_eq!(below("max<50"), Ok((LimitedFigure::Max, 50_000)));
        for wrong in [
            "noise",
            "noise<1",
            "noise<-1%",
            "noise<0%",
            "noise<0.00004%",
            "noise<101%",
            "noise<NaN%",
            "max<1%",
            "steal<1%",
            "",
        ] {
            assert!(fit_limit(wrong).is_err(), "{wrong}");
        }
    }
}
