//! A view with a frame while the run goes on. Its result is printed as ever, when the
//! terminal is given back.

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Interval, Summary, TraceLine};

use super::Source;
use super::live::Live;
use crate::output::view::{Period, View};
use crate::recent_trace::RecentTrace;

/// Shows a run as a frame, and its result as `result` does.
pub struct Framed<'a> {
    result: &'a mut dyn View,
    source: Box<dyn Source>,
    live: Option<Live>,
}

impl<'a> Framed<'a> {
    /// A frame for the run; `result` must draw nothing before its end.
    pub fn new(result: &'a mut dyn View, source: Box<dyn Source>) -> Framed<'a> {
        Framed {
            result,
            source,
            live: None,
        }
    }
}

impl View for Framed<'_> {
    fn wants_trace(&self) -> bool {
        self.result.wants_trace()
    }

    fn begin(&mut self, facts: &RunFacts) {
        self.result.begin(facts);
        self.live = Live::begin(self.source.words(facts), facts);
    }

    fn interval(&mut self, interval: &Interval) {
        self.result.interval(interval);
        self.source.interval(interval);
    }

    fn trace(&mut self, lines: &[TraceLine]) {
        self.result.trace(lines);
    }

    fn period(&mut self, period: &Period<'_>) {
        self.result.period(period);
        let snapshot = self.source.period(period);
        if let Some(live) = &mut self.live {
            live.show(snapshot);
        }
    }

    fn turn(&mut self) {
        if let Some(live) = &mut self.live {
            live.turn();
        }
    }

    fn notice(&mut self, message: &str) {
        match &mut self.live {
            Some(live) => live.notice(message),
            None => self.result.notice(message),
        }
    }

    fn draws_live(&self) -> bool {
        self.live.is_some()
    }

    fn is_gone(&self) -> bool {
        self.result.is_gone() || self.live.as_ref().is_some_and(Live::is_over)
    }

    fn end_live(&mut self) {
        self.live = None;
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        self.result.finish(facts, summary, trace)
    }
}
