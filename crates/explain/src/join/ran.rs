//! Instants at which a vCPU provably ran its guest: events of periodic tasks. The time between two
//! instants is used as a gap, as if the task had read the clock at each instant.

use vmnoise_events::{Activation, Activity, ActivityKind};

use super::clock_epochs::ClockEpochs;
use super::observed_cpu::ObservedCpu;

/// Returns the instants at which the task or its kernel provably ran, in nanoseconds of the guest's
/// CLOCK_MONOTONIC, unsorted.
pub(super) fn instants(activation: &Activation) -> impl Iterator<Item = u64> {
    let steps = [
        activation.armed_mono_ns,
        activation.irq_mono_ns,
        activation.waking_mono_ns,
        activation.switch_mono_ns,
        Some(activation.woke_mono_ns),
    ];
    steps.into_iter().flatten()
}

/// Returns further instants at which the vCPU of a polling guest provably ran its guest. At these
/// instants, the guest's kernel started or ended an interrupt and read the clock. The run times of
/// tasks are left out, because some of them are reconstructed.
pub(super) fn interrupts(activity: &Activity) -> impl Iterator<Item = u64> + use<> {
    let is_exact = matches!(activity.kind, ActivityKind::Irq | ActivityKind::Softirq);
    let ends = [activity.start_mono_ns, activity.end_mono_ns];
    ends.into_iter().filter(move |_| is_exact)
}

/// Converts these times (CLOCK_MONOTONIC, ns) to readings of the guest's counter, ascending.
pub(super) fn readings(instants: &[u64], guest: &ClockEpochs) -> Vec<u64> {
    let readings = instants.iter().filter_map(|at_ns| guest.tsc(*at_ns));
    let mut readings: Vec<u64> = readings.map(|(_, tsc)| tsc).collect();
    readings.sort_unstable();
    readings
}

/// Replaces the gaps of `observed` by the times between these instants.
pub(super) fn observe(observed: &mut ObservedCpu, mut instants: Vec<u64>, guest: &ClockEpochs) {
    instants.sort_unstable();
    instants.dedup();
    (observed.gaps, observed.polled) = (Vec::new(), Vec::new());
    let mut last: Option<(usize, u64)> = None;
    for mono_ns in instants {
        let Some((epoch, tsc)) = guest.tsc(mono_ns) else {
            continue;
        };
        match (last, observed.polled.last_mut()) {
            (Some((before, from_tsc)), Some(stretch)) if before == epoch && from_tsc < tsc => {
                observed.gaps.push((from_tsc, tsc));
                stretch.1 = tsc;
            }
            (Some((before, from_tsc)), _) if before == epoch && from_tsc == tsc => {}
            _ => observed.polled.push((tsc, tsc)),
        }
        last = Some((epoch, tsc));
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{Anchor, ClockFacts, ClockSource};

    use super::*;

    #[test]
    fn between_two_instants_anything_may_have_been() {
        let mut guest = ClockEpochs::new(&ClockFacts {
            source: ClockSource::Tsc,
            tsc_hz: 2_000_000_000,
            offset_proof: None,
            offset_tsc: 0,
            offset_bound_tsc: 0,
            bracket_tsc: 0,
        });
        for mono_ns in [100, 20_000_100] {
            guest.add(&Anchor {
                before_tsc: mono_ns * 2,
                mono_ns,
                after_tsc: mono_ns * 2,
            });
        }
        let mut observed = ObservedCpu::default();
        // The first and the last time lie outside of the guest's anchors.
        observe(
            &mut observed,
            vec![900, 50, 700, 700, 200, 30_000_000],
            &guest,
        );
        assert_eq!(observed.gaps, [(400, 1_400), (1_400, 1_800)]);
        assert_eq!(observed.polled, [(400, 1_800)]);
    }
}
