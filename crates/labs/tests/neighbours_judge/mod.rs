//! Judges two guests and their host by all pairs of their recordings.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vmnoise_labs::neighbours::{HOST, RUNS, VMS, guest_file};

use crate::altered;
use crate::pairing_judge::{PairFiles, list};

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;
/// Lengths of the parts of the host's recording that a guest is compared with, in addition to all
/// of it.
const PARTS_MS: [u64; 4] = [50, 100, 200, 300];
/// How much longer a part may be. It begins and ends where the host read its clocks, 50 times a
/// second. The four vCPUs that share its CPU may keep it from one of these reads.
const LONGER_NS: u64 = 50 * MS;

/// A guest's recording and its own host's, or a part of that.
struct Own {
    vm: &'static str,
    run: &'static str,
    /// Whether it has enough tests to be proven.
    reports: bool,
    pair: PairFiles,
}

impl Own {
    fn other_vm(&self) -> &'static str {
        VMS.into_iter().find(|vm| *vm != self.vm).unwrap()
    }
}

/// Recordings of one lab.
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

    /// Asserts that each guest joins with its own VM, without its name, in all of its recordings
    /// and in parts of its host's.
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

    /// Asserts that the other VM of the same host is refused, even by name.
    pub fn assert_neighbours_are_refused(&self) {
        for own in self.whole().into_iter().chain(self.parts()) {
            let said = own.pair.explain(&["--vm", own.other_vm()]);
            said.assert_not_accepted();
            assert_eq!(said.verdict() == "refused", said.tests() > 0, "{said:?}");
        }
    }

    /// Asserts that the right VM is refused if its vCPUs are swapped.
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

    /// Asserts that the host of another lab is refused, as it is, and with clocks that put its
    /// guest's runs over ours.
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
            // If it polls for less than 20 ms at a time, nothing shows that it polled.
            reports: run != "spared",
            pair: PairFiles {
                name: format!("{vm} {run}"),
                guest: self.guest(vm, run),
                host: self.host(),
            },
        };
        all.map(own).collect()
    }

    /// Returns the host's recording cut to parts of each guest's first recording, of the wanted
    /// lengths.
    fn parts(&self) -> Vec<Own> {
        let mut parts = Vec::new();
        let run = RUNS[0].0;
        for Own { vm, pair, .. } in self.whole().into_iter().filter(|own| own.run == run) {
            let anchors = altered::anchors_meanwhile(&pair.host, vm, &pair.guest);
            let windows: Vec<(u64, u64)> = PARTS_MS
                .into_iter()
                .filter_map(|wanted_ms| window(&anchors, wanted_ms * MS))
                .collect();
            // The host may have missed a read of its clocks where one part would end.
            assert!(windows.len() + 1 >= PARTS_MS.len(), "{vm}: {anchors:?}");
            for (first, last) in windows {
                let ms = (last - first) / MS;
                let host = self.copy(&format!("{vm}-{ms}.rec"));
                altered::only(&pair.host, &host, first..=last);
                parts.push(Own {
                    vm,
                    run,
                    // A shorter part has some ten tests, and one of many other clocks may fit as
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

/// Returns the first window between two of these times that is this long and hardly longer.
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
