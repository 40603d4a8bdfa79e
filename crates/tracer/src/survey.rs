//! Tries which abilities this machine has, for `vmnoise doctor`.

use vmnoise_events::ProbeStatus;
use vmnoise_host::{Capability, Host, Lockdown, Throttling};

use crate::{LoadError, Scope, SmiCounts, Tracer, btf::KernelBtf, clock::clock, timers::timers};

/// Returns one status for each ability of this machine. Abilities are the groups of BPF programs,
/// the steal clock, the count of SMIs, the clock, the timers, permissions and throttling. Loads,
/// attaches and detaches each group. Changes nothing permanently.
pub fn survey() -> Vec<ProbeStatus> {
    let host = Host::here();
    let mut probe_statuses = programs();
    probe_statuses
        .push(SmiCounts::open(&host, &host.allowed_cpus().unwrap_or_default()).probe_status());
    probe_statuses.push(clock(&host));
    probe_statuses.push(timers(&host));
    probe_statuses.push(permissions(&host));
    probe_statuses.push(throttling(&host));
    probe_statuses
}

fn programs() -> Vec<ProbeStatus> {
    let refused = |why: String, remedy: String| {
        vec![probe_status(
            "BPF programs",
            "none",
            format!("{why}: no culprit can be named"),
            remedy,
        )]
    };
    let cpus = Host::here().allowed_cpus().unwrap_or_default();
    let mut tracer = match Tracer::load(&cpus, Scope::Vcpus) {
        Ok(tracer) => tracer,
        Err(LoadError::Refused { why, remedy }) => return refused(why, remedy),
        Err(LoadError::Broken(why)) => {
            return refused(why, "report this line with the kernel version".to_owned());
        }
    };
    match tracer.attach() {
        Ok(()) => tracer.probe_statuses(),
        Err(error) => refused(
            error.to_string(),
            "allow tracing to this process".to_owned(),
        ),
    }
}

fn permissions(host: &Host) -> ProbeStatus {
    let Some(held) = host.capabilities() else {
        return probe_status(
            "permissions",
            "unknown",
            "/proc is not there".into(),
            "mount /proc".into(),
        );
    };
    let mut missing: Vec<&str> = [Capability::SysNice, Capability::IpcLock]
        .into_iter()
        .filter(|&capability| !held.has(capability))
        .map(Capability::name)
        .collect();
    if !held.has(Capability::SysAdmin) {
        let tracing = [Capability::Bpf, Capability::Perfmon];
        missing.extend(
            tracing
                .into_iter()
                .filter(|&it| !held.has(it))
                .map(Capability::name),
        );
    }
    let lockdown = host.lockdown().map_or("unknown", Lockdown::name);
    if missing.is_empty() {
        return best("permissions", &format!("sufficient, lockdown {lockdown}"));
    }
    probe_status(
        "permissions",
        &format!("partial, lockdown {lockdown}"),
        format!("this process lacks {}", missing.join(", ")),
        "run as root, or grant them with setcap".to_owned(),
    )
}

fn throttling(host: &Host) -> ProbeStatus {
    let by_group = KernelBtf::read().is_ok_and(|btf| btf.rt_group_sched);
    throttled_by(host.throttling(), by_group)
}

/// Returns the status of throttling. `by_group`: whether the kernel throttles real-time tasks by
/// group (CONFIG_RT_GROUP_SCHED). Other kernels since 6.12 have the fair server.
/// `sched_rt_runtime_us` does not describe the fair server: Linux 7.3 sets it to the whole period,
/// although the server is active.
fn throttled_by(facts: Throttling, by_group: bool) -> ProbeStatus {
    if let (false, Some(server)) = (by_group, facts.fair_server) {
        if server.runtime_ns <= 0 {
            return best("throttling", "off");
        }
        return probe_status(
            "throttling",
            "fair server",
            format!(
                "waiting tasks get {} of {} µs from a real-time workload; this time is measured",
                server.runtime_ns / 1000,
                server.period_ns / 1000
            ),
            "measure with the default priority, or write 0 to \
             /sys/kernel/debug/sched/fair_server/cpuN/runtime"
                .to_owned(),
        );
    }
    match (facts.rt_runtime_us, facts.rt_period_us) {
        (Some(runtime), Some(period)) if runtime >= 0 && runtime < period => probe_status(
            "throttling",
            if by_group {
                "real-time throttling by group"
            } else {
                "unknown"
            },
            format!(
                "a real-time workload may run {runtime} of {period} µs and is then throttled; this \
                 time is measured"
            ),
            "measure with the default priority, or write -1 to \
             /proc/sys/kernel/sched_rt_runtime_us"
                .to_owned(),
        ),
        _ => best("throttling", "off"),
    }
}

fn best(probe: &str, name: &str) -> ProbeStatus {
    ProbeStatus {
        best: true,
        ..probe_status(probe, name, String::new(), String::new())
    }
}

fn probe_status(probe: &str, name: &str, limit: String, remedy: String) -> ProbeStatus {
    ProbeStatus {
        probe: probe.into(),
        in_use: name.into(),
        best: false,
        limit: limit.into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_host::FairServer;

    fn limits(rt_runtime_us: i64, server_runtime_ns: Option<i64>) -> Throttling {
        Throttling {
            rt_runtime_us: Some(rt_runtime_us),
            rt_period_us: Some(1_000_000),
            fair_server: server_runtime_ns.map(|runtime_ns| FairServer {
                runtime_ns,
                period_ns: 1_000_000_000,
            }),
        }
    }

    #[test]
    fn the_fair_server_is_reported_whatever_the_limit_of_real_time_tasks_says() {
        for rt_runtime_us in [950_000, 1_000_000, -1] {
            let reported = throttled_by(limits(rt_runtime_us, Some(50_000_000)), false);
            assert_eq!(reported.in_use, "fair server");
            assert!(
                reported.limit.contains("50000 of 1000000 µs"),
                "{reported:?}"
            );
            assert!(reported.remedy.contains("fair_server"), "{reported:?}");
        }
        assert!(throttled_by(limits(950_000, Some(0)), false).best);
    }

    #[test]
    fn the_limit_of_real_time_tasks_is_reported_where_it_counts() {
        let reported = throttled_by(limits(950_000, Some(50_000_000)), true);
        assert_eq!(reported.in_use, "real-time throttling by group");
        assert!(
            reported.remedy.contains("sched_rt_runtime_us"),
            "{reported:?}"
        );
        assert_eq!(throttled_by(limits(950_000, None), false).in_use, "unknown");
        assert!(throttled_by(limits(-1, None), true).best);
    }
}
