//! A gap or a wake-up in the list of the longest, and its budget.

use vmnoise_explain::{NamedDetail, NamedInterval, NamedPart};

use super::snapshot::{Cell, Gap, Part};
use crate::output::tree::{phase, who};
use crate::units::{human, seconds};

/// Its line, and its budget.
pub fn gap(of: &NamedInterval) -> Gap {
    let parts = of.parts.iter().map(|part| Part {
        ns: part.ns,
        words: words(part),
    });
    Gap::new(
        of.start_mono_ns.rotate_left(16) ^ u64::from(of.cpu),
        vec![
            Cell::number(Some(of.dur_ns), human),
            Cell::index(of.cpu),
            Cell::number(Some(of.at_ns), |ns| format!("{:.3} s", ns as f64 / 1e9)),
            Cell::words(most(of)),
        ],
        title(of),
        parts.collect(),
    )
}

/// How long, and where.
pub fn title(of: &NamedInterval) -> String {
    let lost = match of.lost_activities() {
        0 => String::new(),
        lost => format!("; {lost} activities lost"),
    };
    let at = seconds(of.at_ns);
    format!("{}, CPU {} at {at}{lost}", human(of.dur_ns), of.cpu)
}

/// The largest part, in words.
pub fn most(of: &NamedInterval) -> String {
    let largest = match of.detail {
        NamedDetail::Gap { .. } => of.parts.first(),
        NamedDetail::Wakeup { .. } => of.parts.iter().max_by_key(|part| part.ns),
    };
    largest.map(words).unwrap_or_default()
}

fn words(part: &NamedPart) -> String {
    let phase = match part.phase {
        Some(_) => format!("{}: ", phase(part.phase)),
        None => String::new(),
    };
    let words = format!("{phase}{} {}", part.share, who(part));
    words.trim_end().to_owned()
}
