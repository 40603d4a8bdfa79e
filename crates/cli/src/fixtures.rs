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
            priority: None,
            top: 1,
            stop_ns: None,
            stop_total_ns: None,
            runtime_ns: None,
            observed: Vec::new(),
            exits: None,
            timer: None,
            trace: true,
        },
        host: HostFacts::default(),
        clock: ClockFacts {
            source: ClockSource::Tsc,
            tsc_hz: 1_000_000_000,
            offset_proof: None,
            offset_tsc: 0,
            offset_bound_tsc: 0,
            bracket_tsc: 0,
        },
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
