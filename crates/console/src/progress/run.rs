//! Progress line of a run that shows nothing else.

use std::time::{Duration, Instant};

use vmnoise_events::RunFacts;

use super::line::ProgressLine;
use crate::units::rough;

/// Length from which a run counts as endless. Without `--duration`, the planned length is a year.
const NO_LENGTH: Duration = Duration::from_secs(300 * 86_400);

/// Returns the planned length of the run; `None` without `--duration`.
pub fn planned(facts: &RunFacts) -> Option<Duration> {
    let length = Duration::from_nanos(facts.options.duration_ns);
    Some(length).filter(|length| *length < NO_LENGTH)
}

/// The progress line of a run.
#[derive(Debug)]
pub struct TimeLine {
    line: ProgressLine,
    doing: &'static str,
    begun: Instant,
    length: Option<Duration>,
}

impl TimeLine {
    /// Returns the line of a run that begins, if stderr can show one. `doing` is the verb before
    /// the elapsed time, such as `measured`.
    pub fn begin(doing: &'static str, length: Option<Duration>) -> Option<TimeLine> {
        Some(TimeLine {
            line: ProgressLine::begin()?,
            doing,
            begun: Instant::now(),
            length,
        })
    }

    /// Draws the line if it is due.
    pub fn turn(&mut self) {
        if !self.line.is_due() {
            return;
        }
        let elapsed = self.begun.elapsed();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let words = words(self.doing, elapsed, self.length);
        let total = self.length.map(millis);
        self.line.draw(millis(elapsed), total, &words);
    }

    /// Prints a message above the line.
    pub fn say(&mut self, message: &str) {
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
