//! Compares predictions with known values and with simulated programs.

mod coverage;
mod known;
mod naive;
mod simulated;

use vmnoise_events::Share;

use super::{AtScale, BspProgram, Collective, HostCpus, Prediction, predict};
use crate::record::{CpuRecord, RecordCulprit};

/// Returns a culprit with this name and the share `thread`.
pub(super) fn named(name: &str) -> RecordCulprit {
    RecordCulprit {
        share: Share::Thread,
        name: Some(name.into()),
    }
}

/// Returns a record of a run that begins at 0. Each gap is a pair of begin and length, in ascending
/// order. One thread took the time of all gaps.
pub(super) fn record(cpu: u32, gaps: &[(u64, u64)], to_ns: u64) -> CpuRecord {
    let mut record = CpuRecord::new(cpu);
    let who = record.culprit(named("other:7"));
    for (begin_ns, length_ns) in gaps {
        record.push(*begin_ns, *length_ns, [(who, *length_ns)].into_iter());
    }
    record.measured(0, to_ns);
    record
}

/// Returns gaps at random moments, each as begin and length. The pauses between gaps are
/// exponential with the mean `pause_ns`.
pub(super) fn random_gaps(
    random: &mut fastrand::Rng,
    pause_ns: f64,
    length_ns: impl Fn(&mut fastrand::Rng) -> f64,
    to_ns: u64,
) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut now_ns = 0.0;
    loop {
        now_ns += exponential(random, pause_ns);
        let length_ns = length_ns(random).round();
        if now_ns + length_ns >= to_ns as f64 {
            return gaps;
        }
        gaps.push((now_ns as u64, length_ns as u64));
        now_ns = now_ns.floor() + length_ns + 1.0;
    }
}

pub(super) fn exponential(random: &mut fastrand::Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}

/// Returns a program whose steps need `step_ns` and end with a barrier.
pub(super) fn barriers(step_ns: u64) -> BspProgram {
    BspProgram {
        step_ns,
        collective: Collective::Barrier,
        in_phase: false,
    }
}

/// Returns the prediction for one recorded host.
pub(super) fn predicted(records: &[CpuRecord], program: BspProgram, ranks: &[u64]) -> Prediction {
    let hosts = [HostCpus {
        cpus: records.iter().collect(),
    }];
    predict(&hosts, &program, ranks).unwrap()
}

/// Returns the predicted delay of a step: its duration minus that of an undisturbed step.
pub(super) fn delay_ns(scale: &AtScale) -> f64 {
    scale.step_ns.unwrap() - scale.undisturbed_ns
}

/// Returns the delay of a step if no gaps other than the recorded gaps ever occur. The delay is
/// known even if the recordings are not sufficient for a prediction.
pub(super) fn delay_of_recorded_gaps_ns(scale: &AtScale) -> f64 {
    scale.of_recorded_gaps_ns - scale.undisturbed_ns
}
