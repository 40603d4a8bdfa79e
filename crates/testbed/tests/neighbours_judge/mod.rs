//! Checks which pairs of recordings of two guests and their host are joined.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vmnoise_testbed::neighbours::{HOST, RUNS, VMS, guest_file};

use crate::altered;
use crate::pairing_judge::{PairFiles, list};

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;
/// Lengths of parts of the host's recording in milliseconds. Each guest's recording is compared
/// with these parts, and with the whole recording.
const PARTS_MS: [u64; 4] = [50, 100, 200, 300];
/// Maximum additional length of a part, nanoseconds. A part begins and ends at times when the host
/// read its clocks, which is 50 times per second. The four vCPUs that share the host's CPU may
/// delay one of these reads.
const LONGER_NS: u64 = 50 * MS;

/// A guest's recording and the recording of its own host, or a part of the host's recording.
struct Own {
    vm: &'static str,
    run: &'static str,
    /// Whether the recording provides enough tests to prove the pair.
    reports: bool,
    pair: PairFiles,
}

impl Own {
    fn other_vm(&self) -> &'static str {
        VMS.into_iter().find(|vm| *vm != self.vm).unwrap()
    }
}

/// Recordings of one lab, and a folder for changed copies.
pub struct Judge<'a> {
    folder: &'a Path,
    copies: TempDir,
}

impl<'a> Judge<'a> {
    pub fn of(folder: &'a Path) -> Judge<'a> {
        Judge {
            folder,
            copies: tempfile::tempdir().unwrap(),
        }
    }

    /// Asserts that each guest joins with its own VM without the option `--vm`. This is tested with
    /// all of the guest's recordings, and with parts of its host's recording.
    pub fn assert_true_pairs(&self) {
        for own in self.whole().into_iter().chain(self.parts()) {
            let said = own.pair.explain(&[]);
            assert_ne!(said.verdict(), "refused", "{said:?}");
            if own.reports {
                assert_eq!(said.verdict(), "proven", "{said:?}");
            }
            for reported in list(&said.json["pairs"]) {
                assert_eq!(reported["vm"], own.vm, "{said:?}");
                assert_eq!(reported["cpu"], reported["vcpu"], "{said:?}");
            }
        }
    }

    /// Asserts that the other VM of the same host is refused, even with the option `--vm`.
    pub fn assert_neighbours_are_refused(&self) {
        for own in self.whole().into_iter().chain(self.parts()) {
            let said = own.pair.explain(&["--vm", own.other_vm()]);
            said.assert_not_accepted();
            assert_eq!(said.verdict() == "refused", said.tests() > 0, "{said:?}");
        }
    }

    /// Asserts that the right VM is refused if the guest's CPUs are swapped in its recording.
    pub fn assert_crossed_are_refused(&self) {
        for own in self.whole().into_iter().chain(self.parts()) {
            let guest = self.copy("crossed.rec");
            altered::vcpus_crossed(&own.pair.guest, &guest);
            let crossed = PairFiles {
                name: format!("{} crossed", own.pair.name),
                guest,
                ..own.pair
            };
            crossed.explain(&[]).assert_not_accepted();
        }
    }

    pub fn assert_other_clocks_are_refused(&self) {
        for own in self.whole() {
            own.pair.assert_other_clocks_are_refused();
        }
    }

    /// Asserts that the host of another lab is refused. This is tested with the unchanged
    /// recording, and with clocks that move the other guests' runs to the time of ours.
    pub fn assert_strangers_are_refused(&self, stranger: &Judge<'_>) {
        let copy = self.copy("stranger.rec");
        for own in self.whole() {
            let as_it_is = own.pair.with_host(&stranger.host(), "a stranger's");
            as_it_is.explain(&[]).assert_not_accepted();
            for other in VMS {
                let ours = altered::span_tsc(&own.pair.guest).0;
                let theirs = altered::span_tsc(&stranger.guest(other, own.run)).0;
                let by_tsc = ours.wrapping_sub(theirs).cast_signed();
                altered::clocks_ahead(&stranger.host(), &copy, by_tsc);
                let laid_over = own.pair.with_host(&copy, "laid over a stranger's");
                laid_over.explain(&["--vm", other]).assert_not_accepted();
            }
        }
    }

    fn whole(&self) -> Vec<Own> {
        let of_vm = |vm| RUNS.iter().map(move |(run, _)| (vm, *run));
        let all = VMS.into_iter().flat_map(of_vm);
        let own = |(vm, run)| Own {
            vm,
            run,
            // If the guest polls for less than 20 ms at a time, no test can show that it polled.
            reports: run != "spared",
            pair: PairFiles {
                name: format!("{vm} {run}"),
                guest: self.guest(vm, run),
                host: self.host(),
            },
        };
        all.map(own).collect()
    }

    /// Returns parts of the host's recording that lie within each guest's first recording, for all
    /// lengths in [`PARTS_MS`].
    fn parts(&self) -> Vec<Own> {
        let mut parts = Vec::new();
        let run = RUNS[0].0;
        for Own { vm, pair, .. } in self.whole().into_iter().filter(|own| own.run == run) {
            let anchors = altered::anchors_meanwhile(&pair.host, vm, &pair.guest);
            let windows: Vec<(u64, u64)> = PARTS_MS
                .into_iter()
                .filter_map(|wanted_ms| window(&anchors, wanted_ms * MS))
                .collect();
            // The host may not have read its clocks at the time where one part would end.
            assert!(windows.len() + 1 >= PARTS_MS.len(), "{vm}: {anchors:?}");
            for (first, last) in windows {
                let ms = (last - first) / MS;
                let host = self.copy(&format!("{vm}-{ms}.rec"));
                altered::only(&pair.host, &host, first..=last);
                parts.push(Own {
                    vm,
                    run,
                    // A shorter part has about ten tests, so one of many other clocks may fit as
                    // well.
                    reports: ms >= 190,
                    pair: pair.with_host(&host, &format!("{ms} ms of the host")),
                });
            }
        }
        parts
    }

    fn guest(&self, vm: &str, run: &str) -> PathBuf {
        self.folder.join(guest_file(vm, run))
    }

    fn host(&self) -> PathBuf {
        self.folder.join(HOST)
    }

    fn copy(&self, name: &str) -> PathBuf {
        self.copies.path().join(name)
    }
}

/// Returns the first window between two of these times that is at least as long as `wanted_ns`, and
/// longer by less than [`LONGER_NS`].
fn window(anchors: &[u64], wanted_ns: u64) -> Option<(u64, u64)> {
    let fits = |first: u64| {
        let mut after = anchors.iter().filter(|&&last| last >= first + wanted_ns);
        let last = after
            .next()
            .filter(|&&last| last < first + wanted_ns + LONGER_NS);
        last.map(|last| (first, *last))
    };
    anchors.iter().find_map(|&first| fits(first))
}
