//! Tests that pass 1 of a join survives any stream.

use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::Matcher;

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..10,
        1_000_000_000_u64..1_000_000_100,
        any::<u64>(),
        u64::MAX - 10..=u64::MAX
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let times = (any_time(), any_time(), any_time());
    (0..9, times, any::<i64>(), 0_u32..3).prop_map(|(kind, (a, b, c), offset_tsc, id)| {
        let vcpu = VcpuId(id);
        match kind {
            0 => Event::Anchor(Anchor {
                before_tsc: a,
                mono_ns: b,
                after_tsc: c,
            }),
            1 => Event::Gap(Gap {
                cpu: id,
                ..crate::streams::gap(a, b)
            }),
            2 => Event::Tally(CpuTally {
                cpu: id,
                first_tsc: a,
                last_tsc: b,
                blind_tsc: Some(c),
                ..CpuTally::default()
            }),
            3 => {
                let vcpu = crate::streams::vcpus::vcpu(id);
                let (number, sees_kvm) = (Some((a % 4) as u32), b % 2 == 0);
                Event::Vcpu(Vcpu {
                    number,
                    sees_kvm,
                    ..vcpu
                })
            }
            4 => Event::VcpuClock(VcpuClock {
                vcpu,
                before_until_mono_ns: a,
                from_mono_ns: b,
                offset_tsc,
                ratio: c,
                ratio_frac_bits: (a % 70) as u8,
            }),
            5 => {
                let scene = crate::streams::vcpus::ExitScene::new(crate::streams::vcpus::IO, 0, 0);
                let exit = Exit {
                    start_mono_ns: a,
                    end_mono_ns: b,
                    ..scene.exit()
                };
                crate::streams::vcpus::exit_of(id, exit)
            }
            6 => Event::VcpuInterval(VcpuInterval {
                vcpu,
                kind: VcpuIntervalKind::Waiting,
                start_mono_ns: a,
                end_mono_ns: b,
                cpu: 0,
                to_cpu: 0,
                source: None,
            }),
            7 => Event::Watermark(a),
            _ => Event::Finish(Finish {
                reason: FinishReason::Duration,
                mono_ns: a,
            }),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000, ..Default::default() })]

    #[test]
    fn damaged_streams_are_taken(
        guest in vec(any_event(), 0..30),
        host in vec(any_event(), 0..30),
        times in vec(any_time(), 4),
    ) {
        let (guest_facts, host_facts) = (crate::streams::polling_in_a_machine(), crate::streams::vcpus::facts());
        let mut matcher = Matcher::new(&guest_facts, &host_facts).unwrap();
        (0..3).for_each(|id| matcher.host(&Event::Vcpu(crate::streams::vcpus::vcpu(id))));
        guest.iter().for_each(|event| matcher.guest(event));
        host.iter().for_each(|event| matcher.host(event));
        if let Ok(pairs) = matcher.finish() {
            for pair in pairs.pairs() {
                pairs.map(VcpuId(pair.cpu), times[0]);
                pairs.host_mono_ns(pair.cpu, times[1]);
                pairs.witnessed(pair.cpu, times[2], times[3]);
            }
        }
    }
}
