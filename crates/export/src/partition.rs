//! Where the tables of a run lie in a data set: `host=…/run=…`, as Hive writes partitions.

use std::fmt::Write;
use std::path::PathBuf;

use vmnoise_events::{RunFacts, Workload};

/// One run of one host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    host: String,
    run: String,
}

impl Partition {
    /// The partition of the run with these facts; `None` where its host has no name. A run is
    /// called by when it started and what it was, and by the rank of who recorded it if there is one,
    /// so it is the same each time it is exported.
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

    /// Its folder in the folder of the data set.
    pub fn folder(&self) -> PathBuf {
        let Partition { host, run } = self;
        format!("host={host}/run={run}").into()
    }
}

/// The word for who observed, as in recordings.
pub(crate) fn workload_name(workload: Workload) -> &'static str {
    match workload {
        Workload::Microvm => "microvm",
        Workload::Osnoise => "spin",
        Workload::Observed => "observed",
        Workload::Exits => "vcpus",
        Workload::Timerlat => "timer",
    }
}

/// Who observed, by that word.
pub(crate) fn workload_named(name: &str) -> Option<Workload> {
    let all = [
        Workload::Microvm,
        Workload::Osnoise,
        Workload::Observed,
        Workload::Exits,
        Workload::Timerlat,
    ];
    all.into_iter().find(|it| workload_name(*it) == name)
}

/// A value of a partition as it may stand in a path: what reads partitions takes it back.
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
    use vmnoise_events::{RunFacts, Workload, fixtures};

    use super::{Partition, escaped};

    #[test]
    fn ranks_of_one_host_that_start_at_one_instant_lie_apart() {
        let folder_of = |rank| {
            let mut facts = RunFacts {
                rank,
                ..fixtures::facts(Workload::Osnoise)
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
