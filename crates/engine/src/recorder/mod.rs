//! Writer of a run's recording.

use std::collections::BTreeMap;
use std::fs::File;

use anyhow::anyhow;
use vmnoise_console::say;
use vmnoise_console::write_behind::{Room, Unwritten, WriteBehind};
use vmnoise_events::{Event, Loss, LossKind, RunFacts};
use vmnoise_recording::{WriteError, Writer};

/// Memory for data that wait for a slow disk. `most` is enough for eight seconds with 100,000
/// activities each. `all` has as much again for names, which are never left out.
const ROOM: Room = Room {
    most: 64 << 20,
    all: 128 << 20,
};

/// Begins a recording with the facts of the run. A separate thread writes the recording.
///
/// # Errors
/// If the thread cannot be started, or the facts cannot be encoded.
pub fn begin(file: File, facts: &RunFacts) -> Result<Writer<WriteBehind>, WriteError> {
    Writer::new(WriteBehind::new(file, ROOM)?, facts)
}

/// Recorder of events, if a recording was asked for. If the recording cannot be written any more
/// (disk full), the recorder gives it up and returns the error at the end. The measurement
/// continues. Events that a slow disk cannot take are left out and counted in the recording.
#[derive(Debug)]
pub struct Recorder {
    writer: Option<Writer<WriteBehind>>,
    /// Pending reports; `Some` while the disk is too slow.
    behind: Option<Behind>,
    /// Number of events left out so far.
    unrecorded: u64,
    error: Option<anyhow::Error>,
    /// Message for the user that [`Recorder::take_news`] has not yet returned.
    news: Option<String>,
}

/// Reports that the recording gets as soon as there is room again. Names are written at once, since
/// later events need them.
#[derive(Debug, Default)]
struct Behind {
    /// Last report of each kind of loss.
    losses: [Option<Loss>; LossKind::ALL.len()],
    /// Last report of each counter before the last drain. They are kept because a vCPU that has
    /// ended sends no more reports.
    last_words: BTreeMap<(Counter, u32), Event>,
    /// Clocks, counters and the end of the run, from the last drain.
    counters: Vec<Event>,
}

/// Kind of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counter {
    Cpu,
    OwnCost,
    Vcpu,
    Feed,
}

/// Recording that gets no more events.
#[derive(Debug)]
pub struct FinishedRecording {
    file: Option<WriteBehind>,
    unrecorded: u64,
    error: Option<anyhow::Error>,
}

impl Recorder {
    /// Creates a recorder; `writer` has written the facts already.
    pub fn new(writer: Option<Writer<WriteBehind>>) -> Recorder {
        Recorder {
            writer,
            behind: None,
            unrecorded: 0,
            error: None,
            news: None,
        }
    }

    /// Returns whether a recording was asked for and can still be written.
    pub fn is_recording(&self) -> bool {
        self.writer.is_some()
    }

    /// Records one event.
    pub fn push(&mut self, event: &Event) {
        let Some(writer) = &self.writer else {
            return;
        };
        // A drain is left out as a whole or not at all, because a gap without its activities would
        // be attributed to other culprits.
        let begins_drain = matches!(event, Event::Anchor(_));
        if begins_drain && writer.get_ref().is_lost() {
            let error = anyhow!(
                "the recording ends here, because its disk is far too slow; the part on the disk \
                 can be read; record the next run on another disk with -o"
            );
            return self.give_up(error);
        }
        if begins_drain && self.behind.is_some() && writer.get_ref().keeps_up() {
            self.catch_up();
        } else if begins_drain && self.behind.is_none() && !writer.get_ref().has_room() {
            self.behind = Some(Behind::default());
            if self.unrecorded == 0 {
                self.news = Some(
                    "the disk is too slow: events are missing in the recording, which counts \
                     them; the run goes on"
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

    /// Hands the recorded data to the writing thread. Data that it has written survive the end of
    /// this process.
    pub fn flush(&mut self) {
        if self.behind.is_none() {
            self.write(Writer::flush);
        }
    }

    /// Returns the message for the user since the last call, if any.
    pub fn take_news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// Ends the recording without waiting for the disk.
    pub fn finish(mut self) -> FinishedRecording {
        self.catch_up();
        let (file, error) = match self.writer.map(Writer::finish) {
            Some(Ok(file)) => (Some(file), self.error),
            Some(Err(error)) => (None, Some(error.into())),
            None => (None, self.error),
        };
        FinishedRecording {
            file,
            unrecorded: self.unrecorded,
            error,
        }
    }

    /// Records the reports that were pending.
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
    /// Stores this event if it is a report that the recording gets later. Returns whether the event
    /// is stored.
    fn keep(&mut self, event: &Event) -> bool {
        match event {
            Event::Loss(loss) => self.losses[loss.kind as usize] = Some(*loss),
            // An anchor begins a drain.
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

/// Returns the counter that this event reports, and its CPU or vCPU.
fn counter(event: &Event) -> Option<(Counter, u32)> {
    match event {
        Event::Tally(tally) => Some((Counter::Cpu, tally.cpu)),
        Event::OwnCost(_) => Some((Counter::OwnCost, 0)),
        Event::VcpuTotals(totals) => Some((Counter::Vcpu, totals.vcpu.0)),
        Event::FeedTotals(_) => Some((Counter::Feed, 0)),
        _ => None,
    }
}

/// Returns whether this event defines a source, a vCPU or a clock, which later events may need.
fn is_name(event: &Event) -> bool {
    matches!(
        event,
        Event::Source(_) | Event::Vcpu(_) | Event::VcpuClock(_)
    )
}

impl FinishedRecording {
    /// Waits until the disk has taken the whole recording. Returns the error, if any.
    pub fn wait(self) -> Option<anyhow::Error> {
        let ended = self.file.map(|file| {
            file.end(|bytes| {
                say::say(format_args!(
                    "waiting for the disk to write {bytes} bytes of the recording; Ctrl-C gives up"
                ));
            })
        });
        if self.unrecorded > 0 {
            say::say(format_args!(
                "{} events are missing in the recording, which counts them: its disk was too slow",
                self.unrecorded
            ));
        }
        match ended {
            Some(Err(Unwritten::Refused(error))) => Some(WriteError::Io(error).into()),
            Some(Err(Unwritten::GivenUp { bytes })) => Some(anyhow!(
                "the recording lacks its last {bytes} bytes: its disk wrote nothing for 5 s, and \
                 Ctrl-C ended the run; the rest can be read"
            )),
            Some(Ok(())) | None => self.error,
        }
    }
}

#[cfg(test)]
mod tests;
