//! `vmnoise explain GUEST HOST`: a first pass over both recordings finds out which vCPU is
//! which CPU of the guest, a second lays what the host did under the guest's gaps.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, RunFacts, Workload};
use vmnoise_explain::{JoinError, JoinOptions, Joiner, Matcher, Pairs};
use vmnoise_recording::Reader;

use super::replay::{Replayed, name_file, tell_ending};
use crate::args::ExplainArguments;
use crate::output::format::Format;
use crate::output::join::{Joined, refusal};
use crate::progress::{self, Input};
use crate::status::{Status, UsageError};

/// Prints what the two come to. What can be read is joined even where a file ends too
/// early; then the fault follows on stderr.
pub fn run(arguments: &ExplainArguments, host: &Path) -> Result<Status> {
    for path in [arguments.recording.as_path(), host] {
        progress::expect(path, 2);
    }
    let mut guest = Recording::open(&arguments.recording)?;
    let mut host = Recording::open(host)?;
    let pairs = pair(arguments.vm.as_deref(), &mut guest, &mut host);
    let pairs = pairs.or_else(|error| {
        if let (Format::Json, Some(JoinError::Unpaired(unpaired))) =
            (arguments.format, error.downcast_ref())
        {
            refusal::print(&guest.facts, &host.facts, unpaired)?;
        }
        Err(error)
    })?;
    let recorded_ns = guest.facts.options.threshold_ns;
    let options = JoinOptions {
        above_ns: arguments.threshold.unwrap_or(0).max(recorded_ns),
        top: arguments.top,
    };
    let mut joiner = Joiner::new(&guest.facts, &host.facts, pairs, options);
    play(
        &mut joiner,
        &mut Recording::open(guest.path)?,
        &mut Recording::open(host.path)?,
        &mut |_| Ok(()),
    )?;
    let run = joiner.finish();
    let joined = Joined {
        guest: &guest.facts,
        host: &host.facts,
        run: &run,
    };
    joined.print(arguments.format)?;
    let told = [guest.tell(), host.tell()];
    Ok(match told.contains(&Status::Error) {
        true => Status::Error,
        false => Status::Ok,
    })
}

/// The first pass. Where no pair is found, what of the recordings was not read is told.
///
/// # Errors
/// If the two cannot be joined.
pub fn pair(
    vm: Option<&str>,
    guest: &mut Recording<'_>,
    host: &mut Recording<'_>,
) -> Result<Pairs> {
    let mut matcher = Matcher::new(&guest.facts, &host.facts).map_err(misplaced)?;
    if let Some(vm) = vm {
        matcher = matcher.only(vm);
    }
    while let Some(event) = guest.pull() {
        matcher.guest(&event);
    }
    while let Some(event) = host.pull() {
        matcher.host(&event);
    }
    let pairs = matcher.conclude().inspect_err(|_| {
        guest.tell();
        host.tell();
    })?;
    Ok(pairs)
}

/// Recordings that cannot be meant are not the data's fault.
fn misplaced(error: JoinError) -> anyhow::Error {
    match error {
        JoinError::Swapped | JoinError::NoHost | JoinError::NoGuest | JoinError::Observed => {
            UsageError(error.to_string()).into()
        }
        _ => error.into(),
    }
}

/// Whether the second may be of the host that the first is a guest of.
pub fn may_be_pair(guest: &RunFacts, host: &RunFacts) -> bool {
    let may_be_guest = matches!(
        guest.workload,
        Workload::Microvm | Workload::Spin | Workload::Timer
    );
    may_be_guest && host.workload == Workload::Vcpus
}

/// What happens in the second pass.
pub enum Step<'a> {
    /// An event of the guest is about to be taken.
    Guest(&'a Event, &'a Joiner),
    /// One of the host.
    Host(&'a Event),
    /// Some gaps may have become certain.
    Explained(&'a mut Joiner),
}

/// The second pass: reads each as far as the other allows.
///
/// # Errors
/// Those of `on_step`.
pub fn play(
    joiner: &mut Joiner,
    guest: &mut Recording<'_>,
    host: &mut Recording<'_>,
    on_step: &mut dyn FnMut(Step<'_>) -> Result<()>,
) -> Result<()> {
    while let Some(event) = guest.pull() {
        on_step(Step::Guest(&event, joiner))?;
        joiner.guest(&event);
        hear(joiner, host, on_step)?;
    }
    joiner.guest_ended();
    hear(joiner, host, on_step)
}

/// Reads on in the host's recording for as long as it is wanted.
fn hear(
    joiner: &mut Joiner,
    host: &mut Recording<'_>,
    on_step: &mut dyn FnMut(Step<'_>) -> Result<()>,
) -> Result<()> {
    while joiner.wants_host() {
        match host.pull() {
            Some(event) => {
                on_step(Step::Host(&event))?;
                joiner.host(&event);
            }
            None => joiner.host_ended(),
        }
    }
    on_step(Step::Explained(joiner))
}

/// One of the two, event by event.
pub struct Recording<'a> {
    path: &'a Path,
    /// What was true before its first event.
    pub facts: RunFacts,
    /// None once it has ended.
    reader: Option<Reader<Input>>,
    /// How reading ended, once it did.
    ended: Option<Replayed>,
}

impl<'a> Recording<'a> {
    /// Opens it for one pass.
    ///
    /// # Errors
    /// If it cannot be read, or not twice.
    pub fn open(path: &'a Path) -> Result<Recording<'a>> {
        let reader = progress::open(path).map_err(|error| name_file(error, path))?;
        if !path.is_file() {
            return Err(UsageError(format!(
                "{}: it is read twice, and this is no file: save it as one",
                path.display()
            ))
            .into());
        }
        Ok(Recording {
            path,
            facts: reader.facts().clone(),
            reader: Some(reader),
            ended: None,
        })
    }

    /// The next event; `None` where it ends, be it by a fault.
    pub fn pull(&mut self) -> Option<Event> {
        let ended = match self.reader.as_mut()?.next_event() {
            Ok(ControlFlow::Continue(event)) => return Some(event),
            Ok(ControlFlow::Break(ending)) => Ok(ending),
            Err(fault) => Err(fault),
        };
        self.ended = Some(ended);
        self.reader = None;
        None
    }

    /// How reading ended, if it has; it is told once.
    pub fn ended(&mut self) -> Option<Replayed> {
        self.ended.take()
    }

    /// Tells what of it is not in the result.
    pub fn tell(&mut self) -> Status {
        let ended = self.ended().map(|ended| tell_ending(ended, self.path));
        match ended {
            Some(Err(fault)) => Status::of_error(&fault),
            Some(Ok(())) | None => Status::Ok,
        }
    }
}
