//! Views of one run: the view of its result, and, on a terminal, a frame or a line with the
//! remaining time.

use std::time::Duration;

use vmnoise_events::{MeasuringCommand, RunFacts};

use super::view::{FrameStart, Meanwhile, View};
use crate::progress::{TimeLine, planned};
use crate::say;

/// View of the result, and display on the terminal before the result.
pub struct TerminalView<'a> {
    view: &'a mut dyn View,
    /// Function that begins the frame, if the run has a frame.
    frame: Option<FrameStart>,
    live: Option<Box<dyn View>>,
    line: Option<TimeLine>,
}

impl<'a> TerminalView<'a> {
    /// Creates the views. If there is a frame, `view` must draw nothing before its result.
    pub fn new(view: &'a mut dyn View, frame: Option<FrameStart>) -> TerminalView<'a> {
        TerminalView {
            view,
            frame,
            live: None,
            line: None,
        }
    }

    /// Returns whether the view wants the trace.
    pub fn wants_trace(&self) -> bool {
        self.view.wants_trace()
    }

    /// Calls `report` with the view, and with the frame if there is one.
    pub fn report(&mut self, report: impl Fn(&mut dyn View)) {
        report(self.view);
        if let Some(live) = &mut self.live {
            report(&mut **live);
        }
    }

    /// Shows that the workload warms up for `length`.
    pub fn warm_up(&mut self, length: Duration) {
        if self.frame.is_some() || self.view.meanwhile() != Meanwhile::Nothing {
            self.line = TimeLine::begin("warmed up", Some(length));
        }
    }

    /// Shows that the measurement begins.
    pub fn begin(&mut self, facts: &RunFacts) {
        self.line = None;
        self.view.begin(facts);
        let doing = match facts.workload {
            MeasuringCommand::Exits => "counted",
            _ => "measured",
        };
        if let Some(begin) = self.frame {
            self.live = begin(facts);
        } else if self.view.meanwhile() == Meanwhile::Time {
            self.line = TimeLine::begin(doing, planned(facts));
        }
    }

    /// Updates the display; called in each turn of the loop that drains events.
    pub fn turn(&mut self) {
        self.report(|view| view.turn());
        if let Some(line) = &mut self.line {
            line.turn();
        }
    }

    /// Shows a message about a problem that does not end the run.
    pub fn notice(&mut self, message: &str) {
        match (&mut self.live, &mut self.line) {
            (Some(live), _) => live.notice(message),
            (None, Some(line)) => line.say(message),
            (None, None) => say::say(message),
        }
    }

    /// Returns whether vmnoise draws on the terminal now. Commands must not write there meanwhile.
    pub fn draws_live(&self) -> bool {
        self.live.is_some() || self.line.is_some()
    }

    /// Returns whether the user has closed the output or cannot see it any more. If so, the run may
    /// end.
    pub fn is_gone(&self) -> bool {
        self.view.is_gone() || self.live.as_ref().is_some_and(|live| live.is_gone())
    }

    /// Returns whether everything that the user asked for has been measured.
    pub fn is_complete(&self) -> bool {
        self.view.is_complete()
    }

    /// Ends the drawing on the terminal, without waiting.
    pub fn end_live(&mut self) {
        if let Some(live) = &mut self.live {
            live.end();
        }
        self.line = None;
    }
}
