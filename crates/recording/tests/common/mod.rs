//! Facts, arbitrary streams of events, and reading back, for every test here.
#![allow(dead_code, reason = "no test uses all of it")]

use proptest::array::uniform4;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_recording::{Ending, ReadError, Reader, Writer};

/// Facts with every kind of value in them.
pub fn facts() -> RunFacts {
    RunFacts {
        tool_version: "0.1.0".to_owned(),
        workload: Workload::Microvm,
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        options: Options {
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
                comm: "osnoise/1".to_owned(),
            }],
            exits: Some(ExitFilter {
                vm: Some("web".to_owned()),
                vcpus: Some(vec![0, 2]),
                reasons: vec!["io".to_owned()],
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
            kernel: "6.12.0 \"quoted\" µ".to_owned(),
            hypervisor: Some("KVM".to_owned()),
            apic_ids: vec![(0, 0), (2, 4)],
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
        rungs: vec![Rung {
            probe: "irq vectors".to_owned(),
            rung: "tp_btf".to_owned(),
            best: true,
            limit: String::new(),
            remedy: String::new(),
        }],
        shares_cpu: false,
        rdtsc_cycles: 25,
    }
}

/// One event of each kind, and a tally that knows nothing.
pub fn one_of_each() -> Vec<Event> {
    vec![
        Event::Source(Source {
            id: SourceId(0),
            name: "local_timer:236".to_owned(),
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
        }),
        Event::Activity(Activity {
            cpu: 1,
            kind: ActivityKind::Irq,
            start_mono_ns: 600,
            end_mono_ns: 900,
            source: SourceId(0),
            steal_ns: 60,
        }),
        Event::Tally(Tally {
            cpu: 1,
            first_tsc: 900,
            last_tsc: 99_000,
            ..Tally::default()
        }),
        Event::Tally(Tally {
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
            vm_name: "web".to_owned(),
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
            worst: Some(exit()),
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
                    split: ExitSplit::default(),
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
                name: "io".to_owned(),
                exits: 4,
                dur_ns: 300,
            }],
            culprits: vec![HostCulprit {
                share: Share::Preempted,
                name: "stress:4711".to_owned(),
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
            steal_ns: [70, 0, 8, u64::MAX],
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
        split: ExitSplit {
            kvm: 90,
            preempted: 300,
            host_nmi: 10,
            ..ExitSplit::default()
        },
    }
}

/// Any stream a run may send: sources in order and before their first use, and
/// every number from end to end of its type.
pub fn any_stream(max_events: usize) -> impl Strategy<Value = Vec<Event>> {
    vec(any_event(), 0..max_events).prop_map(|mut events| {
        let (mut sources, mut vcpus) = (0, 0);
        let known = |id: &mut VcpuId, vcpus: u32| {
            id.0 = id.0.checked_rem(vcpus).unwrap_or(0);
            vcpus > 0
        };
        events.retain_mut(|event| match event {
            Event::Vcpu(vcpu) => {
                // Some are defined anew.
                vcpu.id = VcpuId(vcpu.id.0 % (vcpus + 1));
                vcpus += u32::from(vcpu.id.0 == vcpus);
                true
            }
            Event::VcpuClock(clock) => known(&mut clock.vcpu, vcpus),
            Event::Exit(exit) => known(&mut exit.vcpu, vcpus),
            Event::VcpuTotals(totals) => known(&mut totals.vcpu, vcpus),
            Event::VcpuInterval(interval) => {
                let of = |id: SourceId| id.0.checked_rem(sources).map(SourceId);
                interval.source = interval.source.and_then(of);
                known(&mut interval.vcpu, vcpus)
            }
            Event::Source(source) => {
                source.id = SourceId(sources);
                sources += 1;
                true
            }
            Event::Activity(activity) => {
                activity.source.0 = activity.source.0.checked_rem(sources).unwrap_or(0);
                sources > 0
            }
            _ => true,
        });
        events
    })
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        Just(0),
        Just(u64::MAX),
        Just(i64::MAX as u64 + 1)
    ]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)]
}

fn any_activation() -> impl Strategy<Value = Event> {
    let steps = uniform4(option::of(number()));
    let steals = uniform4(number());
    let strategy = (small(), number(), number(), steps, steals, small());
    strategy.prop_map(
        |(cpu, expiry_mono_ns, woke_mono_ns, steps, steal_ns, missed)| {
            let [armed_mono_ns, irq_mono_ns, waking_mono_ns, switch_mono_ns] = steps;
            Event::Activation(Activation {
                cpu,
                expiry_mono_ns,
                woke_mono_ns,
                armed_mono_ns,
                irq_mono_ns,
                waking_mono_ns,
                switch_mono_ns,
                steal_ns,
                missed,
            })
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<String>().prop_map(|name| Event::Source(Source {
            id: SourceId(0),
            name
        })),
        any_activation(),
        (
            small(),
            number(),
            number(),
            number(),
            small(),
            small(),
            small(),
            option::of(small())
        )
            .prop_map(
                |(
                    cpu,
                    start_tsc,
                    end_tsc,
                    steal_ns,
                    reloads,
                    light_exits,
                    heavy_exits,
                    interference,
                )| {
                    Event::Gap(Gap {
                        cpu,
                        start_tsc,
                        end_tsc,
                        steal_ns,
                        reloads,
                        light_exits,
                        heavy_exits,
                        interference,
                    })
                }
            ),
        (
            small(),
            0..ActivityKind::ALL.len(),
            number(),
            number(),
            small(),
            number()
        )
            .prop_map(
                |(cpu, kind, start_mono_ns, end_mono_ns, source, steal_ns)| Event::Activity(
                    Activity {
                        cpu,
                        kind: ActivityKind::ALL[kind],
                        start_mono_ns,
                        end_mono_ns,
                        source: SourceId(source),
                        steal_ns,
                    }
                )
            ),
        (number(), number(), number()).prop_map(|(before_tsc, mono_ns, after_tsc)| {
            Event::Anchor(Anchor {
                before_tsc,
                mono_ns,
                after_tsc,
            })
        }),
        (
            small(),
            number(),
            number(),
            vec(option::of(number()), 8),
            option::of([number(), number(), number(), number()])
        )
            .prop_map(
                |(cpu, first_tsc, last_tsc, known, interference)| Event::Tally(Tally {
                    cpu,
                    first_tsc,
                    last_tsc,
                    blind_tsc: known[6],
                    steal_clock_ns: known[0],
                    reloads: known[1],
                    light_exits: known[2],
                    heavy_exits: known[3],
                    kvm_stat_exits: known[4],
                    outer_steal_ns: known[5],
                    smi_count: known[7],
                    interference: interference.map(|[nmi, irq, softirq, thread]| {
                        InterferenceCounts {
                            nmi,
                            irq,
                            softirq,
                            thread,
                        }
                    }),
                })
            ),
        (0..LossKind::ALL.len(), number()).prop_map(|(kind, count)| Event::Loss(Loss {
            kind: LossKind::ALL[kind],
            count
        })),
        (number(), number())
            .prop_map(|(bpf_runs, bpf_ns)| Event::OwnCost(OwnCost { bpf_runs, bpf_ns })),
        number().prop_map(Event::Watermark),
        (
            small(),
            [small(), small()],
            option::of(small()),
            number(),
            any::<String>(),
            any::<bool>()
        )
            .prop_map(|(id, [tid, vmm_pid], number, vm, vm_name, sees_kvm)| {
                Event::Vcpu(Vcpu {
                    id: VcpuId(id),
                    tid,
                    vmm_pid,
                    number,
                    vm,
                    vm_name,
                    sees_kvm,
                })
            }),
        (
            small(),
            [number(), number(), number(), number()],
            any::<u8>()
        )
            .prop_map(|(vcpu, [until, from, offset, ratio], ratio_frac_bits)| {
                Event::VcpuClock(VcpuClock {
                    vcpu: VcpuId(vcpu),
                    before_until_mono_ns: until,
                    from_mono_ns: from,
                    offset_tsc: offset.cast_signed(),
                    ratio,
                    ratio_frac_bits,
                })
            }),
        (
            0..VcpuIntervalKind::ALL.len(),
            [small(), small(), small()],
            [number(), number()],
            option::of(small())
        )
            .prop_map(|(kind, [vcpu, cpu, to_cpu], [start, end], source)| {
                Event::VcpuInterval(VcpuInterval {
                    vcpu: VcpuId(vcpu),
                    kind: VcpuIntervalKind::ALL[kind],
                    start_mono_ns: start,
                    end_mono_ns: end,
                    cpu,
                    to_cpu,
                    source: source.map(SourceId),
                })
            }),
        (small(), any_exit()).prop_map(|(vcpu, exit)| Event::Exit(VcpuExit {
            vcpu: VcpuId(vcpu),
            exit
        })),
        (
            small(),
            [number(), number(), number(), number()],
            any_split(),
            option::of(any_exit()),
            vec(any_reason_totals(), 0..3)
        )
            .prop_map(
                |(vcpu, [first, last, exits, heavy], split, worst, reasons)| Event::VcpuTotals(
                    VcpuTotals {
                        vcpu: VcpuId(vcpu),
                        first_mono_ns: first,
                        last_mono_ns: last,
                        exits,
                        heavy,
                        split,
                        worst,
                        reasons,
                    }
                )
            ),
        any_host_frame().prop_map(Event::HostFrame),
        [number(), number(), number(), number()].prop_map(|[bytes, frames, garbled, hang_ups]| {
            Event::FeedTotals(FeedTotals {
                bytes,
                frames,
                garbled,
                hang_ups,
            })
        }),
        (0..FinishReason::ALL.len(), number()).prop_map(|(reason, mono_ns)| {
            Event::Finish(Finish {
                reason: FinishReason::ALL[reason],
                mono_ns,
            })
        }),
    ]
}

fn any_split() -> impl Strategy<Value = ExitSplit> {
    vec(number(), 9).prop_map(|mut parts| ExitSplit::from_fn(|_| parts.pop().unwrap_or(0)))
}

fn any_host_frame() -> impl Strategy<Value = HostFrame> {
    let reason =
        (any::<String>(), number(), number()).prop_map(|(name, exits, dur_ns)| HostReason {
            name,
            exits,
            dur_ns,
        });
    let culprit =
        (0..Share::ALL.len(), any::<String>(), number()).prop_map(|(share, name, dur_ns)| {
            HostCulprit {
                share: Share::ALL[share],
                name,
                dur_ns,
            }
        });
    (
        small(),
        0..FeedDetail::ALL.len(),
        [any::<bool>(), any::<bool>()],
        [number(), number(), number(), number(), number()],
        any_split(),
        (vec(reason, 0..3), vec(culprit, 0..3)),
    )
        .prop_map(
            |(
                vcpu,
                detail,
                [sees_kvm, is_last],
                [from, until, exits, heavy, lost],
                split,
                told,
            )| {
                HostFrame {
                    vcpu,
                    from_tsc: from,
                    until_tsc: until,
                    detail: FeedDetail::ALL[detail],
                    sees_kvm,
                    is_last,
                    exits,
                    heavy,
                    split,
                    lost,
                    reasons: told.0,
                    culprits: told.1,
                }
            },
        )
}

fn any_reason() -> impl Strategy<Value = ExitReason> {
    (0..Isa::ALL.len(), number()).prop_map(|(isa, code)| ExitReason {
        isa: Isa::ALL[isa],
        code,
    })
}

fn any_exit() -> impl Strategy<Value = Exit> {
    (
        any_reason(),
        [number(), number()],
        [small(), small()],
        any::<bool>(),
        any_split(),
    )
        .prop_map(
            |(reason, [start, end], [exit_cpu, entry_cpu], heavy, split)| Exit {
                start_mono_ns: start,
                end_mono_ns: end,
                reason,
                exit_cpu,
                entry_cpu,
                heavy,
                split,
            },
        )
}

fn any_reason_totals() -> impl Strategy<Value = ReasonTotals> {
    (
        option::of(any_reason()),
        [number(), number(), number(), number()],
        any_split(),
        vec((number(), number()), 0..4),
    )
        .prop_map(
            |(reason, [count, heavy, min_ns, max_ns], split, histogram)| ReasonTotals {
                reason,
                count,
                heavy,
                min_ns,
                max_ns,
                split,
                histogram,
            },
        )
}

/// A finished recording, flushed after every `flush_every` events.
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

/// What a reader makes of these bytes: the events handed out, and the end.
pub fn replay(bytes: &[u8]) -> (Vec<Event>, Result<Ending, ReadError>) {
    let mut events = Vec::new();
    let end = Reader::new(bytes)
        .and_then(|mut reader| reader.for_each(&mut |event| events.push(event.clone())));
    (events, end)
}
