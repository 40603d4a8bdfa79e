//! The frame at work: takes snapshots and keys, and draws when either changed something.

use std::collections::VecDeque;
use vmnoise_events::RunFacts;

use super::draw::{Setting, draw};
use super::input::{self, Key};
use super::keys::press;
use super::look::Look;
use super::model::Model;
use super::screen::Screen;
use super::snapshot::{Snapshot, Words};
use crate::progress;
use crate::say;

/// How many of the latest notices are said again.
const SAID_AGAIN: usize = 20;

/// A frame on this terminal.
#[derive(Debug)]
pub struct Live {
    screen: Screen,
    model: Model,
    setting: Setting,
    /// Dropped after the screen: said again where it stays.
    notices: Notices,
    has_changed: bool,
    is_lost: bool,
}

impl Live {
    /// Takes the terminal, or says why not and leaves it.
    pub fn begin(words: Words, facts: &RunFacts) -> Option<Live> {
        let screen = Screen::take().inspect_err(|error| {
            say::say(format_args!("no live view: the terminal refuses: {error}"));
        });
        let mut live = Live {
            screen: screen.ok()?,
            model: Model::of(&words, facts.options.period_ns),
            setting: Setting {
                words,
                length: progress::planned(facts),
                look: Look::of(|name| std::env::var(name).ok()),
            },
            notices: Notices::default(),
            has_changed: true,
            is_lost: false,
        };
        live.turn();
        Some(live)
    }

    /// A period is over.
    pub fn show(&mut self, snapshot: Snapshot) {
        self.model.take(snapshot);
        self.has_changed = true;
    }

    /// Something that is said now and once more at the end.
    pub fn notice(&mut self, message: &str) {
        self.model.notice = Some(message.to_owned());
        self.notices.push(message);
        self.has_changed = true;
    }

    /// Reads keys and draws. Waits for neither.
    pub fn turn(&mut self) {
        if self.is_lost || self.screen.hung_up() {
            self.is_lost = true;
            return;
        }
        let turned = input::pressed().map_err(|_| std::io::ErrorKind::NotConnected.into());
        let turned = turned.and_then(|keys| self.react(&keys));
        self.is_lost = turned.is_err();
    }

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
        if std::mem::take(&mut self.has_changed) {
            let (model, setting) = (&self.model, &self.setting);
            self.screen.draw(|frame| draw(frame, model, setting))?;
        }
        Ok(())
    }

    /// Whether the run is to end: somebody wants it, or nobody can see it any more.
    pub fn is_over(&self) -> bool {
        self.model.quits || self.is_lost
    }
}

/// What was said on a screen that is gone.
#[derive(Debug, Default)]
struct Notices {
    latest: VecDeque<String>,
    /// How many were before those.
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
            say::say(format_args!("{} notices, and then:", self.earlier));
        }
        // What a command of the user's said is among them.
        self.latest.iter().for_each(say::say);
    }
}
