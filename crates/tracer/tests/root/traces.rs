//! Tests of the tracer's own cost, and that nothing remains in the kernel after its end.

use std::{
    collections::HashSet,
    fs, thread,
    time::{Duration, Instant},
};

use libbpf_rs::query::ProgInfoIter;
use vmnoise_events::ActivityKind;
use vmnoise_tracer::{Scope, Tracer};

use super::harness::{Disturber, Reported, alone, own_tid, pin, two_cpus};

#[test]
fn draining_is_no_noise_on_the_measured_cpu() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    pin(other);
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    tracer.attach().unwrap();
    let mut reported = Reported::default();
    reported.drain_for(&mut tracer, Duration::from_millis(200));
    reported.activities.clear();
    reported.drain_for(&mut tracer, Duration::from_secs(1));
    let own = format!(":{}", own_tid());
    let ours = reported
        .activities
        .iter()
        .filter(|it| reported.names[it.source.0 as usize].ends_with(&own))
        .count();
    assert_eq!(ours, 0, "the draining thread shows on the measured CPU");
    // If each record caused a wake-up, there would be one interrupt work item per record.
    let wakes = reported.named(ActivityKind::Irq, "irq_work:246").count();
    assert!(
        wakes * 10 < reported.activities.len().max(100),
        "{wakes} irq_work of ours"
    );
}

/// Returns the ids of the BPF programs for which this process has file descriptors.
fn held_programs() -> HashSet<u32> {
    fs::read_dir("/proc/self/fdinfo")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .filter_map(|info| {
            let id = info
                .lines()
                .find_map(|line| line.strip_prefix("prog_id:"))?;
            id.trim().parse().ok()
        })
        .collect()
}

#[test]
fn after_drop_no_program_remains() {
    let _alone = alone();
    let (cpu, _) = two_cpus();
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    tracer.attach().unwrap();
    let held = held_programs();
    assert!(held.len() > 10, "{held:?}");
    drop(tracer);
    // The kernel frees programs after a grace period.
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let left = ProgInfoIter::default()
            .filter(|info| held.contains(&info.id))
            .count();
        if left == 0 {
            break;
        }
        assert!(
            Instant::now() < until,
            "{left} of {} programs remain",
            held.len()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn own_cost_is_what_the_kernel_accounts() {
    const ACCOUNTING: &str = "/proc/sys/kernel/bpf_stats_enabled";
    let _alone = alone();
    let (cpu, other) = two_cpus();
    pin(other);
    let _disturber = Disturber::on(cpu, "costly");
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    let none = tracer.own_cost();
    assert_eq!(none, None, "nothing has run before attaching");
    let before = fs::read(ACCOUNTING).unwrap();
    fs::write(ACCOUNTING, "1").unwrap();
    tracer.attach().unwrap();
    thread::sleep(Duration::from_millis(500));
    let cost = tracer.own_cost();
    let ours = held_programs();
    let kernel_ns: u64 = ProgInfoIter::default()
        .filter(|program| ours.contains(&program.id))
        .map(|program| program.run_time_ns)
        .sum();
    fs::write(ACCOUNTING, before).unwrap();

    let cost = cost.unwrap();
    assert!(cost.bpf_runs > 100, "{cost:?}");
    // The kernel's measurement begins before the program, and includes runs with nothing to do. The
    // tracer times one run in 13. If the machine pauses during a timed run, the pause counts 13
    // times.
    assert!(
        (kernel_ns / 4..kernel_ns * 4).contains(&cost.bpf_ns),
        "{cost:?}, by the kernel {kernel_ns} ns"
    );
}
