//! Opens and checks the named recordings, before anything is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_export::Partition;

use super::super::join::may_be_pair;
use super::super::records;
use super::super::replay::ReplayedRecording;
use crate::args::ExportArguments;

/// A recording to export.
#[derive(Debug)]
pub struct ExportInput {
    /// Path of the recording.
    pub path: PathBuf,
    /// Facts of the run, with the host's name from `--host`, if given.
    pub facts: RunFacts,
    /// Folders of its tables in the data set.
    pub partition: Option<Partition>,
}

/// Opens every recording. Before the first file is written, refuses a recording that cannot be read
/// or has no place in the data set.
pub fn open_all(arguments: &ExportArguments) -> Result<Vec<ExportInput>> {
    let folders = [
        &arguments.parquet,
        &arguments.csv,
        &arguments.spreadsheet_csv,
    ];
    let wants_tables = folders.iter().any(|folder| folder.is_some());
    let mut inputs = Vec::new();
    let mut taken: BTreeMap<Partition, &Path> = BTreeMap::new();
    for path in &arguments.recordings {
        let mut facts = ReplayedRecording::open(path)?.facts;
        if let Some(name) = &arguments.host {
            facts.host.name = Some(name.clone().into());
        }
        let partition = Partition::of(&facts);
        match &partition {
            None if wants_tables => {
                return Err(UsageError(format!(
                    "{} does not name its host: name the host with --host NAME",
                    say::name_of(path)
                ))
                .into());
            }
            Some(partition) if wants_tables => {
                if let Some(first) = taken.insert(partition.clone(), path) {
                    return Err(UsageError(format!(
                        "{} and {} are of the same run: export one of them",
                        say::name_of(first),
                        say::name_of(path)
                    ))
                    .into());
                }
            }
            _ => {}
        }
        inputs.push(ExportInput {
            path: path.clone(),
            facts,
            partition,
        });
    }
    if arguments.rt_tests.is_some() {
        let is_one =
            matches!(&inputs[..], [only] if only.facts.workload == MeasuringCommand::Timerlat);
        if !is_one {
            let what = "--rt-tests takes one recording of `vmnoise timerlat`: name only that one";
            return Err(UsageError(what.into()).into());
        }
    }
    if arguments.loggopsim.is_some() {
        refuse_noise_of(&inputs)?;
    }
    if inputs.len() > 1 && pair_of(&inputs).is_none() {
        if arguments.perfetto.is_some() {
            let what = "--perfetto takes one recording, or a guest's and its host's: these share no \
                        clock; export each alone";
            return Err(UsageError(what.into()).into());
        }
        for (flag, file) in [("hlog", &arguments.hlog), ("folded", &arguments.folded)] {
            if file.is_some() {
                return Err(UsageError(format!(
                    "--{flag} takes one recording, or a guest's and its host's: export each of these to a \
                     file of its own"
                ))
                .into());
            }
        }
    }
    Ok(inputs)
}

/// Refuses more than one recording, or one that did not measure its CPUs all the time.
fn refuse_noise_of(inputs: &[ExportInput]) -> Result<()> {
    let [only] = inputs else {
        let what = "--loggopsim takes one recording: name only that one";
        return Err(UsageError(what.into()).into());
    };
    records::refuse_gapless(&only.path, &only.facts)
}

/// Returns the guest and the host, if these are two recordings to join.
pub fn pair_of(inputs: &[ExportInput]) -> Option<(&ExportInput, &ExportInput)> {
    match inputs {
        [guest, host] if may_be_pair(&guest.facts, &host.facts) => Some((guest, host)),
        [host, guest] if may_be_pair(&guest.facts, &host.facts) => Some((guest, host)),
        _ => None,
    }
}
