//! Tests case by case which recordings are joined and which are refused.

use crate::streams::clocks::{Stop, StopKind};
use crate::streams::pairs::{RecordedPair, RecordingPlan};
use vmnoise_events::*;
use vmnoise_explain::{Alternative, JoinError, PairingFailure, PairingVerdict, Pairs};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Returns the recordings of two VMs, of which the first is the guest.
fn beside_another() -> RecordedPair {
    let other_vms = 1;
    RecordingPlan {
        other_vms,
        ..RecordingPlan::plain()
    }
    .record()
}

/// Checks that the refusal is one line that says what to do next, and returns the error.
fn refused(outcome: Result<Pairs, JoinError>) -> JoinError {
    let error = outcome.expect_err("this is no pair");
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(':'), "{text}");
    error
}

/// Returns the failure of a pair that was tested with this verdict.
fn unpaired(outcome: Result<Pairs, JoinError>, verdict: PairingVerdict) -> PairingFailure {
    match refused(outcome) {
        JoinError::Unpaired(unpaired) if unpaired.pairing.verdict == verdict => *unpaired,
        error => panic!("{error}"),
    }
}

#[test]
fn files_that_cannot_be_a_pair_are_told_apart() {
    let pair = RecordingPlan::plain().record();
    let (guest, host) = (&pair.guest_facts, &pair.host_facts);
    let try_with = |guest: &RunFacts, host: &RunFacts| {
        let pair = RecordedPair {
            guest_facts: guest.clone(),
            host_facts: host.clone(),
            ..pair.clone()
        };
        refused(pair.matched())
    };
    assert_eq!(try_with(host, guest), JoinError::Swapped);
    assert_eq!(try_with(host, host), JoinError::NoGuest);
    assert_eq!(try_with(guest, guest), JoinError::NoHost);
    let mut observed = guest.clone();
    observed.workload = MeasuringCommand::Observed;
    assert_eq!(try_with(&observed, host), JoinError::Observed);
}

#[test]
fn recordings_that_lack_something_are_refused() {
    let without = |of_guest: fn(&Event) -> bool, of_host: fn(&Event) -> bool| {
        let mut pair = RecordingPlan::plain().record();
        pair.guest.retain(|event| !of_guest(event));
        pair.host.retain(|event| !of_host(event));
        refused(pair.matched())
    };
    let nothing = |_: &Event| false;
    let anchors = |event: &Event| matches!(event, Event::Anchor(_));
    let side = "guest";
    assert_eq!(without(anchors, nothing), JoinError::NoAnchors { side });
    let side = "host";
    assert_eq!(without(nothing, anchors), JoinError::NoAnchors { side });
    let tallies = |event: &Event| matches!(event, Event::Tally(_));
    assert_eq!(without(tallies, nothing), JoinError::NothingObserved);
    let vcpus = |event: &Event| matches!(event, Event::Vcpu(_));
    assert_eq!(without(nothing, vcpus), JoinError::NoVcpus);
    let clocks = |event: &Event| matches!(event, Event::VcpuClock(_));
    let vcpu = "vCPU 0 of VM web0 (process 4168)".to_string();
    assert_eq!(without(nothing, clocks), JoinError::NoClock { vcpu });
}

#[test]
fn a_vcpu_is_named_by_the_apic_id() {
    let mut pair = RecordingPlan {
        apic_ids: vec![4, 6],
        ..RecordingPlan::plain()
    }
    .record();
    let pairs = pair.matched().unwrap();
    let numbers: Vec<Option<u32>> = pairs.pairs().iter().map(|pair| pair.vcpu).collect();
    assert_eq!(numbers, [Some(4), Some(6)]);
    pair.guest_facts.host.apic_ids.clear();
    let JoinError::NoCandidate { wanted, vcpus } = refused(pair.matched()) else {
        panic!("CPU 0 and 1 have no vCPU of their own numbers");
    };
    assert_eq!(wanted, "CPU 0 would be vCPU 0, CPU 1 would be vCPU 1");
    assert_eq!(vcpus.len(), 2);
}

#[test]
fn the_data_say_which_vm_it_is() {
    let pair = beside_another();
    assert_eq!(pair.matched().unwrap().pairs()[0].vm, "web0");
    for name in ["web0", "4168"] {
        let pairs = pair.matched_as(|matcher| matcher.only(name));
        assert_eq!(pairs.unwrap().pairs()[0].vmm_pid, 4_168);
    }
    let other = pair.matched_as(|matcher| matcher.only("web1"));
    unpaired(other, PairingVerdict::Refused);
    let error = refused(pair.matched_as(|matcher| matcher.only("db")));
    let JoinError::NoSuchVm { vms, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(vms, ["web0 (process 4168)", "web1 (process 14168)"]);
}

#[test]
fn too_little_evidence_is_no_proof_whatever_vm_is_named() {
    let mut pair = beside_another();
    // The host keeps only the first exits of all vCPUs. These give odds above 1, but no proof.
    let mut left = 70;
    pair.host.retain(|event| {
        left -= i32::from(matches!(event, Event::Exit(_)));
        left >= 0 || !matches!(event, Event::Exit(_))
    });
    let open = unpaired(pair.matched(), PairingVerdict::NotProven);
    assert!(open.to_string().contains(" s longer"), "{open}");
    let named = pair.matched_as(|matcher| matcher.only("web0"));
    unpaired(named, PairingVerdict::NotProven);
}

#[test]
fn two_vms_that_went_through_the_same_are_not_told_apart() {
    let mut pair = beside_another();
    let exits: Vec<Event> = pair
        .host
        .iter()
        .filter_map(|event| match event {
            Event::Exit(reported) if reported.vcpu == VcpuId(0) => Some(Event::Exit(VcpuExit {
                vcpu: VcpuId(1),
                ..*reported
            })),
            _ => None,
        })
        .collect();
    pair.host
        .retain(|event| !matches!(event, Event::Exit(reported) if reported.vcpu == VcpuId(1)));
    pair.host.extend(exits);
    let open = unpaired(pair.matched(), PairingVerdict::NotProven);
    let against = &open.pairing.candidates[0].against;
    assert!(matches!(against, Alternative::Vcpu { .. }), "{against:?}");
    assert_eq!(open.pairing.log10_odds, 0.0);
}

#[test]
fn a_guest_of_another_boot_lies_elsewhere() {
    let mut plan = RecordingPlan::plain();
    plan.clocks.guest_base_tsc = 5_000_000 * MS;
    let pair = plan.record();
    plan.clocks.guest_base_tsc = 2_000 * MS;
    let mixed = RecordedPair {
        host: plan.record().host,
        ..pair
    };
    let error = refused(mixed.matched());
    let JoinError::NoOverlap {
        guest_mono_ns,
        host_mono_ns,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(guest_mono_ns, (4_998_100 * MS, 5_000_100 * MS));
    assert_eq!(host_mono_ns, (50 * MS, 2_150 * MS));
}

#[test]
fn many_exits_in_the_guests_own_work_do_not_outvote_one_preemption() {
    let mut plan = RecordingPlan::plain();
    plan.own_percent = 0;
    plan.exit_ns = (400 * US, 500 * US);
    let mut pair = plan.record();
    // Each of 100 gaps that the host did not cause contains a hundred short exits.
    let last_ns = 2_090 * MS;
    pair.guest_facts.options.cpus = vec![0];
    let away = pair.lives[0].away.clone();
    for (before, after) in away.iter().zip(&away[1..]).take(100) {
        let (start, end) = (before.end_ns + 20 * US, after.start_ns - 20 * US);
        if end < start + 1_000 * US || end > last_ns {
            continue;
        }
        pair.guest
            .insert(0, Event::Gap(crate::streams::gap(start, end)));
        if let Some(Event::Gap(gap)) = pair.guest.first_mut() {
            gap.cpu = 0;
        }
        for step in 0..100 {
            let at = start + 10 * US + (end - start - 30 * US) / 100 * step;
            let scene =
                crate::streams::vcpus::ExitScene::new(crate::streams::vcpus::IO, at, at + 8 * US);
            pair.host
                .push(crate::streams::vcpus::exit_of(0, scene.exit()));
        }
    }
    let pairs = pair.matched().unwrap();
    assert!(pairs.bound_ns(0).unwrap() < 30 * US, "{:?}", pairs.pairs());
    unpaired(pair.with_offset(100_000).matched(), PairingVerdict::Refused);
}

#[test]
fn a_burst_of_lost_gaps_is_no_contradiction() {
    let mut pair = RecordingPlan {
        run_ns: (20 * US, 100 * US),
        ..RecordingPlan::plain()
    }
    .record();
    let before = pair.matched().unwrap().pairs()[0].clone();
    pair.guest.retain(|event| {
        !matches!(event, Event::Gap(gap) if (500 * MS..1_500 * MS).contains(&gap.start_tsc))
    });
    let after = pair.matched().unwrap().pairs()[0].clone();
    assert_eq!(before.exits_inside, before.exits_tested);
    assert_eq!(after.exits_tested - after.exits_inside, 1);
    assert!(after.exits_tested < before.exits_tested * 2 / 3);
}

#[test]
fn what_one_known_clock_and_both_recordings_hold_is_witnessed() {
    let mut plan = RecordingPlan::plain();
    plan.guest = (0, 2_000 * MS);
    plan.host = (500 * MS, 1_500 * MS);
    plan.clocks.stops = vec![Stop {
        from_ns: 900 * MS,
        to_ns: 1_000 * MS,
        kind: StopKind::Paused,
    }];
    let pairs = plan.record().matched().unwrap();
    let pair = &pairs.pairs()[0];
    assert_eq!((pair.clocks, pair.overlap_ns), (2, 900 * MS));
    let witnessed = |from_ms, to_ms| pairs.witnessed(0, from_ms * MS, to_ms * MS);
    // The vCPU is known to be on the host from its first exit to its last one. It runs for at most
    // 4 ms between two exits, and an exit takes at most 0.5 ms.
    assert!(witnessed(506, 890));
    assert!(!witnessed(499, 890), "the host began later");
    assert!(!witnessed(890, 910), "another clock");
    // The guest's clock stood still for 100 ms.
    assert!(witnessed(910, 1_394));
    assert!(!witnessed(910, 1_401), "the host had ended");
    assert!(!pairs.witnessed(1, 600 * MS, 700 * MS), "nobody's CPU");
    let mapped = |at_ms| pairs.map(VcpuId(0), at_ms * MS);
    assert_eq!(mapped(899), Some(899 * MS));
    assert_eq!(mapped(950), None);
    assert_eq!(mapped(1_001), Some(901 * MS));
    assert_eq!(pairs.host_mono_ns(0, 901 * MS), Some(1_001 * MS));
    assert_eq!(mapped(1_501), None);
}
