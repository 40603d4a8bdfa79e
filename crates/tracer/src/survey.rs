//! Tries what this machine allows, for `vmnoise doctor`.

use vmnoise_events::Rung;

use crate::{
    LoadError, Scope, Tracer,
    btf::KernelBtf,
    host::{Capability, Host, Lockdown},
};

/// One rung per thing this machine can or cannot do: each group of BPF programs
/// (loaded, attached and detached again), the steal clock, the clock, permissions,
/// throttling. Changes nothing.
pub fn survey() -> Vec<Rung> {
    let host = Host::here();
    let mut rungs = programs();
    rungs.push(clock(&host));
    rungs.push(permissions(&host));
    rungs.push(throttling(&host));
    rungs
}

fn programs() -> Vec<Rung> {
    let refused = |why: String, remedy: String| {
        vec![rung(
            "BPF programs",
            "none",
            format!("{why}: nothing can be named"),
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
        Ok(()) => tracer.rungs(),
        Err(error) => refused(
            error.to_string(),
            "allow tracing to this process".to_owned(),
        ),
    }
}

fn clock(host: &Host) -> Rung {
    let source = host
        .facts()
        .map_or_else(|_| "unknown".to_owned(), |facts| facts.clocksource);
    if source == "tsc" {
        return best("clock", "tsc");
    }
    rung(
        "clock",
        &source,
        "the kernel does not use the TSC as its clock, so it may not be constant".to_owned(),
        "boot with clocksource=tsc if the hardware or hypervisor keeps it constant".to_owned(),
    )
}

fn permissions(host: &Host) -> Rung {
    let Some(held) = host.capabilities() else {
        return rung(
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
    rung(
        "permissions",
        &format!("partial, lockdown {lockdown}"),
        format!("this process lacks {}", missing.join(", ")),
        "run as root, or grant them with setcap".to_owned(),
    )
}

fn throttling(host: &Host) -> Rung {
    let facts = host.throttling();
    let by_group = KernelBtf::read().is_ok_and(|btf| btf.rt_group_sched);
    let limited = match (facts.rt_runtime_us, facts.rt_period_us) {
        (Some(runtime), Some(period)) if runtime >= 0 && runtime < period => {
            Some(format!("{runtime} of {period} µs"))
        }
        _ => None,
    };
    let by = match (by_group, facts.fair_server) {
        (true, _) => "real-time throttling by group",
        (false, Some(true)) => "fair server",
        (false, Some(false)) => return best("throttling", "off"),
        (false, None) => "unknown",
    };
    match limited {
        None => best("throttling", "off"),
        Some(limit) => rung(
            "throttling",
            by,
            format!("a real-time workload may run {limit} and is then held off; that is measured"),
            "measure with the default priority, or write -1 to \
             /proc/sys/kernel/sched_rt_runtime_us"
                .to_owned(),
        ),
    }
}

fn best(probe: &str, name: &str) -> Rung {
    Rung {
        best: true,
        ..rung(probe, name, String::new(), String::new())
    }
}

fn rung(probe: &str, name: &str, limit: String, remedy: String) -> Rung {
    Rung {
        probe: probe.to_owned(),
        rung: name.to_owned(),
        best: false,
        limit,
        remedy,
    }
}
