//! Views of one run: the view of its result, and, on a terminal, a frame or a line with the
//! remaining time.

use std::fmt;
use std::time::Duration;

use vmnoise_console::progress::{TimeLine, planned};
use vmnoise_console::say;
use vmnoise_events::{FinishReason, MeasuringCommand, RunFacts};
use vmnoise_views::{FrameStart, FrameView, Meanwhile, News, ResultView, Watcher};

/// View of the result, and display on the terminal before the result.
pub struct TerminalView<'a> {
    view: &'a mut dyn ResultView,
    /// Function that begins the frame, if the run has a frame.
    frame: Option<FrameStart>,
    live: Option<Box<dyn FrameView>>,
    line: Option<TimeLine>,
}

impl fmt::Debug for TerminalView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalView")
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl<'a> TerminalView<'a> {
    /// Creates the views. If there is a frame, `view` must draw nothing before its result.
    pub fn new(view: &'a mut dyn ResultView, frame: Option<FrameStart>) -> TerminalView<'a> {
        TerminalView {
            view,
            frame,
            live: None,
            line: None,
        }
    }

    /// Returns whether the view wants the trace.
    pub fn keeps_trace(&self) -> bool {
        self.view.plan().keeps_trace
    }

    /// Shows that the workload warms up for `length`.
    pub fn warm_up(&mut self, length: Duration) {
        if self.frame.is_some() || self.view.plan().meanwhile != Meanwhile::Nothing {
            self.line = TimeLine::begin("warmed up", Some(length));
        }
    }

    /// Shows that the measurement begins.
    pub fn begin(&mut self, facts: &RunFacts) {
        self.line = None;
        self.view.see(News::Begin(facts));
        let doing = match facts.workload {
            MeasuringCommand::Exits => "counted",
            _ => "measured",
        };
        if let Some(begin) = self.frame {
            self.live = begin(facts);
        } else if self.view.plan().meanwhile == Meanwhile::Time {
            self.line = TimeLine::begin(doing, planned(facts));
        }
    }

    /// Updates the display; called in each turn of the loop that drains events.
    pub fn turn(&mut self) {
        if let Some(live) = &mut self.live {
            live.turn();
        }
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

    /// Ends the drawing on the terminal, without waiting.
    pub fn end_live(&mut self) {
        if let Some(live) = &mut self.live {
            live.end();
        }
        self.line = None;
    }
}

impl Watcher for TerminalView<'_> {
    fn see(&mut self, news: News<'_>) {
        self.view.see(news);
        if let Some(live) = &mut self.live {
            live.see(news);
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        let by_user = self.live.as_ref().and_then(|live| live.ends());
        by_user.or(self.view.ends())
    }
}
