//! A recording of one VM's exits. It becomes a file, which appears when it is complete, or the
//! answer to a request.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use vmnoise_events::{Event, ExitFilter, LossKind, Name, ProbeStatus, RunOptions};
use vmnoise_export::WholeFile;
use vmnoise_recording::Writer;
use vmnoise_tracer::ExitTracer;

use super::{Answer, file_after};
use crate::dump_folder::Shelf;
use crate::machine::Machine;

/// Size in bytes at which a recording ends early.
const MOST_BYTES: u64 = 64 << 20;
/// Number of the longest exits that a report draws in detail.
const TOP: usize = 20;

/// Destination of a recording that has not begun yet.
pub(super) enum Becomes {
    File {
        shelf: Shelf,
        /// Name of the dump that this file follows.
        dump: String,
        file: WholeFile,
    },
    Answer(Answer),
}

impl Becomes {
    /// Creates the file for the recording that follows this dump.
    ///
    /// # Errors
    /// If the file cannot be created in the folder.
    pub(super) fn file(shelf: &Shelf, dump: String) -> Result<Becomes> {
        let name = file_after(&dump);
        let file = shelf.begin(&name).context(name)?;
        Ok(Becomes::File {
            shelf: shelf.clone(),
            dump,
            file,
        })
    }

    /// Returns the text about what the recording does not cover. The text becomes part of the
    /// recording.
    fn limit(&self) -> String {
        match self {
            Becomes::File { dump, .. } => {
                format!("one VM, after a dump: {dump} has the time before, and the reason")
            }
            Becomes::Answer(_) => "one VM, for the requested time".to_owned(),
        }
    }
}

pub(super) struct Recording {
    destination: Destination,
    writer: Writer<Counted>,
    /// Last written count of lost events of each kind; `None` before the first one.
    losses: [Option<u64>; LossKind::ALL.len()],
}

/// Destination of a complete recording.
enum Destination {
    Shelf { shelf: Shelf, name: String },
    Answer(Answer),
}

/// Destination of the encoded bytes, and the number of bytes that were written to it.
struct Counted {
    room: Room,
    bytes: u64,
}

enum Room {
    File(WholeFile),
    Memory(Vec<u8>),
}

impl Recording {
    /// Begins a recording of `vm` for `length`. The programs must be attached already.
    ///
    /// # Errors
    /// If the recording cannot be written to its destination.
    pub(super) fn begin(
        becomes: Becomes,
        machine: &Machine,
        tracer: &ExitTracer,
        vm: &Name,
        length: Duration,
    ) -> Result<Recording> {
        let options = RunOptions {
            duration_ns: length.as_nanos() as u64,
            top: TOP,
            trace: true,
            exits: Some(ExitFilter {
                vm: Some(vm.clone()),
                ..ExitFilter::default()
            }),
            ..RunOptions::default()
        };
        let limit = becomes.limit();
        let remedy = "vmnoise exits -o FILE records all VMs, for any time";
        let mut statuses = tracer.exit_statuses();
        statuses.push(ProbeStatus::limited("serve", "tp_btf", &limit, remedy));
        let facts = machine.facts(Timestamp::now(), options, tracer.witnesses(), statuses);
        let (destination, room) = match becomes {
            Becomes::File { shelf, dump, file } => {
                let name = file_after(&dump);
                (Destination::Shelf { shelf, name }, Room::File(file))
            }
            Becomes::Answer(answer) => (Destination::Answer(answer), Room::Memory(Vec::new())),
        };
        let counted = Counted { room, bytes: 0 };
        let writer = Writer::new(counted, &facts).context("beginning the recording")?;
        Ok(Recording {
            destination,
            writer,
            losses: Default::default(),
        })
    }

    /// Writes one event. Leaves out a loss whose count has not changed.
    ///
    /// # Errors
    /// If the event cannot be written.
    pub(super) fn push(&mut self, event: &Event) -> Result<()> {
        if let Event::Loss(loss) = event {
            let told = self.losses[loss.kind as usize].replace(loss.count);
            if told == Some(loss.count) {
                return Ok(());
            }
        }
        self.writer.push(event).context("writing the recording")
    }

    /// Returns whether the recording has reached its largest size.
    pub(super) fn is_full(&self) -> bool {
        self.writer.get_ref().bytes >= MOST_BYTES
    }

    /// Returns whether the client of a requested recording has hung up.
    pub(super) fn is_unwanted(&self) -> bool {
        match &self.destination {
            Destination::Shelf { .. } => false,
            Destination::Answer(answer) => answer.is_closed(),
        }
    }

    /// Completes the recording, and delivers it to its destination.
    pub(super) fn end(self) {
        let written = self.writer.finish().context("ending the recording");
        match (self.destination, written.map(|counted| counted.room)) {
            (Destination::Shelf { shelf, name }, Ok(Room::File(file))) => {
                shelf.count(&name, shelf.put(&name, file));
            }
            (Destination::Shelf { shelf, name }, Err(error)) => shelf.count(&name, Err(error)),
            // If the client has hung up, the recording is dropped.
            (Destination::Answer(answer), Ok(Room::Memory(bytes))) => _ = answer.send(bytes),
            // The sender is dropped here. This tells the waiting client that the recording failed.
            (Destination::Answer(_), _) | (Destination::Shelf { .. }, Ok(Room::Memory(_))) => {}
        }
    }

    /// Drops the recording after an error, and counts the error.
    pub(super) fn give_up(self, error: anyhow::Error) {
        match self.destination {
            Destination::Shelf { shelf, name } => shelf.count(&name, Err(error)),
            // The sender is dropped here. This tells the waiting client that the recording failed.
            Destination::Answer(_) => {}
        }
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.room {
            Room::File(file) => file.write(bytes)?,
            Room::Memory(memory) => memory.write(bytes)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.room {
            Room::File(file) => file.flush(),
            Room::Memory(_) => Ok(()),
        }
    }
}
