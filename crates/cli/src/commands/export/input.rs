//! The recordings that were named, looked at before anything is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use vmnoise_events::{RunFacts, Workload};
use vmnoise_export::Partition;

use super::super::join::may_be_pair;
use super::super::records;
use super::super::replay::Recording;
use crate::args::ExportArguments;
use crate::say;
use crate::status::UsageError;

/// One recording.
#[derive(Debug)]
pub struct Input {
    /// Where it is.
    pub path: PathBuf,
    /// Its facts, with the host's name as it is to be called.
    pub facts: RunFacts,
    /// Where its tables go.
    pub partition: Option<Partition>,
}

/// Looks at every recording: one that cannot be read, or has no place to go, is refused
/// before the first file is written.
pub fn open_all(arguments: &ExportArguments) -> Result<Vec<Input>> {
    let folders = [
        &arguments.parquet,
        &arguments.csv,
        &arguments.spreadsheet_csv,
    ];
    let wants_tables = folders.iter().any(|folder| folder.is_some());
    let mut inputs = Vec::new();
    let mut taken: BTreeMap<Partition, &Path> = BTreeMap::new();
    for path in &arguments.recordings {
        let mut facts = Recording::open(path)?.facts;
        if let Some(name) = &arguments.host {
            facts.host.name = Some(name.clone().into());
        }
        let partition = Partition::of(&facts);
        match &partition {
            None if wants_tables => {
                return Err(UsageError(format!(
                    "{} does not say which host it is of: name it with --host NAME",
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
        inputs.push(Input {
            path: path.clone(),
            facts,
            partition,
        });
    }
    if arguments.rt_tests.is_some() {
        let is_one = matches!(&inputs[..], [only] if only.facts.workload == Workload::Timerlat);
        if !is_one {
            let what = "--rt-tests writes one recording of `vmnoise timerlat`: name that alone";
            return Err(UsageError(what.into()).into());
        }
    }
    if arguments.loggopsim.is_some() {
        refuse_noise_of(&inputs)?;
    }
    if inputs.len() > 1 && pair_of(&inputs).is_none() {
        if arguments.perfetto.is_some() {
            let what = "--perfetto writes one recording, or a guest's and its host's: these share no \
                        clock";
            return Err(UsageError(what.into()).into());
        }
        for (flag, file) in [("hlog", &arguments.hlog), ("folded", &arguments.folded)] {
            if file.is_some() {
                return Err(UsageError(format!(
                    "--{flag} writes one recording, or a guest's and its host's: export each of these to a \
                     file of its own"
                ))
                .into());
            }
        }
    }
    Ok(inputs)
}

/// Noise is that of one recording, and of one that looked at its CPUs all the time.
fn refuse_noise_of(inputs: &[Input]) -> Result<()> {
    let [only] = inputs else {
        let what = "--loggopsim writes one recording: name that alone";
        return Err(UsageError(what.into()).into());
    };
    records::refuse_gapless(&only.path, &only.facts)
}

/// The guest and the host, if these are two recordings to be joined.
pub fn pair_of(inputs: &[Input]) -> Option<(&Input, &Input)> {
    match inputs {
        [guest, host] if may_be_pair(&guest.facts, &host.facts) => Some((guest, host)),
        [host, guest] if may_be_pair(&guest.facts, &host.facts) => Some((guest, host)),
        _ => None,
    }
}
