//! Tests of this machine's own steal clock: its readings, its use in activities, and its reader for
//! a polling thread.

use std::{fs, thread, time::Duration};

use vmnoise_events::ActivityKind;
use vmnoise_host::Host;
use vmnoise_tracer::{Scope, Tracer};

use super::harness::{Disturber, Reported, alone, pin, skipped, two_cpus};

#[test]
fn the_steal_clock_of_this_machine_never_runs_backwards() {
    let _alone = alone();
    let (cpu, _) = two_cpus();
    let tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    let is_guest = Host::here().hypervisor().is_some();
    let readings: Vec<_> = (0..50).map(|_| tracer.outer_steal_ns(cpu)).collect();
    assert!(readings.is_sorted(), "{readings:?}");
    assert!(is_guest || readings == [None; 50]);
}

#[test]
fn the_steal_clock_is_not_behind_the_column_of_proc_stat() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    let tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    let probe_statuses = tracer.probe_statuses();
    let mut probe_statuses = probe_statuses.iter();
    let probe_status =
        probe_statuses.find(|probe_status| probe_status.probe == "steal clock of this machine");
    if !probe_status.unwrap().in_use.contains("BTF") {
        return skipped("this machine's steal clock is not read by BTF");
    }
    // Both clocks count since boot. The kernel adds only whole ticks to the column of /proc/stat,
    // and keeps the rest. So the column is never ahead.
    let column_ns = proc_stat_steal_ns(other);
    let reading_ns = tracer.outer_steal_ns(other).unwrap();
    assert!(reading_ns >= column_ns, "{reading_ns} {column_ns}");
}

#[test]
fn activities_hold_no_more_steal_than_their_cpu() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    pin(other);
    let _disturber = Disturber::on(cpu, "stolen-from");
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    let before_ns = tracer.outer_steal_ns(cpu);
    tracer.attach().unwrap();
    let mut reported = Reported::default();
    reported.drain_for(&mut tracer, Duration::from_secs(1));
    let after_ns = tracer.outer_steal_ns(cpu);
    let inside = |kind| {
        let those = reported.activities.iter().filter(move |it| it.kind == kind);
        those.map(|it| it.steal_ns).sum::<u64>()
    };
    assert!(reported.activities.len() > 20, "{:?}", reported.names);
    let of_threads_ns = inside(ActivityKind::Thread);
    if tracer.witnesses().activity_steal {
        // Two threads never run on a CPU at the same time, so no steal time counts for two of them.
        let advance_ns = after_ns.unwrap() - before_ns.unwrap();
        assert!(
            of_threads_ns <= advance_ns,
            "{of_threads_ns} of {advance_ns}"
        );
    } else {
        assert_eq!(of_threads_ns, 0);
    }
    assert_eq!(inside(ActivityKind::Nmi), 0);
}

#[test]
fn a_polling_thread_reads_the_steal_clock_of_its_cpu() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    let tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    assert!(tracer.steal_reader(other).is_none(), "not measured");
    let Some(mut reader) = tracer.steal_reader(cpu) else {
        assert!(!tracer.witnesses().activity_steal);
        return skipped("activities are not sampled with a steal clock");
    };
    pin(cpu);
    let read = |_| {
        let before_ns = tracer.outer_steal_ns(cpu).unwrap();
        let reading = reader.read().unwrap();
        let after_ns = tracer.outer_steal_ns(cpu).unwrap();
        assert!(
            (before_ns..=after_ns).contains(&reading.0),
            "{before_ns} {reading:?} {after_ns}"
        );
        reading
    };
    let readings: Vec<_> = (0..1000).map(read).collect();
    assert!(readings.is_sorted(), "{readings:?}");
    let versions = readings.iter().filter_map(|(_, version)| *version);
    assert!(versions.into_iter().all(|version| version % 2 == 0));
    let elsewhere = thread::spawn(move || {
        pin(other);
        reader.read()
    });
    assert_eq!(elsewhere.join().unwrap(), None, "on another CPU");
}

fn proc_stat_steal_ns(cpu: u32) -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let label = format!("cpu{cpu} ");
    let line = stat.lines().find(|line| line.starts_with(&label)).unwrap();
    line.split_ascii_whitespace()
        .nth(8)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 10_000_000
}
