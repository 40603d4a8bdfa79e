//! Judges two guests and their host by all pairs that can be made of their recordings.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vmnoise_labs::neighbours::{HOST, RUNS, VMS, guest_file};

use crate::altered;
use crate::pairing_judge::{Pair, list};

/// In nanoseconds.
const MS: u64 = 1_000_000;

/// A guest's recording and its own host's, or what is left of that.
struct Own {
    vm: &'static str,
    run: &'static str,
    /// There are tests enough: it has to be proven.
    tells: bool,
    pair: Pair,
}

impl Own {
    fn other_vm(&self) -> &'static str {
        VMS.into_iter().find(|vm| *vm != self.vm).unwrap()
    }
}

/// The recordings of one lab.
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

    /// Each guest, in all that it recorded and where its host recorded a part of that, is its
    /// own VM, found without being told which.
    pub fn assert_true_pairs(&self) {
        for own in self.whole().into_iter().chain(self.parts()) {
            let said = own.pair.explain(&[]);
            assert_ne!(said.verdict(), "refused", "{said:?}");
            if own.tells {
                assert_eq!(said.verdict(), "proven", "{said:?}");
            }
            for told in list(&said.json["pairs"]) {
                assert_eq!(told["vm"], own.vm, "{said:?}");
                assert_eq!(told["cpu"], told["vcpu"], "{said:?}");
            }
        }
    }

    /// The other VM of the same host, although it is named.
    pub fn assert_neighbours_are_refused(&self) {
        for own in self.whole().into_iter().chain(self.parts()) {
            let said = own.pair.explain(&["--vm", own.other_vm()]);
            said.assert_not_accepted();
            assert_eq!(said.verdict() == "refused", said.tests() > 0, "{said:?}");
        }
    }

    /// The right VM, with its vCPUs crossed.
    pub fn assert_crossed_are_refused(&self) {
        for own in self.whole().into_iter().chain(self.parts()) {
            let guest = self.copy("crossed.rec");
            altered::vcpus_crossed(&own.pair.guest, &guest);
            let crossed = Pair {
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

    /// The host of another lab, as it is, and with clocks that lay its guest's runs over ours.
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
            // Where it polls for less than 20 ms on end, nothing says that it polled.
            tells: run != "spared",
            pair: Pair {
                name: format!("{vm} {run}"),
                guest: self.guest(vm, run),
                host: self.host(),
            },
        };
        all.map(own).collect()
    }

    /// The host's recording cut to a part of each guest's first one.
    fn parts(&self) -> Vec<Own> {
        let mut parts = Vec::new();
        let run = RUNS[0].0;
        for Own { vm, pair, .. } in self.whole().into_iter().filter(|own| own.run == run) {
            let anchors = altered::anchors_meanwhile(&pair.host, vm, &pair.guest);
            let from = |mono_ns: u64| *anchors.iter().find(|at| **at >= mono_ns).unwrap();
            let (begin, end) = (anchors[0], anchors[anchors.len() - 1]);
            for (after_ms, least_ms) in [(0, 50), (150, 50), (200, 190), (50, 290)] {
                let first = from(end.min(begin + after_ms * MS));
                let last = from(end.min(first + least_ms * MS));
                // The host had no time to read its clocks.
                if first == last {
                    continue;
                }
                let ms = (last - first) / MS;
                // In less are some ten tests, and one of many other clocks may fit as well.
                let tells = ms >= 190;
                let host = self.copy(&format!("{vm}-{}.rec", parts.len()));
                altered::only(&pair.host, &host, first..=last);
                let pair = pair.with_host(&host, &format!("{ms} ms of the host"));
                parts.push(Own {
                    vm,
                    run,
                    tells,
                    pair,
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
