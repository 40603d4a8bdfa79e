//! The running frame: takes snapshots and keys, and redraws after a change.

use std::collections::VecDeque;

use vmnoise_console::{progress, say};
use vmnoise_events::{FinishReason, RunFacts};
use vmnoise_views::{FrameView, News, Watcher};

use super::FrameSource;
use super::draw::{Setting, draw};
use super::input::{self, Key};
use super::keys::press;
use super::model::Model;
use super::screen::Screen;
use super::term_style::TermStyle;

/// Number of the latest notices that are repeated at the end.
const SAID_AGAIN: usize = 20;

/// Frame on this terminal.
struct Live<S> {
    source: S,
    screen: Screen,
    model: Model,
    setting: Setting,
    /// Notices; dropped after `screen`, so that they are printed on the normal screen.
    notices: Notices,
    has_changed: bool,
    is_lost: bool,
}

/// Takes over the terminal at the start of a run. If the terminal refuses, prints the reason and
/// returns `None`.
pub fn begin<S: FrameSource + Default + 'static>(facts: &RunFacts) -> Option<Box<dyn FrameView>> {
    let screen = Screen::take().inspect_err(|error| {
        say::say(format_args!(
            "no live view, because the terminal refuses it: {error}"
        ));
    });
    let (screen, source) = (screen.ok()?, S::default());
    let words = source.words(facts);
    let mut live = Live {
        source,
        screen,
        model: Model::of(&words, facts.options.period_ns),
        setting: Setting {
            words,
            length: progress::planned(facts),
            term: TermStyle::of(|name| std::env::var(name).ok()),
        },
        notices: Notices::default(),
        has_changed: true,
        is_lost: false,
    };
    live.turn();
    Some(Box::new(live))
}

impl<S: FrameSource> Watcher for Live<S> {
    fn see(&mut self, news: News<'_>) {
        if let Some(snapshot) = self.source.see(news) {
            self.model.take(snapshot);
            self.has_changed = true;
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        let is_gone = self.model.quits || self.is_lost;
        is_gone.then_some(FinishReason::Interrupt)
    }
}

impl<S: FrameSource> FrameView for Live<S> {
    /// Reads keys and draws, without waiting.
    fn turn(&mut self) {
        if self.is_lost || self.screen.hung_up() {
            self.is_lost = true;
            return;
        }
        let turned = input::pressed().map_err(|_| std::io::ErrorKind::NotConnected.into());
        let turned = turned.and_then(|keys| self.react(&keys));
        self.is_lost = turned.is_err();
    }

    /// Shows the notice now, and prints it again at the end.
    fn notice(&mut self, message: &str) {
        self.model.notice = Some(message.to_owned());
        self.notices.push(message);
        self.has_changed = true;
    }

    fn end(&mut self) {
        self.screen.leave_keys();
    }
}

impl<S: FrameSource> Live<S> {
    fn react(&mut self, keys: &[Key]) -> std::io::Result<()> {
        for key in keys {
            match key {
                Key::Ctrl('z') => {
                    self.screen.stop()?;
                    self.has_changed = true;
                }
                Key::Ctrl('l') => {
                    self.screen.forget()?;
                    self.has_changed = true;
                }
                key => {
                    self.model = press(std::mem::take(&mut self.model), *key);
                    self.has_changed = true;
                }
            }
        }
        self.has_changed |= self.screen.stop_if_asked()?;
        self.has_changed |= self.screen.resized();
        if self.has_changed && self.screen.is_drawn()? {
            self.has_changed = false;
            let (model, setting) = (&self.model, &self.setting);
            self.screen.draw(|frame| draw(frame, model, setting))?;
        }
        Ok(())
    }
}

/// Notices to print again after the frame has gone.
#[derive(Debug, Default)]
struct Notices {
    latest: VecDeque<String>,
    /// Number of notices that were dropped before these.
    earlier: u64,
}

impl Notices {
    fn push(&mut self, message: &str) {
        if self.latest.len() == SAID_AGAIN {
            self.latest.pop_front();
            self.earlier += 1;
        }
        self.latest.push_back(message.to_owned());
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        if self.earlier > 0 {
            say::say(format_args!("{} earlier notices, then:", self.earlier));
        }
        // Notices may contain output of the user's commands, and `say` makes its control characters
        // visible.
        self.latest.iter().for_each(say::say);
    }
}
