//! Facts that a header may claim.

use vmnoise_events::{
    ClockFacts, ClockSource, ExitFilter, HostFacts, MeasuringCommand, ObservedThread, OffsetProof,
    Policy, ProbeStatus, RunFacts, RunOptions, Settings, TimerOptions, Witnesses,
};

use super::Words;

/// Maximum number of CPUs in a stream. The number is small, so that several events are on one CPU.
pub(super) const CPUS: u8 = 4;

/// Returns any facts.
pub(crate) fn facts(words: &mut Words<'_>) -> RunFacts {
    let workload = words.one_of(&[
        MeasuringCommand::Microvm,
        MeasuringCommand::Osnoise,
        MeasuringCommand::Observed,
        MeasuringCommand::Exits,
        MeasuringCommand::Timerlat,
    ]);
    facts_of(words, workload)
}

/// Returns any facts of a guest and of its host.
pub(crate) fn facts_of_pair(words: &mut Words<'_>) -> [RunFacts; 2] {
    let guest = words.one_of(&[
        MeasuringCommand::Osnoise,
        MeasuringCommand::Timerlat,
        MeasuringCommand::Microvm,
    ]);
    [guest, MeasuringCommand::Exits].map(|workload| facts_of(words, workload))
}

/// Returns any facts of a run with this workload.
fn facts_of(words: &mut Words<'_>, workload: MeasuringCommand) -> RunFacts {
    RunFacts {
        tool_version: words.name().into(),
        workload,
        started_at: match words.below(4) {
            0 => words.name().into(),
            1 => "9999-12-31T23:59:59Z".into(),
            _ => "2026-01-02T03:04:05Z".into(),
        },
        options: options(words, workload),
        host: host(words),
        clock: clock(words),
        witnesses: witnesses(words),
        probe_statuses: words.list(2, |words| ProbeStatus {
            probe: words.name().into(),
            in_use: words.name().into(),
            best: words.flag(),
            limit: words.name().into(),
            remedy: words.name().into(),
        }),
        shares_cpu: words.flag(),
        rdtsc_cycles: words.count(),
        // This field is last, so that earlier inputs keep the meaning of their other bytes.
        rank: words.maybe(Words::count_u32),
    }
}

fn options(words: &mut Words<'_>, workload: MeasuringCommand) -> RunOptions {
    RunOptions {
        cpus: match workload {
            MeasuringCommand::Exits => Vec::new(),
            _ => (0..=words.below(CPUS).into()).collect(),
        },
        duration_ns: words.length(),
        threshold_ns: words.length(),
        period_ns: words.length(),
        priority: words.maybe(|words| match words.below(4) {
            0 => Policy::Other(words.count_u32().cast_signed()),
            1 => Policy::Fifo(words.count_u32().cast_signed()),
            2 => Policy::RoundRobin(words.count_u32().cast_signed()),
            _ => Policy::Deadline {
                runtime_ns: words.length(),
                period_ns: words.length(),
            },
        }),
        top: words.count() as usize,
        stop_ns: words.maybe(Words::length),
        stop_total_ns: words.maybe(Words::length),
        runtime_ns: words.maybe(Words::length),
        trace: words.flag(),
        observed: words.list(2, |words| ObservedThread {
            tid: words.count_u32(),
            comm: words.name().into(),
        }),
        exits: (workload == MeasuringCommand::Exits).then(|| ExitFilter {
            vm: words.once_in(8).then(|| words.name().into()),
            vcpus: (words.once_in(8)).then(|| words.list(3, Words::count_u32)),
            reasons: Vec::new(),
        }),
        timer: (workload == MeasuringCommand::Timerlat || words.once_in(16)).then(|| {
            TimerOptions {
                period_ns: words.length(),
                aligned_ns: words.maybe(Words::length),
                stop_irq_ns: words.maybe(Words::length),
                stop_thread_ns: words.maybe(Words::length),
                dma_latency_us: words.maybe(|words| words.count_u32().cast_signed()),
            }
        }),
    }
}

fn host(words: &mut Words<'_>) -> HostFacts {
    let hypervisor = words.one_of(&[None, None, Some("KVM"), Some("Xen")]);
    let module = words.one_of(&[None, Some("kvm_intel"), Some("kvm_amd"), Some("kvm_pvm")]);
    HostFacts {
        name: words.maybe(|words| words.name().into()),
        kernel: words.name().into(),
        hypervisor: hypervisor.map(Into::into),
        cpu_model: words.name().into(),
        allowed_cpus: (0..CPUS.into()).collect(),
        clocksource: words.name().into(),
        apic_ids: match words.below(4) {
            0 => Vec::new(),
            1 => (0..CPUS.into())
                .map(|cpu| (cpu, words.count_u32()))
                .collect(),
            _ => (0..CPUS.into()).map(|cpu| (cpu, cpu)).collect(),
        },
        kvm_module: module.map(Into::into),
        posted_interrupts: words.maybe(Words::flag),
        settings: words.maybe(settings),
    }
}

/// Returns settings of a machine with four CPUs, and settings with any names.
fn settings(words: &mut Words<'_>) -> Settings {
    let mut settings = Settings::default();
    let files =
        ["online", "isolated", "nohz_full"].map(|name| format!("sys/devices/system/cpu/{name}"));
    let files = files
        .into_iter()
        .chain(["proc/cmdline".into(), "proc/irq/".into()]);
    for path in files.chain(words.list(8, |words| format!("proc/irq/{}/x", words.name()))) {
        let text = words.one_of(&[Some("0-3"), Some("1\n24"), Some(""), None]);
        // Impossible settings are left out.
        let _ = settings.insert(&path, text);
    }
    settings
}

fn clock(words: &mut Words<'_>) -> ClockFacts {
    ClockFacts {
        source: words.one_of(&[ClockSource::Tsc, ClockSource::UnstableTsc]),
        tsc_hz: match words.is_wild() {
            true => words.any(),
            false => words.one_of(&[1_000_000_000, 3_000_000_000, 2_500_000_001]),
        },
        offset_proof: words.one_of(&[
            None,
            Some(OffsetProof::SetAndBracketed),
            Some(OffsetProof::Mapped),
        ]),
        offset_tsc: words.count().cast_signed(),
        offset_bound_tsc: words.count(),
        bracket_tsc: words.count(),
    }
}

fn witnesses(words: &mut Words<'_>) -> Witnesses {
    // Most runs have all probes.
    let all = words.flag();
    let mut has = || all || words.flag();
    Witnesses {
        irq: has(),
        softirq: has(),
        nmi: has(),
        sched: has(),
        kvm_run: has(),
        kvm_exit: has(),
        steal_clock: has(),
        activity_steal: has(),
        timer: has(),
        run_delay: has(),
        hides_vectors: has(),
    }
}
