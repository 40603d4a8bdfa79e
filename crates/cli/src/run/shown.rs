//! All that shows one run: the view of its result, and on the terminal a frame or a line that says
//! how long it still takes.

use std::time::Duration;

use vmnoise_events::{RunFacts, Workload};

use super::view::{Frame, Meanwhile, View};
use crate::progress::{TimeLine, planned};
use crate::say;

/// The view, and what is on the terminal before its result.
pub struct Shown<'a> {
    view: &'a mut dyn View,
    /// The frame that the run is to have.
    frame: Option<Frame>,
    live: Option<Box<dyn View>>,
    line: Option<TimeLine>,
}

impl<'a> Shown<'a> {
    /// Where there is a frame, `view` draws nothing before its result.
    pub fn new(view: &'a mut dyn View, frame: Option<Frame>) -> Shown<'a> {
        Shown {
            view,
            frame,
            live: None,
            line: None,
        }
    }

    /// Whether the trace is to be reported.
    pub fn wants_trace(&self) -> bool {
        self.view.wants_trace()
    }

    /// Reports to the view, and to the frame while there is one.
    pub fn report(&mut self, report: impl Fn(&mut dyn View)) {
        report(self.view);
        if let Some(live) = &mut self.live {
            report(&mut **live);
        }
    }

    /// The workload warms up for so long.
    pub fn warm_up(&mut self, length: Duration) {
        if self.frame.is_some() || self.view.meanwhile() != Meanwhile::Nothing {
            self.line = TimeLine::begin("warmed up", Some(length));
        }
    }

    /// The workload measures from here on.
    pub fn begin(&mut self, facts: &RunFacts) {
        self.line = None;
        self.view.begin(facts);
        let doing = match facts.workload {
            Workload::Exits => "counted",
            _ => "measured",
        };
        if let Some(begin) = self.frame {
            self.live = begin(facts);
        } else if self.view.meanwhile() == Meanwhile::Time {
            self.line = TimeLine::begin(doing, planned(facts));
        }
    }

    /// A turn of the loop that drains events.
    pub fn turn(&mut self) {
        self.report(|view| view.turn());
        if let Some(line) = &mut self.line {
            line.turn();
        }
    }

    /// Something went wrong, and the run goes on.
    pub fn notice(&mut self, message: &str) {
        match (&mut self.live, &mut self.line) {
            (Some(live), _) => live.notice(message),
            (None, Some(line)) => line.say(message),
            (None, None) => say::say(message),
        }
    }

    /// Whether the terminal is drawn on, so that others may not write there.
    pub fn draws_live(&self) -> bool {
        self.live.is_some() || self.line.is_some()
    }

    /// Whether nobody can see what is shown any more, or wants to: the run may end.
    pub fn is_gone(&self) -> bool {
        self.view.is_gone() || self.live.as_ref().is_some_and(|live| live.is_gone())
    }

    /// Whether all that was asked for has been measured.
    pub fn is_complete(&self) -> bool {
        self.view.is_complete()
    }

    /// The run ends: no more is drawn. Nothing is waited for.
    pub fn end_live(&mut self) {
        if let Some(live) = &mut self.live {
            live.end();
        }
        self.line = None;
    }
}
