//! The longest gaps or wake-ups, each with its line in the list and its budget.

use std::cmp::Reverse;

use vmnoise_console::units::seconds;
use vmnoise_events::column::Columns;
use vmnoise_events::human;
use vmnoise_explain::{Detail, Explainer, Interval, Longest, NamedInterval, NamedPart};
use vmnoise_views::trace_line::who;

use super::snapshot::{FrameGap, FramePart, cells, index};
use crate::tree::phase;

/// Number of intervals in the list.
const LISTED: usize = 64;

/// Rank of an interval by its length. Of two intervals with equal length, the earlier interval
/// ranks higher.
type Rank = (u64, Reverse<(u64, u32)>);

/// Longest intervals so far.
#[derive(Debug)]
pub struct LongestIntervals(Longest<Rank, Interval>);

impl Default for LongestIntervals {
    fn default() -> LongestIntervals {
        LongestIntervals(Longest::new(LISTED))
    }
}

impl LongestIntervals {
    pub fn see(&mut self, interval: &Interval) {
        let order = Reverse((interval.start_mono_ns, interval.cpu));
        self.0.see((interval.dur_ns, order), || interval.clone());
    }

    /// Returns the intervals with names, longest first.
    pub fn named(&self, explainer: &Explainer) -> Vec<NamedInterval> {
        let named = self.0.iter().map(|interval| explainer.named(interval));
        let mut named: Vec<NamedInterval> = named.collect();
        named.sort_by_key(|it| (Reverse(it.dur_ns), it.start_mono_ns, it.cpu));
        named
    }
}

/// Returns the columns of the list.
pub fn gap_columns(length: &'static str) -> Columns<'static, NamedInterval> {
    Columns::<NamedInterval>::default()
        .time(length, |it| it.dur_ns)
        .ranked("CPU", |it| index(it.cpu))
        .ranked("at", |it| {
            let at_ns = it.at_ns as f64;
            (format!("{:.3} s", at_ns / 1e9), Some(at_ns))
        })
        .words("most of it", |it| most(it).into())
}

/// Returns the line and the budget of an interval.
pub fn gap(of: &NamedInterval) -> FrameGap {
    let parts = of.parts.iter().map(|part| FramePart {
        ns: part.ns,
        words: words(part),
    });
    FrameGap::new(
        of.start_mono_ns.rotate_left(16) ^ u64::from(of.cpu),
        cells(&gap_columns("length"), of),
        title(of),
        parts.collect(),
    )
}

/// Returns the length, CPU and time of an interval, as text.
pub fn title(of: &NamedInterval) -> String {
    let lost = match of.lost_activities() {
        0 => String::new(),
        lost => format!("; {lost} activities lost"),
    };
    let at = seconds(of.at_ns);
    format!("{}, CPU {} at {at}{lost}", human(of.dur_ns), of.cpu)
}

/// Returns the largest part, as text.
pub fn most(of: &NamedInterval) -> String {
    let largest = match of.detail {
        Detail::Gap(_) => of.parts.first(),
        Detail::Wakeup(_) => of.parts.iter().max_by_key(|part| part.ns),
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
