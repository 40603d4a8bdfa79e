//! Tests pass 1 of a join with pairs of recordings whose truth is known. The right vCPU must be
//! found, converted times must be within the bound, and wrong pairs must be refused.

use crate::streams::any_plans::{any_plan, any_stays, with_visible_rates};
use crate::streams::clocks::Dice;
use crate::streams::pairs::{RecordedPair, RecordingPlan};
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::{JoinError, PairingVerdict, Pairs};

const MS: u64 = 1_000_000;

/// Returns whether both sides recorded at this instant, and for 30 ms before and after it.
fn both_record(plan: &RecordingPlan, at_ns: u64) -> bool {
    let records =
        |(from, to): (u64, u64)| (from + 30 * MS..to.saturating_sub(30 * MS)).contains(&at_ns);
    records(plan.guest) && records(plan.host)
}

/// Returns whether the pair was not refused, but had little evidence.
fn had_little_evidence(error: &JoinError) -> bool {
    let JoinError::Unpaired(unpaired) = error else {
        return false;
    };
    let pairing = &unpaired.pairing;
    let pairs = pairing.candidates.iter().flat_map(|vm| &vm.pairs);
    let most = pairs.map(|pair| pair.exits_tested).max();
    pairing.verdict == PairingVerdict::NotProven && most < Some(20)
}

/// Checks that times at which both sides recorded are converted, with an error within the bound.
fn lays_the_truth(plan: &RecordingPlan, pairs: &Pairs) -> Result<(), TestCaseError> {
    let clocks = &plan.clocks;
    let mut dice = Dice(plan.seed);
    let mut times: Vec<u64> = (0..400).map(|_| dice.roll(0, 1_400 * MS)).collect();
    times.sort_unstable();
    for cpu in 0..plan.apic_ids.len() as u32 {
        let bound_ns = pairs.bound_ns(cpu).expect("it is paired");
        let mut last_ns = 0;
        for at_ns in &times {
            let host_ns = clocks.host_mono_ns(*at_ns);
            let mapped = pairs.map(VcpuId(cpu), host_ns);
            let near_stop = clocks.is_stopped(at_ns - at_ns.min(&(30 * MS)), at_ns + 30 * MS);
            if both_record(plan, *at_ns) && !near_stop {
                // A reading that the counter shows twice cannot be dated.
                prop_assert!(mapped.is_some() || clocks.goes_back(), "no time at {at_ns}");
            }
            let Some(mapped_ns) = mapped else { continue };
            prop_assert!(last_ns <= mapped_ns);
            last_ns = mapped_ns;
            if clocks.is_stopped(*at_ns, at_ns + 1) {
                continue;
            }
            let truth_ns = clocks.guest_mono_ns(*at_ns);
            let off_ns = mapped_ns.abs_diff(truth_ns);
            prop_assert!(
                off_ns <= bound_ns,
                "off by {off_ns} of {bound_ns} at {at_ns}"
            );
            let back_ns = pairs.host_mono_ns(cpu, mapped_ns);
            prop_assert!(back_ns.is_some_and(|back_ns| back_ns.abs_diff(host_ns) <= 8));
        }
    }
    Ok(())
}

laws! {
    one_in(96);

    #[test]
    fn the_vcpus_are_found_and_their_clock_is_true(
        plan in any_plan(),
        reports_interrupts in any::<bool>(),
    ) {
        let pair = plan.record();
        let pair = if reports_interrupts { pair.with_interrupts(&plan) } else { pair };
        match pair.matched() {
            Ok(pairs) => {
                for cpu in 0..plan.apic_ids.len() as u32 {
                    prop_assert_eq!(pairs.cpu_of(VcpuId(cpu)), Some(cpu));
                }
                prop_assert_eq!(pairs.pairs().len(), plan.apic_ids.len());
                lays_the_truth(&plan, &pairs)?;
            }
            Err(error) => prop_assert!(had_little_evidence(&error), "{error}"),
        }
    }

    #[test]
    fn a_wrong_offset_is_refused_or_within_the_bound(
        plan in any_plan(),
        off_ns in prop_oneof![0_i64..200, 0_i64..100_000, 0_i64..1_000_000_000],
        ahead in any::<bool>(),
    ) {
        let plan = RecordingPlan { other_vms: 0, ..plan };
        let off_ns = if ahead { off_ns } else { -off_ns };
        let cycles = i128::from(off_ns) * i128::from(plan.clocks.guest_hz()) / 1_000_000_000;
        match plan.record().with_offset(cycles as i64).matched() {
            Ok(pairs) => {
                prop_assert!(off_ns.unsigned_abs() < MS, "off by {off_ns} ns: {:?}", pairs.pairs());
                lays_the_truth(&plan, &pairs)?;
            }
            Err(JoinError::Unpaired(_)) => {}
            Err(JoinError::NoOverlap { .. }) if off_ns.unsigned_abs() > 100 * MS => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn the_vcpus_of_a_microvm_are_found_by_what_they_went_through(
        plan in any_plan(),
        pvm in any::<bool>(),
    ) {
        let mut plan = RecordingPlan { polled_ms: 100, ..plan };
        let clocks = &mut plan.clocks;
        clocks.stops.clear();
        (clocks.ratio, clocks.ratio_frac_bits) = (1, 0);
        clocks.guest_base_tsc = clocks.host_base_tsc;
        clocks.guest_mono = clocks.host_mono.clone();
        let plan = with_visible_rates(plan);
        let pair = plan.record().of_microvm();
        let pair = if pvm { pair.under_kvm_pvm() } else { pair };
        match pair.matched() {
            Ok(pairs) => {
                for cpu in 0..plan.apic_ids.len() as u32 {
                    prop_assert_eq!(pairs.cpu_of(VcpuId(cpu)), Some(cpu));
                }
                lays_the_truth(&plan, &pairs)?;
            }
            Err(error) => prop_assert!(had_little_evidence(&error), "{error}"),
        }
    }

    #[test]
    fn another_guest_is_refused(
        plan in any_plan(),
        stays in any_stays(),
        seed in any::<u64>(),
    ) {
        let plan = RecordingPlan { other_vms: 0, stays, ..plan };
        let pair = plan.record();
        let other = RecordingPlan { seed, ..plan.clone() }.record();
        let mixed = RecordedPair { host: other.host, ..pair.clone() };
        match mixed.matched() {
            Ok(pairs) => prop_assert!(seed == plan.seed, "{:?}", pairs.pairs()),
            Err(JoinError::Unpaired(_)) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
