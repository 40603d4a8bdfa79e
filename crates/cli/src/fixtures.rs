//! What the tests of this crate start from.

use vmnoise_events::{ClockFacts, ClockSource, HostFacts, Options, RunFacts, Witnesses, Workload};

/// A polling thread on CPU 16 of bare metal, with every witness.
pub fn facts() -> RunFacts {
    RunFacts {
        tool_version: "test".into(),
        workload: Workload::Spin,
        started_at: "2026-01-01T00:00:00Z".into(),
        options: Options {
            cpus: vec![16],
            duration_ns: 1_000_000_000,
            threshold_ns: 1_000,
            period_ns: 1_000_000_000,
            top: 1,
            trace: true,
            ..Options::default()
        },
        host: HostFacts::default(),
        clock: ClockFacts::own(ClockSource::Tsc, 1_000_000_000),
        witnesses: Witnesses {
            irq: true,
            softirq: true,
            nmi: true,
            sched: true,
            ..Witnesses::default()
        },
        rungs: Vec::new(),
        shares_cpu: false,
        rdtsc_cycles: 20,
    }
}
