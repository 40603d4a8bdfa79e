//! Streams of any events, including those that no run would write.

use proptest::array::{uniform4, uniform5};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use vmnoise_events::*;

/// Returns any stream that a run may write: sources in order and before their first use, only CPUs
/// that the header lists, and any value for all other numbers.
pub fn any_stream(max_events: usize) -> impl Strategy<Value = Vec<Event>> {
    vec(any_event(), 0..max_events).prop_map(|mut events| {
        let (mut sources, mut vcpus) = (0, 0);
        let known = |id: &mut VcpuId, vcpus: u32| {
            id.0 = id.0.checked_rem(vcpus).unwrap_or(0);
            vcpus > 0
        };
        events
            .iter_mut()
            .flat_map(cpus_of)
            .for_each(|cpu| *cpu = *cpu & 2 | 1);
        events.retain_mut(|event| match event {
            Event::Vcpu(vcpu) => {
                // Some vCPUs are defined again.
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
    let steals = uniform5(number());
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
            name: name.into()
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
                        // The two values are separate counters.
                        run_delay_ns: steal_ns,
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
                |(cpu, first_tsc, last_tsc, known, interference)| Event::Tally(CpuTally {
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
                    posted: None,
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
            vec((select(VmFact::ALL.to_vec()), any::<String>()), 0..4),
            any::<bool>()
        )
            .prop_map(
                |(id, [tid, vmm_pid], number, vm, vm_name, facts, sees_kvm)| {
                    Event::Vcpu(Vcpu {
                        id: VcpuId(id),
                        tid,
                        vmm_pid,
                        number,
                        vm,
                        vm_name: vm_name.into(),
                        identity: facts.into_iter().collect(),
                        sees_kvm,
                    })
                }
            ),
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
            [number(), number(), number(), number(), number()],
            any_split(),
            option::of(any_exit()),
            vec(any_reason_totals(), 0..3)
        )
            .prop_map(
                |(vcpu, [first, last, exits, heavy, unseen_ns], split, worst, reasons)| {
                    Event::VcpuTotals(VcpuTotals {
                        vcpu: VcpuId(vcpu),
                        first_mono_ns: first,
                        last_mono_ns: last,
                        exits,
                        heavy,
                        split,
                        unseen_ns,
                        worst: worst.map(Box::new),
                        reasons,
                    })
                }
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

fn any_split() -> impl Strategy<Value = ShareMap<u64>> {
    vec(number(), 9)
        .prop_map(|mut parts| ShareMap::only(Share::OF_EXITS, |_| parts.pop().unwrap_or(0)))
}

fn any_host_frame() -> impl Strategy<Value = HostFrame> {
    let reason =
        (any::<String>(), number(), number()).prop_map(|(name, exits, dur_ns)| HostReason {
            name: name.into(),
            exits,
            dur_ns,
        });
    let culprit =
        (0..Share::ALL.len(), any::<String>(), number()).prop_map(|(share, name, dur_ns)| {
            HostCulprit {
                share: Share::ALL[share],
                name: name.into(),
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
                reported,
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
                    reasons: reported.0,
                    culprits: reported.1,
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

/// Returns the CPUs in an event.
fn cpus_of(event: &mut Event) -> Vec<&mut u32> {
    match event {
        Event::Gap(gap) => vec![&mut gap.cpu],
        Event::Activity(activity) => vec![&mut activity.cpu],
        Event::Activation(activation) => vec![&mut activation.cpu],
        Event::Tally(tally) => vec![&mut tally.cpu],
        Event::VcpuInterval(interval) => vec![&mut interval.cpu, &mut interval.to_cpu],
        Event::Exit(VcpuExit { exit, .. }) => vec![&mut exit.exit_cpu, &mut exit.entry_cpu],
        Event::VcpuTotals(totals) => (totals.worst.iter_mut())
            .flat_map(|exit| [&mut exit.exit_cpu, &mut exit.entry_cpu])
            .collect(),
        _ => Vec::new(),
    }
}
