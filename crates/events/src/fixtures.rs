//! The run that tests of every crate start from; each changes what it is about.

use crate::{
    ClockFacts, ClockSource, HostFacts, Options, RunFacts, TimerOptions, Witnesses, Workload,
};

/// Everything that may be witnessed is.
pub const ALL_WITNESSES: Witnesses = Witnesses {
    steal_clock: true,
    activity_steal: true,
    timer: true,
    ..Witnesses::OF_EXITS
};

/// One second on CPU 1 of bare metal, with all witnesses; every clock counts nanoseconds.
pub fn facts(workload: Workload) -> RunFacts {
    RunFacts {
        tool_version: "test".into(),
        workload,
        started_at: "2026-01-01T00:00:00Z".into(),
        rank: None,
        options: Options {
            cpus: vec![1],
            duration_ns: 1_000_000_000,
            threshold_ns: 1,
            period_ns: 1_000_000_000,
            top: 3,
            trace: true,
            ..Options::default()
        },
        host: HostFacts::default(),
        clock: ClockFacts::own(ClockSource::Tsc, 1_000_000_000),
        witnesses: ALL_WITNESSES,
        probe_statuses: Vec::new(),
        shares_cpu: false,
        rdtsc_cycles: 20,
    }
}

/// Periodic tasks that expire as it happens, and that nothing stops.
pub fn timer(period_ns: u64) -> TimerOptions {
    TimerOptions {
        period_ns,
        aligned_ns: None,
        stop_irq_ns: None,
        stop_thread_ns: None,
        dma_latency_us: None,
    }
}
