//! Metrics of a guest about its own CPUs.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use vmnoise_testbed::{footprint::OpenDescriptors, skipped};
use vmnoise_tracer::OwnCpus;

use crate::harness::{Metrics, Serve};

const FAMILIES: [&str; 4] = [
    "vmnoise_cpu_lost_seconds_total",
    "vmnoise_cpu_steal_seconds",
    "vmnoise_cpu_interrupt_seconds",
    "vmnoise_wakeup_wait_seconds",
];

/// Returns all series about this machine's own CPUs.
fn told(metrics: &Metrics) -> Vec<(String, f64)> {
    let of = |family| metrics.beginning(family);
    let told = FAMILIES.into_iter().flat_map(of);
    told.map(|(labels, value)| (labels.to_owned(), value))
        .collect()
}

fn sum(metrics: &Metrics, beginning: &str) -> f64 {
    let series = metrics.beginning(beginning).into_iter();
    series.map(|(_, value)| value).sum()
}

/// Returns the steal time of all CPUs since boot by /proc/stat (proc(5)), in s.
fn stolen() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let ticks = stat.split_ascii_whitespace().nth(8).unwrap();
    ticks.parse::<f64>().unwrap() / 100.0
}

#[test]
fn a_guest_tells_what_is_taken_from_its_own_cpus() {
    let is_told = OwnCpus::load().unwrap().is_some();
    let before = stolen();
    let serve = Serve::with(&["--per-vcpu"]);
    let begun = stolen();
    let metrics = serve.metrics();
    for family in FAMILIES {
        assert_eq!(!metrics.beginning(family).is_empty(), is_told, "{family}");
    }
    if !is_told {
        skipped("this machine has no steal clock");
        return;
    }
    sleep(Duration::from_secs(5));
    let earliest = stolen();
    let metrics = serve.metrics();
    let latest = stolen();
    // /proc/stat counts whole ticks of 10 ms for each CPU, at the CPU's next tick. Up to one tick
    // may be missing at each end, and an idle CPU has no ticks.
    let by_cpu = metrics.beginning("vmnoise_cpu_lost_seconds_total{cpu=");
    let cpus = by_cpu.len() / 3;
    let left_over = 0.02 * cpus as f64 + 0.05;
    let told_of = sum(&metrics, "vmnoise_cpu_steal_seconds_sum");
    let bounds = earliest - begun - left_over..=latest - before + left_over;
    println!("{told_of} s of {bounds:?}");
    assert!(bounds.contains(&told_of), "{told_of} {bounds:?}");
    let all_of = |share: &str| {
        let share = format!("share=\"{share}\"");
        let of_share = by_cpu.iter().filter(|(labels, _)| labels.contains(&share));
        of_share.map(|(_, value)| value).sum::<f64>()
    };
    for (share, single) in [
        ("steal", "vmnoise_cpu_steal_seconds_sum"),
        ("irq", "vmnoise_cpu_interrupt_seconds_sum{share=\"irq\"}"),
        (
            "softirq",
            "vmnoise_cpu_interrupt_seconds_sum{share=\"softirq\"}",
        ),
    ] {
        assert!((all_of(share) - metrics.of(single)).abs() < 1e-6, "{share}");
    }
    assert!(all_of("irq") > 0.0 && all_of("softirq") > 0.0);
    assert!(metrics.of("vmnoise_wakeup_wait_seconds_count") > 10.0);
    assert_eq!(metrics.of("vmnoise_events_missed_total"), 0.0);

    // Without `--per-vcpu` there is one sum for all CPUs. In a pause the sums do not change.
    let serve = Serve::with(&["--cost-limit", "0.0001"]);
    let metrics = serve.metrics();
    assert!(metrics.has("vmnoise_cpu_lost_seconds_total{share=\"steal\"}"));
    assert_eq!(sum(&metrics, "vmnoise_cpu_lost_seconds_total{cpu="), 0.0);
    serve.wait_until("it pauses", |metrics| metrics.of("vmnoise_paused") == 1.0);
    sleep(Duration::from_secs(1));
    let first = told(&serve.metrics());
    let at = Instant::now();
    sleep(Duration::from_secs(3));
    assert_eq!(told(&serve.metrics()), first, "{:?} later", at.elapsed());
    let programs = OpenDescriptors::by(serve.pid()).unwrap().links;
    // Only two programs are left, which walk over all tasks: one finds vCPUs, and one confirms
    // their times.
    assert_eq!(programs.len(), 2, "{programs:?}");
}
