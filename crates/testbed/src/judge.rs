//! Checks that every result must pass, whatever caused the lost time.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::Value;

/// Shares for interrupts that came while a vCPU was out of its guest. The time of such an interrupt
/// belongs to these shares, whatever else the vCPU did at that time.
pub const HOST_INTERRUPTS: [&str; 3] = ["host_irq", "host_softirq", "host_nmi"];

/// A culprit that took time from a CPU, as a summary lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummarySource<'a> {
    /// Share of the lost time that contains the culprit's time, such as `host_irq`.
    pub share: &'a str,
    /// Name, such as `local_timer:236` or `comm:tid`.
    pub name: &'a str,
    /// Number of times that the culprit took the CPU.
    pub count: u64,
    /// Total time that the culprit took, nanoseconds.
    pub total_ns: u64,
}

/// Returns the culprits that a summary blames for the lost time of the first CPU.
///
/// # Panics
/// If the value is not a summary.
pub fn sources(summary: &Value) -> impl Iterator<Item = SummarySource<'_>> {
    let entries = summary["cpus"][0]["sources"].as_array();
    entries.expect("a CPU has sources").iter().map(|entry| {
        let word = |key: &str| entry[key].as_str().expect("a source has this word");
        let number = |key: &str| entry[key].as_u64().expect("a source has this number");
        SummarySource {
            share: word("share"),
            name: word("name"),
            count: number("count"),
            total_ns: number("total_ns"),
        }
    })
}

/// Returns the entry of a probe in the JSON of `vmnoise doctor`.
///
/// # Panics
/// If `doctor` does not list the probe.
pub fn probe_status<'a>(doctor: &'a Value, probe: &str) -> &'a Value {
    let probe_statuses = doctor["rungs"].as_array().into_iter().flatten();
    let mut found = probe_statuses.filter(|probe_status| probe_status["probe"] == probe);
    let found = found.next();
    found.unwrap_or_else(|| panic!("doctor does not list {probe}"))
}

/// Checks the summary of a microVM, which any stock kernel with KVM must produce. The summary
/// counts as many exits as KVM, the `kvm` share is not 0, and the host's tick has its name.
///
/// # Panics
/// If a check fails, or the value is not a summary.
pub fn assert_exits_are_seen(summary: &Value) {
    /// Lower bound for the number of light exits in a second with 250 ticks. The emulator pauses,
    /// so not every tick causes an exit.
    const AT_LEAST: u64 = 20;
    assert_budgets_add_up(summary);
    let cpu = &summary["cpus"][0];
    let exits = |key: &str| cpu["exits"][key].as_u64().expect("exits are counted");
    let (light, heavy, kvm_stat) = (exits("light"), exits("heavy"), exits("kvm_stat"));
    assert!(light > AT_LEAST, "{}", cpu["exits"]);
    assert_eq!(light + heavy, kvm_stat, "{}", cpu["exits"]);
    assert_ne!(cpu["shares_ns"]["kvm"].as_u64(), Some(0), "{cpu}");
    assert_tick(summary, "host_irq");
}

/// Checks that a summary names the local timer's interrupts and puts them into this share.
///
/// # Panics
/// If the name is missing, the share differs, or the value is not a summary.
pub fn assert_tick(summary: &Value, share: &str) {
    let tick = sources(summary).find(|source| source.name == "local_timer:236");
    let tick = tick.unwrap_or_else(|| panic!("no tick: {}", summary["cpus"][0]));
    assert_eq!(tick.share, share);
}

/// Checks the budget law in a summary. The known shares of each CPU add up to its noise, and the
/// parts of each listed gap add up to the gap's length.
///
/// # Panics
/// If the law is broken, or the value is not a summary.
pub fn assert_budgets_add_up(summary: &Value) {
    let list = |key: &str| summary[key].as_array().expect("a summary has this list");
    for cpu in list("cpus") {
        let shares = cpu["shares_ns"].as_object().expect("each CPU has shares");
        let sum: u64 = shares.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), cpu["noise_ns"].as_u64(), "{cpu}");
    }
    for gap in list("worst") {
        let parts = gap["parts"].as_array().expect("each gap has parts");
        let sum: u64 = parts.iter().filter_map(|part| part["ns"].as_u64()).sum();
        assert_eq!(Some(sum), gap["dur_ns"].as_u64(), "{gap}");
    }
}

/// Checks the budget law in a result of periodic tasks. On each CPU, `shares_ns` and `phases_ns`
/// have the same sum. The parts of each listed wake-up add up to its latency.
///
/// # Panics
/// If the law is broken, or the value is no result of periodic tasks.
pub fn assert_latencies_add_up(result: &Value) {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let sum = |object: &Value| -> u64 {
        let values = object.as_object().expect("each CPU has its sums").values();
        values.filter_map(Value::as_u64).sum()
    };
    for cpu in list(&result["cpus"]) {
        assert_eq!(sum(&cpu["shares_ns"]), sum(&cpu["phases_ns"]), "{cpu}");
        for worst in list(&cpu["worst"]) {
            let parts = list(&worst["parts"]);
            let parts: u64 = parts.iter().filter_map(|part| part["ns"].as_u64()).sum();
            assert_eq!(Some(parts), worst["latency_ns"].as_u64(), "{worst}");
        }
    }
}

/// Checks the budget law in a result of `vmnoise exits`, with [`assert_vcpu_adds_up`] for each
/// vCPU.
///
/// # Panics
/// If the law is broken, or the value is no result of `vmnoise exits`.
pub fn assert_exits_add_up(result: &Value) {
    for vm in result["vms"].as_array().expect("a result has VMs") {
        for vcpu in vm["vcpus"].as_array().expect("a VM has vCPUs") {
            assert_vcpu_adds_up(vcpu);
        }
    }
}

/// Checks the budget law of one vCPU:
/// - The counts of all exit reasons add up to the vCPU's exits, and to its heavy exits.
/// - The shares of each reason add up to the reason's total time.
/// - The total times of all reasons are at most the vCPU's time outside its guest.
/// - The shares of each listed exit add up to the exit's length.
///
/// # Panics
/// If the law is broken.
pub fn assert_vcpu_adds_up(vcpu: &Value) {
    let known = |value: &Value| value.as_u64().unwrap_or(0);
    let list = |key: &str| vcpu[key].as_array().expect("a vCPU has this list");
    let sum = |times: &Value| -> u64 {
        let times = times.as_object().expect("times by share").values();
        times.map(known).sum()
    };
    let all = |key: &str| -> u64 { list("reasons").iter().map(|row| known(&row[key])).sum() };
    for row in list("reasons") {
        assert_eq!(sum(&row["shares_ns"]), known(&row["total_ns"]), "{row}");
    }
    assert_eq!(all("count"), known(&vcpu["exits"]), "{vcpu}");
    assert_eq!(all("heavy"), known(&vcpu["heavy"]), "{vcpu}");
    let times = &vcpu["time_ns"];
    let outside_ns = sum(times) - known(&times["guest"]);
    if times["kvm"].is_null() || !times["unexplained"].is_null() {
        // Some time outside the guest is in no exit: the guest was interrupted, or its state is
        // unknown.
        assert!(all("total_ns") <= outside_ns, "{vcpu}");
    } else {
        assert_eq!(all("total_ns"), outside_ns, "{vcpu}");
    }
    for exit in list("worst") {
        assert_eq!(sum(&exit["shares_ns"]), known(&exit["dur_ns"]), "{exit}");
    }
}

/// Checks the `blocked` time of a vCPU that was stopped. The lower bound is how long a poller on
/// the vCPU's CPU read the TSC without interruption; this excludes interrupts and time that the
/// host below took. The upper bound is the time from the stop signal until the vCPU was seen to run
/// again.
///
/// # Panics
/// If the time is outside these bounds.
pub fn assert_stopped(blocked_ns: u64, stopped: &RangeInclusive<Duration>) {
    let reported = format!("blocked {blocked_ns} ns, stopped {stopped:?}");
    println!("{reported}");
    // Rounding and the clock error may shorten the reported time by a ten-thousandth.
    let least = stopped.start().mul_f64(0.9999);
    let blocked = Duration::from_nanos(blocked_ns);
    assert!((least..=*stopped.end()).contains(&blocked), "{reported}");
}
