//! Facts and streams of events for all tests here, and functions that write and read recordings.

use vmnoise_events::*;
use vmnoise_recording::{ReadError, RecordingEnd, RecordingReader, Writer};

/// Returns facts with all kinds of values.
pub fn facts() -> RunFacts {
    RunFacts {
        tool_version: "0.1.0".into(),
        workload: MeasuringCommand::Microvm,
        started_at: "2026-01-02T03:04:05Z".into(),
        rank: Some(1_000_000),
        options: RunOptions {
            cpus: vec![1, 3],
            duration_ns: 10_000_000_000,
            threshold_ns: 1_000,
            period_ns: 1_000_000_000,
            priority: Some(Policy::Fifo(50)),
            top: 10,
            stop_ns: None,
            stop_total_ns: Some(2_000_000),
            runtime_ns: None,
            trace: true,
            observed: vec![ObservedThread {
                tid: 7,
                comm: "osnoise/1".into(),
            }],
            exits: Some(ExitFilter {
                vm: Some("web".into()),
                vcpus: Some(vec![0, 2]),
                reasons: vec!["io".into()],
            }),
            timer: Some(TimerOptions {
                period_ns: 1_000_000,
                aligned_ns: None,
                stop_irq_ns: Some(100_000),
                stop_thread_ns: None,
                dma_latency_us: Some(0),
            }),
        },
        host: HostFacts {
            kernel: "6.12.0 \"quoted\" µ".into(),
            hypervisor: Some("KVM".into()),
            apic_ids: vec![(0, 0), (2, 4)],
            settings: Some(settings()),
            ..HostFacts::default()
        },
        clock: ClockFacts {
            source: ClockSource::Tsc,
            tsc_hz: 2_449_958_000,
            offset_proof: Some(OffsetProof::SetAndBracketed),
            offset_tsc: -1,
            offset_bound_tsc: u64::MAX,
            bracket_tsc: 90,
        },
        witnesses: Witnesses::default(),
        probe_statuses: vec![ProbeStatus {
            probe: "irq vectors".into(),
            in_use: "tp_btf".into(),
            best: true,
            limit: Default::default(),
            remedy: Default::default(),
        }],
        shares_cpu: false,
        rdtsc_cycles: 25,
    }
}

/// Returns settings: a file, a missing file, and a folder.
fn settings() -> Settings {
    let mut settings = Settings::default();
    for (path, text) in [
        ("proc/cmdline", Some("quiet isolcpus=3")),
        ("sys/kernel/realtime", None),
        ("proc/irq/", Some("1\n24")),
    ] {
        settings.insert(path, text).expect("a machine has it");
    }
    settings
}

/// Returns one event of each kind, and a tally without known values.
pub fn one_of_each() -> Vec<Event> {
    vec![
        Event::Source(Source {
            id: SourceId(0),
            name: "local_timer:236".into(),
        }),
        Event::Anchor(Anchor {
            before_tsc: 1_000,
            mono_ns: 500,
            after_tsc: 1_050,
        }),
        Event::Gap(Gap {
            cpu: 1,
            start_tsc: 1_100,
            end_tsc: 9_100,
            steal_ns: 70,
            reloads: 1,
            light_exits: 2,
            heavy_exits: 3,
            interference: Some(4),
            run_delay_ns: 60,
        }),
        Event::Activity(Activity {
            cpu: 1,
            kind: ActivityKind::Irq,
            start_mono_ns: 600,
            end_mono_ns: 900,
            source: SourceId(0),
            steal_ns: 60,
        }),
        Event::Tally(CpuTally {
            cpu: 1,
            first_tsc: 900,
            last_tsc: 99_000,
            ..CpuTally::default()
        }),
        Event::Tally(CpuTally {
            cpu: 3,
            first_tsc: 900,
            last_tsc: 99_000,
            blind_tsc: Some(40),
            steal_clock_ns: Some(70),
            reloads: Some(0),
            light_exits: Some(2),
            heavy_exits: Some(3),
            kvm_stat_exits: Some(5),
            outer_steal_ns: Some(u64::MAX),
            smi_count: Some(6),
            interference: Some(InterferenceCounts {
                nmi: 0,
                irq: 6,
                softirq: 7,
                thread: 8,
            }),
            posted: Some(PostedInterrupts {
                count: 9,
                from_mono_ns: 700,
                until_mono_ns: 800,
            }),
        }),
        Event::Loss(Loss {
            kind: LossKind::MailboxFull,
            count: 4,
        }),
        Event::OwnCost(OwnCost {
            bpf_runs: 7,
            bpf_ns: 1_400,
        }),
        Event::Watermark(950),
        Event::Vcpu(Vcpu {
            id: VcpuId(0),
            tid: 4712,
            vmm_pid: 4711,
            number: None,
            vm: 0,
            vm_name: "web".into(),
            identity: [(VmFact::Vmm, "qemu"), (VmFact::Pod, "virt-launcher-web")]
                .into_iter()
                .collect(),
            sees_kvm: true,
        }),
        Event::VcpuClock(VcpuClock {
            vcpu: VcpuId(0),
            before_until_mono_ns: 940,
            from_mono_ns: 960,
            offset_tsc: -7,
            ratio: 3 << 31,
            ratio_frac_bits: 32,
        }),
        Event::VcpuInterval(VcpuInterval {
            vcpu: VcpuId(0),
            kind: VcpuIntervalKind::Waiting,
            start_mono_ns: 1_000,
            end_mono_ns: 1_300,
            cpu: 1,
            to_cpu: 3,
            source: Some(SourceId(0)),
        }),
        Event::Exit(VcpuExit {
            vcpu: VcpuId(0),
            exit: exit(),
        }),
        Event::VcpuTotals(VcpuTotals {
            vcpu: VcpuId(0),
            first_mono_ns: 900,
            last_mono_ns: 1_400,
            exits: 2,
            heavy: 1,
            split: exit().split,
            unseen_ns: 77,
            worst: Some(Box::new(exit())),
            reasons: vec![
                ReasonTotals {
                    reason: Some(exit().reason),
                    count: 1,
                    heavy: 1,
                    min_ns: 400,
                    max_ns: 400,
                    split: exit().split,
                    histogram: vec![(319, 0), (400, 1)],
                },
                ReasonTotals {
                    reason: None,
                    count: 1,
                    heavy: 0,
                    min_ns: 0,
                    max_ns: 0,
                    split: ShareMap::default(),
                    histogram: Vec::new(),
                },
            ],
        }),
        Event::HostFrame(HostFrame {
            vcpu: 2,
            from_tsc: 700,
            until_tsc: 90_000,
            detail: FeedDetail::Full,
            sees_kvm: true,
            is_last: false,
            exits: 9,
            heavy: 4,
            split: exit().split,
            lost: 1,
            reasons: vec![HostReason {
                name: "io".into(),
                exits: 4,
                dur_ns: 300,
            }],
            culprits: vec![HostCulprit {
                share: Share::Preempted,
                name: "stress:4711".into(),
                dur_ns: 290,
            }],
        }),
        Event::FeedTotals(FeedTotals {
            bytes: 321,
            frames: 3,
            garbled: 2,
            hang_ups: 1,
        }),
        Event::Finish(Finish {
            reason: FinishReason::Stop,
            mono_ns: 99_999,
        }),
        Event::Activation(Activation {
            cpu: 1,
            expiry_mono_ns: 1_000,
            woke_mono_ns: 1_900,
            armed_mono_ns: Some(100),
            irq_mono_ns: Some(1_100),
            waking_mono_ns: None,
            switch_mono_ns: Some(1_800),
            steal_ns: [5, 70, 0, 8, u64::MAX],
            missed: 2,
        }),
    ]
}

fn exit() -> Exit {
    Exit {
        start_mono_ns: 950,
        end_mono_ns: 1_350,
        reason: ExitReason::arm64(2, 0x24),
        exit_cpu: 1,
        entry_cpu: 3,
        heavy: true,
        split: ShareMap::from([
            (Share::Kvm, 90),
            (Share::Preempted, 300),
            (Share::HostNmi, 10),
        ]),
    }
}

/// Returns a finished recording, flushed after every `flush_every` events.
pub fn record(events: &[Event], flush_every: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &facts()).expect("memory takes every byte");
    for chunk in events.chunks(flush_every) {
        for event in chunk {
            writer.push(event).expect("the stream is in order");
        }
        writer.flush().expect("memory takes every byte");
    }
    writer.finish().expect("memory takes every byte")
}

/// Reads a recording. Returns its events, and its ending or error.
pub fn replay(bytes: &[u8]) -> (Vec<Event>, Result<RecordingEnd, ReadError>) {
    let mut events = Vec::new();
    let end = RecordingReader::new(bytes)
        .and_then(|mut reader| reader.for_each(&mut |event| events.push(event.clone())));
    (events, end)
}
