//! Tests how much of the recordings is kept as evidence.

use vmnoise_events::{
    Anchor, CpuTally, Exit, ExitReason, Gap, Isa, MeasuringCommand, ShareMap, Vcpu, VcpuClock,
    VcpuExit, fixtures,
};

use super::*;

fn facts(workload: MeasuringCommand) -> RunFacts {
    let mut facts = fixtures::facts(workload);
    facts.options.threshold_ns = 5;
    facts
}

/// Returns a matcher with gaps and exits that agree and recur every 1000 ns. The matcher keeps at
/// most `gaps` gaps and `exits` exits.
fn recurring(gaps: usize, exits: usize) -> Matcher {
    let mut matcher = Matcher::new(
        &facts(MeasuringCommand::Osnoise),
        &facts(MeasuringCommand::Exits),
    )
    .unwrap();
    (matcher.gaps_left, matcher.away_left) = (gaps, exits);
    let vcpu = VcpuId(0);
    matcher.host(&Event::Vcpu(Vcpu {
        id: vcpu,
        tid: 2,
        vmm_pid: 1,
        number: Some(0),
        vm: 0,
        vm_name: "web".into(),
        identity: Default::default(),
        sees_kvm: true,
    }));
    matcher.host(&Event::VcpuClock(VcpuClock {
        vcpu,
        before_until_mono_ns: 0,
        from_mono_ns: 0,
        offset_tsc: 0,
        ratio: 1,
        ratio_frac_bits: 0,
    }));
    for at in (10_000..110_000).step_by(1_000) {
        let anchor = |at| {
            Event::Anchor(Anchor {
                before_tsc: at,
                mono_ns: at,
                after_tsc: at,
            })
        };
        matcher.guest(&anchor(at));
        matcher.guest(&Event::Tally(CpuTally {
            cpu: 0,
            first_tsc: 10_000,
            last_tsc: at,
            ..CpuTally::default()
        }));
        matcher.guest(&Event::Gap(Gap {
            cpu: 0,
            start_tsc: at - 120,
            end_tsc: at - 80,
            steal_ns: 0,
            reloads: 0,
            light_exits: 0,
            heavy_exits: 0,
            interference: None,
            run_delay_ns: 0,
        }));
        matcher.guest(&Event::Watermark(at));
        matcher.host(&anchor(at));
        matcher.host(&Event::Exit(VcpuExit {
            vcpu,
            exit: Exit {
                start_mono_ns: at - 110,
                end_mono_ns: at - 90,
                reason: ExitReason {
                    isa: Isa::Svm,
                    code: 0,
                },
                exit_cpu: 0,
                entry_cpu: 0,
                heavy: false,
                split: ShareMap::default(),
            },
        }));
        matcher.host(&Event::Watermark(at));
    }
    matcher
}

fn tested(gaps: usize, exits: usize) -> u64 {
    // Gaps and exits recur every 1000 ns, so nothing is proven. The error contains the number of
    // tests.
    let Err(JoinError::Unpaired(unpaired)) = recurring(gaps, exits).finish() else {
        panic!("a clock that is off by a period fits as well");
    };
    let pair = unpaired.pairing.candidates[0].pairs[0].clone();
    assert_eq!(pair.exits_inside, pair.exits_tested);
    pair.exits_tested
}

#[test]
fn what_is_not_kept_is_not_tested() {
    // The first gap lies before the first reading.
    assert_eq!(tested(KEPT, KEPT), 99);
    assert_eq!(
        tested(50, KEPT),
        48,
        "whether more gaps were observed is not known"
    );
    assert_eq!(tested(KEPT, 50), 49);
}

#[test]
fn all_vcpus_together_look_in_proportion_to_what_is_kept() {
    let mut matcher = recurring(KEPT, KEPT);
    let most = |matcher: &Matcher, tries| matcher.looks(tries).most;
    // Few vCPUs get the maximum for one vCPU.
    assert_eq!(most(&matcher, 1), 2 * LAID);
    assert_eq!(most(&matcher, 1_000), LEAST_IN_ALL / 1_000);
    for kept in [50_000, 200_000] {
        matcher.away_left = KEPT - kept;
        let all = most(&matcher, 1_000) * 1_000 / LOOKS;
        assert!((kept..kept + 1_000).contains(&all), "{all} of {kept}");
    }
    matcher.away_left = 0;
    assert_eq!(most(&matcher, 1_000), LAID_IN_ALL / 1_000);
}
