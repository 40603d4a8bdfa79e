//! Paths of a run's tables in a data set: `host=…/run=…`, the partition format of Hive.

use std::fmt::Write;
use std::path::PathBuf;

use vmnoise_events::{MeasuringCommand, RunFacts};

/// Place of a run in a data set, by host and run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    host: String,
    run: String,
}

impl Partition {
    /// Returns the partition of the run with these facts; `None` if the host's name is unknown. The
    /// run's name has its start, its workload, and its rank if there is one. So each export of a
    /// run gets the same name.
    pub fn of(facts: &RunFacts) -> Option<Partition> {
        let host = facts.host.name.as_deref().filter(|name| !name.is_empty())?;
        let started_at = facts.started_at.replace(['-', ':'], "");
        let what = workload_name(facts.workload);
        let rank = facts.rank.map(|rank| format!("-rank{rank}"));
        let rank = rank.unwrap_or_default();
        Some(Partition {
            host: escaped(host),
            run: escaped(&format!("{started_at}-{what}{rank}")),
        })
    }

    /// Returns the partition's folder, relative to the data set.
    pub fn folder(&self) -> PathBuf {
        let Partition { host, run } = self;
        format!("host={host}/run={run}").into()
    }
}

/// Returns the name of a workload in recordings.
pub(crate) fn workload_name(workload: MeasuringCommand) -> &'static str {
    match workload {
        MeasuringCommand::Microvm => "microvm",
        MeasuringCommand::Osnoise => "spin",
        MeasuringCommand::Observed => "observed",
        MeasuringCommand::Exits => "vcpus",
        MeasuringCommand::Timerlat => "timer",
    }
}

/// Returns the workload with this name; `None` if the name is unknown.
pub(crate) fn workload_named(name: &str) -> Option<MeasuringCommand> {
    let all = [
        MeasuringCommand::Microvm,
        MeasuringCommand::Osnoise,
        MeasuringCommand::Observed,
        MeasuringCommand::Exits,
        MeasuringCommand::Timerlat,
    ];
    all.into_iter().find(|it| workload_name(*it) == name)
}

/// Escapes a partition's value for a path. Programs that read partitions reverse this.
pub(crate) fn escaped(value: &str) -> String {
    let mut path = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                path.push(char::from(byte));
            }
            _ => {
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{MeasuringCommand, RunFacts, fixtures};

    use super::{Partition, escaped};

    #[test]
    fn ranks_of_one_host_that_start_at_one_instant_lie_apart() {
        let folder_of = |rank| {
            let mut facts = RunFacts {
                rank,
                ..fixtures::facts(MeasuringCommand::Osnoise)
            };
            facts.host.name = Some("node1".into());
            Partition::of(&facts).map(|partition| partition.folder())
        };
        let spin = "host=node1/run=20260101T000000Z-spin";
        assert_eq!(folder_of(None), Some(spin.into()));
        assert_eq!(folder_of(Some(3)), Some(format!("{spin}-rank3").into()));
    }

    #[test]
    fn no_name_leaves_its_folder() {
        assert_eq!(escaped("rack-7.example_1"), "rack-7.example_1");
        assert_eq!(escaped("../a=b c"), "..%2Fa%3Db%20c");
    }
}
