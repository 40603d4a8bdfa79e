//! How long a run still takes, where nothing else shows that it goes on.

use std::time::{Duration, Instant};

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Interval, Summary, TraceLine};

use super::line::Line;
use crate::output::view::{Meanwhile, Period, View};
use crate::recent_trace::RecentTrace;
use crate::units::rough;

/// Runs that nobody gave a length are planned for a year.
const NO_LENGTH: Duration = Duration::from_secs(300 * 86_400);

/// How long the run is to be; `None` where nobody said.
pub fn planned(facts: &RunFacts) -> Option<Duration> {
    let length = Duration::from_nanos(facts.options.duration_ns);
    Some(length).filter(|length| *length < NO_LENGTH)
}

/// The line of a run.
#[derive(Debug)]
pub struct TimeLine {
    line: Line,
    doing: &'static str,
    begun: Instant,
    length: Option<Duration>,
}

impl TimeLine {
    /// The line of a run that begins, and what it will have done so far, where stderr can show one.
    pub fn begin(doing: &'static str, length: Option<Duration>) -> Option<TimeLine> {
        Some(TimeLine {
            line: Line::begin()?,
            doing,
            begun: Instant::now(),
            length,
        })
    }

    /// Draws it, if it is time to.
    pub fn turn(&mut self) {
        if !self.line.is_due() {
            return;
        }
        let elapsed = self.begun.elapsed();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let words = words(self.doing, elapsed, self.length);
        let total = self.length.map(millis);
        self.line.draw(millis(elapsed), total, words);
    }

    /// Says something above it.
    pub fn say(&self, message: &str) {
        self.line.say(message);
    }
}

fn words(doing: &str, elapsed: Duration, length: Option<Duration>) -> String {
    match length {
        Some(length) => format!(
            "{doing} {}, {} left",
            rough(elapsed),
            rough(length.saturating_sub(elapsed))
        ),
        None => format!(
            "{doing} {}; Ctrl-C ends the run and prints its result",
            rough(elapsed)
        ),
    }
}

/// A view that shows nothing while the run goes on, with a line that does.
pub struct Timed<'a> {
    view: &'a mut dyn View,
    line: Option<TimeLine>,
}

impl<'a> Timed<'a> {
    /// Whatever the view shows, and the time if it does not.
    pub fn new(view: &'a mut dyn View) -> Timed<'a> {
        Timed { view, line: None }
    }
}

impl View for Timed<'_> {
    fn wants_trace(&self) -> bool {
        self.view.wants_trace()
    }

    fn meanwhile(&self) -> Meanwhile {
        self.view.meanwhile()
    }

    fn begin(&mut self, facts: &RunFacts) {
        self.view.begin(facts);
        if self.view.meanwhile() == Meanwhile::Time {
            self.line = TimeLine::begin("measured", planned(facts));
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.view.interval(interval);
    }

    fn trace(&mut self, lines: &[TraceLine]) {
        self.view.trace(lines);
    }

    fn period(&mut self, period: &Period<'_>) {
        self.view.period(period);
    }

    fn turn(&mut self) {
        self.view.turn();
        if let Some(line) = &mut self.line {
            line.turn();
        }
    }

    fn notice(&mut self, message: &str) {
        match &self.line {
            Some(line) => line.say(message),
            None => self.view.notice(message),
        }
    }

    fn end_live(&mut self) {
        self.line = None;
        self.view.end_live();
    }

    fn draws_live(&self) -> bool {
        self.line.is_some() || self.view.draws_live()
    }

    fn is_gone(&self) -> bool {
        self.view.is_gone()
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        self.view.finish(facts, summary, trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_an_end_says_how_to_end_it() {
        let seconds = Duration::from_secs;
        assert_eq!(
            words("measured", seconds(12), Some(seconds(60))),
            "measured 12 s, 48 s left"
        );
        assert_eq!(
            words("measured", seconds(61), Some(seconds(60))),
            "measured 61 s, 0 s left"
        );
        let endless = words("measured", seconds(12), None);
        assert!(endless.starts_with("measured 12 s; Ctrl-C"), "{endless}");
    }
}
