//! What is told in a stretch of time, as a file that appears when it is whole.

use std::io::{self, Write};

use anyhow::{Context, Result};
use jiff::Timestamp;
use vmnoise_events::{Event, ExitFilter, LossKind, Options, ProbeStatus};
use vmnoise_export::WholeFile;
use vmnoise_recording::Writer;
use vmnoise_tracer::ExitTracer;

use super::{Order, file_after};
use crate::dump_folder::Shelf;
use crate::machine::Machine;

/// A stretch ends early with a file of so many bytes.
const MOST_BYTES: u64 = 64 << 20;
/// So many of the longest exits are drawn piece by piece.
const TOP: usize = 20;

pub(super) struct Recording {
    shelf: Shelf,
    name: String,
    writer: Writer<Counted>,
    /// What was lost, as it was told last.
    losses: [Option<u64>; LossKind::ALL.len()],
}

/// A file, and how long it is.
struct Counted {
    file: WholeFile,
    bytes: u64,
}

impl Recording {
    /// Begins the file of what follows this dump, by programs that are attached.
    ///
    /// # Errors
    /// If the folder does not take it.
    pub(super) fn begin(
        shelf: &Shelf,
        machine: &Machine,
        tracer: &ExitTracer,
        order: &Order,
        dump: &str,
    ) -> Result<Recording> {
        let name = file_after(dump);
        let options = Options {
            duration_ns: order.length().as_nanos() as u64,
            top: TOP,
            trace: true,
            exits: Some(ExitFilter {
                vm: Some(order.vm.name.clone()),
                ..ExitFilter::default()
            }),
            ..Options::default()
        };
        let limit =
            format!("one VM, after it had waited for too long; {dump} has what came before");
        let remedy = "vmnoise exits -o FILE records all VMs for as long as that is wanted";
        let mut statuses = tracer.exit_statuses();
        statuses.push(ProbeStatus::limited("serve", "tp_btf", &limit, remedy));
        let facts = machine.facts(Timestamp::now(), options, tracer.witnesses(), statuses);
        let begin = || {
            let file = Counted {
                file: shelf.begin(&name)?,
                bytes: 0,
            };
            anyhow::Ok(Writer::new(file, &facts)?)
        };
        let writer = begin().with_context(|| name.clone())?;
        Ok(Recording {
            shelf: shelf.clone(),
            name,
            writer,
            losses: Default::default(),
        })
    }

    /// # Errors
    /// If the folder takes no more.
    pub(super) fn push(&mut self, event: &Event) -> Result<()> {
        if let Event::Loss(loss) = event {
            let told = self.losses[loss.kind as usize].replace(loss.count);
            if told == Some(loss.count) {
                return Ok(());
            }
        }
        self.writer.push(event).context("writing the recording")
    }

    /// Whether it has become as long as it may.
    pub(super) fn is_full(&self) -> bool {
        self.writer.get_ref().bytes >= MOST_BYTES
    }

    /// Puts it in its place.
    pub(super) fn end(self) {
        let end = || {
            let written = self.writer.finish().context("ending the recording")?;
            self.shelf.put(&self.name, written.file)
        };
        self.shelf.count(&self.name, end());
    }

    /// It was not to be.
    pub(super) fn give_up(self, error: anyhow::Error) {
        self.shelf.count(&self.name, Err(error));
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
