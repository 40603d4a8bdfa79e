//! The recording of a run, written as it goes.

use std::collections::BTreeMap;
use std::fs::File;

use anyhow::anyhow;
use vmnoise_events::{Event, Loss, LossKind, RunFacts};
use vmnoise_recording::{WriteError, Writer};

use crate::say;
use crate::write_behind::{Room, Unwritten, WriteBehind};

/// What may wait for a disk that is slow or gone: eight seconds of 100,000 activities each, and
/// as much again of names, which are not left out.
const ROOM: Room = Room {
    most: 64 << 20,
    all: 128 << 20,
};

/// Begins a recording with its facts. It is written by a thread of its own.
///
/// # Errors
/// If there is no thread, or the facts cannot be encoded.
pub fn begin(file: File, facts: &RunFacts) -> Result<Writer<WriteBehind>, WriteError> {
    Writer::new(WriteBehind::new(file, ROOM)?, facts)
}

/// Records what it is given, if anything is to be recorded. A recording that cannot be
/// written any more (disk full) is given up and told at the end; measuring goes on. What a
/// disk has no time for is left out, and counted in the recording.
#[derive(Debug)]
pub struct Recorder {
    writer: Option<Writer<WriteBehind>>,
    /// While the disk takes too little.
    behind: Option<Behind>,
    /// What was left out so far.
    unrecorded: u64,
    error: Option<anyhow::Error>,
    /// What was not told yet.
    news: Option<String>,
}

/// What the recording gets as soon as there is room again. Names are not kept back: what
/// is recorded later needs them.
#[derive(Debug, Default)]
struct Behind {
    /// The last word on each kind of loss.
    losses: [Option<Loss>; LossKind::ALL.len()],
    /// The last word on each counter before the last drain: who has ended reports no more.
    last_words: BTreeMap<(Counter, u32), Event>,
    /// Clocks, counters and the end of the run, of the last drain.
    counters: Vec<Event>,
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counter {
    Cpu,
    OwnCost,
    Vcpu,
    Feed,
}

/// A recording that gets no more events.
#[derive(Debug)]
pub struct Recorded {
    file: Option<WriteBehind>,
    unrecorded: u64,
    error: Option<anyhow::Error>,
}

impl Recorder {
    /// `writer` has the facts already.
    pub fn new(writer: Option<Writer<WriteBehind>>) -> Recorder {
        Recorder {
            writer,
            behind: None,
            unrecorded: 0,
            error: None,
            news: None,
        }
    }

    /// Whether anything is to be recorded, and can be.
    pub fn is_recording(&self) -> bool {
        self.writer.is_some()
    }

    /// Takes one event.
    pub fn push(&mut self, event: &Event) {
        let Some(writer) = &self.writer else {
            return;
        };
        // A drain is left out as a whole or not at all: a gap without its activities would be
        // blamed on others.
        let begins_drain = matches!(event, Event::Anchor(_));
        if begins_drain && writer.get_ref().is_lost() {
            let error = anyhow!(
                "the recording is given up: its disk takes next to nothing; what it has taken reads \
                 back, and -o on another disk records the next run"
            );
            return self.give_up(error);
        }
        if begins_drain && self.behind.is_some() && writer.get_ref().keeps_up() {
            self.catch_up();
        } else if begins_drain && self.behind.is_none() && !writer.get_ref().has_room() {
            self.behind = Some(Behind::default());
            if self.unrecorded == 0 {
                self.news = Some(
                    "the disk takes less than is told: events are missing in the recording, \
                     and counted there; the run goes on"
                        .to_owned(),
                );
            }
        }
        match &mut self.behind {
            None => self.write(|writer| writer.push(event)),
            Some(_) if is_name(event) => self.write(|writer| writer.push(event)),
            Some(behind) => self.unrecorded += u64::from(!behind.keep(event)),
        }
    }

    /// Hands over what was recorded so far: once it is on its way to the disk, it survives the
    /// end of this process.
    pub fn flush(&mut self) {
        if self.behind.is_none() {
            self.write(Writer::flush);
        }
    }

    /// What went wrong since the last call, for whoever sits before the run.
    pub fn take_news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// Ends the recording. Nothing is waited for.
    pub fn finish(mut self) -> Recorded {
        self.catch_up();
        let (file, error) = match self.writer.map(Writer::finish) {
            Some(Ok(file)) => (Some(file), self.error),
            Some(Err(error)) => (None, Some(error.into())),
            None => (None, self.error),
        };
        Recorded {
            file,
            unrecorded: self.unrecorded,
            error,
        }
    }

    /// Records what the recording has missed.
    fn catch_up(&mut self) {
        let Some(behind) = self.behind.take() else {
            return;
        };
        let unrecorded = Loss {
            kind: LossKind::Unrecorded,
            count: self.unrecorded,
        };
        let losses = behind.losses.into_iter().flatten().chain([unrecorded]);
        let last_words = behind.last_words.into_values();
        let counters = last_words.chain(behind.counters);
        for event in losses.map(Event::Loss).chain(counters) {
            self.write(|writer| writer.push(&event));
        }
    }

    fn write(&mut self, action: impl FnOnce(&mut Writer<WriteBehind>) -> Result<(), WriteError>) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = action(writer)
        {
            self.give_up(error.into());
        }
    }

    fn give_up(&mut self, error: anyhow::Error) {
        self.news = Some(format!("{error:#}; the run goes on"));
        self.error = Some(error);
        self.writer = None;
    }
}

impl Behind {
    /// Whether nothing is lost with this event: another one repeats what it says, or it is
    /// kept.
    fn keep(&mut self, event: &Event) -> bool {
        match event {
            Event::Loss(loss) => self.losses[loss.kind as usize] = Some(*loss),
            // With it a drain begins.
            Event::Anchor(_) => {
                let before = std::mem::replace(&mut self.counters, vec![event.clone()]);
                let counted = before
                    .into_iter()
                    .filter_map(|it| Some((counter(&it)?, it)));
                self.last_words.extend(counted);
            }
            Event::Tally(_)
            | Event::OwnCost(_)
            | Event::Watermark(_)
            | Event::VcpuTotals(_)
            | Event::FeedTotals(_)
            | Event::Finish(_) => self.counters.push(event.clone()),
            _ => return false,
        }
        true
    }
}

/// Which counter this event reports, and whose.
fn counter(event: &Event) -> Option<(Counter, u32)> {
    match event {
        Event::Tally(tally) => Some((Counter::Cpu, tally.cpu)),
        Event::OwnCost(_) => Some((Counter::OwnCost, 0)),
        Event::VcpuTotals(totals) => Some((Counter::Vcpu, totals.vcpu.0)),
        Event::FeedTotals(_) => Some((Counter::Feed, 0)),
        _ => None,
    }
}

/// Whether later events may need this one.
fn is_name(event: &Event) -> bool {
    matches!(
        event,
        Event::Source(_) | Event::Vcpu(_) | Event::VcpuClock(_)
    )
}

impl Recorded {
    /// Waits until the disk has all of it; returns what went wrong.
    pub fn wait(self) -> Option<anyhow::Error> {
        let ended = self.file.map(|file| {
            file.end(|bytes| {
                say::say(format_args!(
                    "the disk has still to take {bytes} bytes of the recording; Ctrl-C gives them up"
                ));
            })
        });
        if self.unrecorded > 0 {
            say::say(format_args!(
                "{} events are missing in the recording, which counts them: its disk took less \
                 than was told",
                self.unrecorded
            ));
        }
        match ended {
            Some(Err(Unwritten::Refused(error))) => Some(WriteError::Io(error).into()),
            Some(Err(Unwritten::GivenUp { bytes })) => Some(anyhow!(
                "the recording lacks its last {bytes} bytes: its disk has taken nothing for 5 s, and \
                 Ctrl-C asked for the end; what came before reads back"
            )),
            Some(Ok(())) | None => self.error,
        }
    }
}

#[cfg(test)]
mod tests;
