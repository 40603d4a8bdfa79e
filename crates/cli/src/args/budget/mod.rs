//! Parses the limits of a run, from options, files and other programs' settings.

pub mod cnf;
pub mod file;

use vmnoise_judge::check::{Quantity, Requirement};

use super::limit;

/// Rate per second that a limit of [`Quantity::GapsAbove`] must be below: one gap in each
/// microsecond. A verdict counts the microseconds in which such a gap begins, so it cannot count
/// more.
const TOO_MANY_GAPS: f64 = 1e6;

/// Parses `FIGURE=LIMIT`.
///
/// # Errors
/// A sentence that says what is wrong and what is accepted.
pub fn parse(text: &str) -> Result<Requirement, String> {
    let (name, at_most) = text.rsplit_once('=').ok_or_else(|| {
        format!("`{text}` is no limit; write a figure, =, and its largest value: noise=1%")
    })?;
    requirement(name.trim(), at_most.trim(), None)
}

/// Returns the limit of the figure `name`, with the value above which it warns.
///
/// # Errors
/// The same errors as [`parse`].
fn requirement(name: &str, at_most: &str, warn_above: Option<&str>) -> Result<Requirement, String> {
    let quantity = Quantity::from_name(name).ok_or_else(|| {
        format!(
            "there is no figure `{name}`; write max, p50 to p99.999, noise, gaps, gaps>20us, a share (steal, irq, …), `by WHO`, \
             or `SHARE by WHO`"
        )
    })?;
    let limit = |text| limit::parse(text, name, quantity.unit());
    let at_most = limit(at_most)?;
    if matches!(quantity, Quantity::GapsAbove(_)) && at_most >= TOO_MANY_GAPS {
        return Err(format!(
            "{name} cannot be judged by a limit of {at_most} per second; write a limit below {TOO_MANY_GAPS}"
        ));
    }
    let warn_above = warn_above.map(limit).transpose()?;
    if warn_above.is_some_and(|warn| warn > at_most) {
        return Err(format!(
            "the `warn` of {name} is above its limit; write a lower `warn`"
        ));
    }
    Ok(Requirement {
        quantity,
        at_most,
        warn_above,
    })
}

#[cfg(test)]
mod tests {
    use vmnoise_events::Share;
    use vmnoise_judge::check::CulpritPattern;

    use super::*;

    #[test]
    fn limits_are_read() {
        let at_most = |text| parse(text).unwrap().at_most;
        assert_eq!(at_most("max=40us"), 40_000.0);
        assert_eq!(at_most("p99.99=20"), 20_000.0);
        assert_eq!(at_most("steal = 0.1%"), 0.1);
        assert_eq!(at_most("gaps=100"), 100.0);
        assert_eq!(at_most("gaps>20us=0.5"), 0.5);
        let by = parse("preempted by x=y*=0%").unwrap().quantity;
        let (share, who) = (Some(Share::Preempted), "x=y*".into());
        assert_eq!(by, Quantity::Culprit(CulpritPattern { share, who }));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        for (wrong, said) in [
            ("max", "is no limit; write"),
            ("steel=1%", "there is no figure `steel`"),
            ("steal=1", "such as 0.1%"),
            ("max=1%", "no time"),
            ("p100=1us", "there is no figure"),
            ("gaps>500ns=1000000", "write a limit below 1000000"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
