//! Checks that each command stays within its memory and prints nothing impossible, whatever a
//! recording or a joined pair contains (docs/reliability.md).
//! `cargo test -p vmnoise --test all bombs:: -- --nocapture` prints the measurements.

pub mod made;
mod nonsense;
mod pairs;
mod printed;
mod run;

use std::path::Path;
use std::time::Duration;

use made::{BOMBS, Bomb};
use pairs::{BombPair, PAIRS};
use run::{is_optimized, run};
use vmnoise_events::MeasuringCommand;

const MEGABYTE: u64 = 1_000_000;
/// Memory for a file of 1 MB.
const SMALL_KIB: u64 = 256 << 10;
/// CPU time of a release binary for a file of 1 MB. Other load on the machine adds CPU time only
/// through cold caches: under many builds the longest took 0.8 s.
const SMALL_TIME: Duration = Duration::from_secs(2);

/// Commands on a recording, run in its folder.
const COMMANDS: &[&str] = &[
    "explain it.vmn",
    "explain it.vmn --format json",
    "explain it.vmn --trace",
    "report it.vmn -o it.html",
    "compare it.vmn it.vmn",
    "check it.vmn --max 1us --p99.9 1us --limit thread=0%",
    "export it.vmn --csv tables",
    "export it.vmn --perfetto it.pftrace",
];

/// Commands on the recordings of a guest and its host.
const JOINS: &[&str] = &[
    "explain guest.vmn host.vmn",
    "explain guest.vmn host.vmn --format json --top 65536",
    "report guest.vmn host.vmn -o it.html",
    "export guest.vmn host.vmn --csv tables",
    "export guest.vmn host.vmn --perfetto it.pftrace",
];

/// Recording or pair of recordings.
trait Handed {
    fn name(&self) -> &'static str;
    /// Writes `bytes` bytes, and returns the actual number.
    fn write(&self, folder: &Path, bytes: u64) -> u64;
    fn commands(&self) -> &'static [&'static str];
}

impl Handed for Bomb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write(&self, folder: &Path, bytes: u64) -> u64 {
        let path = folder.join("it.vmn");
        Bomb::write(self, &path, bytes);
        path.metadata().unwrap().len()
    }

    fn commands(&self) -> &'static [&'static str] {
        COMMANDS
    }
}

impl Handed for BombPair {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write(&self, folder: &Path, bytes: u64) -> u64 {
        let (guest, host) = (folder.join("guest.vmn"), folder.join("host.vmn"));
        BombPair::write(self, &guest, &host, bytes);
        guest.metadata().unwrap().len() + host.metadata().unwrap().len()
    }

    fn commands(&self) -> &'static [&'static str] {
        JOINS
    }
}

fn handed() -> impl Iterator<Item = &'static dyn Handed> {
    let alone = [&made::ORDINARY].into_iter().chain(BOMBS);
    let pairs = [&pairs::ORDINARY].into_iter().chain(PAIRS);
    let alone = alone.map(|bomb| bomb as &dyn Handed);
    alone.chain(pairs.map(|pair| pair as &dyn Handed))
}

#[test]
fn a_megabyte_from_a_stranger_stays_small() {
    // A binary without optimization gets less than a megabyte, and no time limit.
    let (bytes, most) = match is_optimized() {
        true => (MEGABYTE, SMALL_TIME),
        false => (MEGABYTE / 4, Duration::MAX),
    };
    for it in handed() {
        let folder = tempfile::tempdir().unwrap();
        let size = it.write(folder.path(), bytes);
        for line in it.commands() {
            let cost = run(folder.path(), line, SMALL_KIB);
            let name = it.name();
            eprintln!(
                "{cost} {:>6.2} MB: {name}: {line}: {}",
                size as f64 / 1e6,
                cost.reported.lines().next().unwrap_or_default(),
            );
            assert!(cost.has_ended_in_order, "{name}: {line}: {}", cost.reported);
            assert!(cost.cpu <= most, "{name}: {line}: {cost}");
        }
    }
}

/// Approximate size of an event in a file.
const BYTES_OF_EVENT: f64 = 90.0;
const TRIES: u32 = 3;

/// Number of seeds for each kind of recording.
const SEEDS: u64 = 6;

#[test]
fn nonsense_is_reported_as_no_percentage_and_no_number_that_nobody_said() {
    let mut wrong = Vec::new();
    for (workload, seed) in seeded(&nonsense::WORKLOADS) {
        let folder = tempfile::tempdir().unwrap();
        nonsense::write(&folder.path().join("it.vmn"), workload, seed);
        let reported = what_is_wrong(folder.path(), COMMANDS);
        wrong.extend(reported.map(|what| format!("{workload:?} {seed}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nonsense_of_a_guest_and_its_host_is_told_as_none_either() {
    let (mut wrong, mut joined) = (Vec::new(), 0);
    for (workload, seed) in seeded(&nonsense::JOINED) {
        let folder = tempfile::tempdir().unwrap();
        let [guest, host] = ["guest.vmn", "host.vmn"].map(|name| folder.path().join(name));
        nonsense::write_pair(&guest, &host, workload, seed);
        let reported = what_is_wrong(folder.path(), JOINS);
        wrong.extend(reported.map(|what| format!("{workload:?} {seed}: {what}")));
        // Only a joined pair has tables.
        joined += u64::from(folder.path().join("tables").exists());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(joined >= SEEDS / 2, "nonsense proves nothing: {joined}");
}

fn seeded(workloads: &[MeasuringCommand]) -> impl Iterator<Item = (MeasuringCommand, u64)> {
    let workloads = workloads.iter();
    workloads.flat_map(|workload| (0..SEEDS).map(move |seed| (*workload, seed)))
}

/// Returns the impossible statements in the output of these commands, in their page and in their
/// tables.
fn what_is_wrong(folder: &Path, commands: &[&str]) -> impl Iterator<Item = String> {
    let mut checked = Vec::new();
    for line in commands {
        let cost = run(folder, line, SMALL_KIB);
        let reported = match cost.has_ended_in_order {
            true => printed::check(&cost.printed),
            false => Err(cost.reported),
        };
        checked.push(reported.map_err(|what| format!("{line}: {what}")));
    }
    let page = std::fs::read_to_string(folder.join("it.html")).unwrap_or_default();
    checked.push(printed::check_page(&page));
    checked.push(printed::check_tables(&folder.join("tables")));
    checked.into_iter().filter_map(Result::err)
}

/// Factor between a small and a large file.
const LARGER: u64 = 4;
const LARGE: u64 = 100;
/// Memory for a file of 100 MB.
const LARGE_KIB: u64 = 1 << 20;

/// Slowdown that is allowed because a large file does not fit into caches.
const CACHES: f64 = 2.0;

/// Compares the times for two sizes. The time per event may grow with the logarithm of their
/// number, and by up to [`CACHES`] if they no longer fit into a cache. If the sizes are too close
/// to rule out a square in this way, the growth must be closer to this than to a square.
fn assert_time_grows_with_the_size(it: &dyn Handed, times: u64, most_kib: u64) {
    let [small, large] = [MEGABYTE, MEGABYTE * times].map(|bytes| {
        let folder = tempfile::tempdir().unwrap();
        let size = it.write(folder.path(), bytes);
        (folder, size as f64)
    });
    let events = |size: f64| (size / BYTES_OF_EVENT).log2();
    let in_order = large.1 * events(large.1) / (small.1 * events(small.1));
    let squared = (large.1 / small.1).powi(2);
    let most = (CACHES * in_order).min((in_order * squared).sqrt());
    for line in it.commands() {
        let mut least = [Duration::MAX; 2];
        // Other load on the machine only adds time, so the least counts.
        for _ in 0..TRIES {
            for (least, (folder, _)) in least.iter_mut().zip([&small, &large]) {
                let cost = run(folder.path(), line, most_kib);
                assert!(
                    cost.has_ended_in_order,
                    "{}: {line}: {}",
                    it.name(),
                    cost.reported
                );
                *least = cost.cpu.min(*least);
            }
            if least[1] <= least[0].mul_f64(most) {
                break;
            }
        }
        let [of_small, of_large] = least.map(|cpu| cpu.as_secs_f64());
        let name = it.name();
        let ratio = of_large / of_small;
        eprintln!(
            "{of_small:>6.3} s {of_large:>7.3} s, {ratio:>6.2} times (at most {most:.2}): {name}: {line}"
        );
        assert!(ratio <= most, "{name}: {line}");
    }
}

mod lab_full {
    mod files {
        use super::super::*;

        #[test]
        fn time_grows_with_the_size() {
            handed().for_each(|it| assert_time_grows_with_the_size(it, LARGER, SMALL_KIB * LARGER));
        }

        #[test]
        fn a_hundred_megabytes_cost_as_much_for_each_and_stay_small() {
            let these = [
                "ordinary",
                "activities that are to come",
                "a VM for each exit",
            ];
            let these = handed().filter(|it| these.contains(&it.name()));
            these.for_each(|it| assert_time_grows_with_the_size(it, LARGE, LARGE_KIB));
        }
    }
}
