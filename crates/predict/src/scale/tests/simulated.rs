//! Compares predictions with simulated programs.

use super::naive::Machine;
use super::{barriers, delay_of_recorded_gaps_ns, exponential, predicted, random_gaps, record};
use crate::record::CpuRecord;
use crate::scale::{BspProgram, Collective};

const SPAN_NS: u64 = 20_000_000_000;
const RUNS: usize = 24;

/// Returns the records of two CPUs of a host. Each CPU has its own gaps, and some gaps come on both
/// CPUs at the same time.
fn host(random: &mut fastrand::Rng, pause_ns: f64, gap_ns: f64) -> Vec<CpuRecord> {
    let common = random_gaps(
        random,
        3.0 * pause_ns,
        |it| exponential(it, gap_ns),
        SPAN_NS,
    );
    let cpus = (0..2).map(|cpu| {
        let own = random_gaps(random, pause_ns, |it| exponential(it, gap_ns), SPAN_NS);
        let mut gaps: Vec<(u64, u64)> = own.into_iter().chain(common.iter().copied()).collect();
        gaps.sort_unstable();
        record(cpu, &gaps, SPAN_NS)
    });
    cpus.collect()
}

/// Returns the mean and the standard error of a step's delay over several simulations of this
/// number of hosts.
fn run(
    records: &[CpuRecord],
    hosts: usize,
    undisturbed_ns: u64,
    steps: usize,
    random: &mut fastrand::Rng,
    program_ns: impl Fn(&Machine) -> u64,
) -> (f64, f64) {
    let runs = (0..RUNS).map(|_| {
        let machine = Machine::new(records, hosts, random);
        program_ns(&machine) as f64 / steps as f64 - undisturbed_ns as f64
    });
    let runs: Vec<f64> = runs.collect();
    let mean = runs.iter().sum::<f64>() / RUNS as f64;
    let squares: f64 = runs.iter().map(|it| (it - mean).powi(2)).sum();
    (mean, (squares / (RUNS * (RUNS - 1)) as f64).sqrt())
}

/// Tests gaps that are much shorter than a step, about as long as a step, and ten times as long.
#[test]
fn a_program_that_is_run_takes_as_long_as_predicted() {
    let step_ns = 1_000_000;
    let mut predicted_scales = 0;
    for (seed, pause_ns, gap_ns) in [(1, 4e6, 50e3), (2, 20e6, 1e6), (3, 200e6, 10e6)] {
        let mut random = fastrand::Rng::with_seed(seed);
        let records = host(&mut random, pause_ns, gap_ns);
        let ranks = [2, 8, 64];
        let prediction = predicted(&records, barriers(step_ns), &ranks);
        for scale in &prediction.scales {
            let hosts = scale.ranks as usize / 2;
            // The program runs as long as the recording, so it meets all gaps.
            let steps = 4_000;
            let (mean, error) = run(&records, hosts, step_ns, steps, &mut random, |machine| {
                machine.barriers_ns(step_ns, steps)
            });
            let found = delay_of_recorded_gaps_ns(scale);
            // With the longest gaps, a run of 20 s has too few steps for a prediction for 64 ranks.
            if let Some(((least_ns, most_ns), step_ns)) = scale.bounds_ns.zip(scale.step_ns) {
                assert!(
                    least_ns <= 1.000_001 * step_ns && step_ns <= 1.000_001 * most_ns,
                    "{scale:?}"
                );
                predicted_scales += 1;
            }
            // The test allows four standard errors and two percent. A cell of the grid is about one
            // percent wide, and the waits of one state of the chain differ by a factor of two.
            assert!(
                (found - mean).abs() < 4.0 * error + 0.02 * mean,
                "{found} {mean} {error}"
            );
        }
    }
    // Nine predictions are tried. Those that depend on a few of the longest gaps are not made.
    assert!(predicted_scales >= 5, "{predicted_scales}");
}

/// Compares the prediction with a simulated program. Returns for each number of ranks the number,
/// the predicted delay divided by the simulated delay, and the standard error of this ratio.
fn allreduces((seed, pause_ns, gap_ns): (u64, f64, f64), steps: usize) -> Vec<(u64, f64, f64)> {
    let (step_ns, round_ns) = (1_000_000, 5_000);
    let mut random = fastrand::Rng::with_seed(seed);
    let records = host(&mut random, pause_ns, gap_ns);
    let collective = Collective::Allreduce { round_ns };
    let program = BspProgram {
        collective,
        ..barriers(step_ns)
    };
    let prediction = predicted(&records, program, &[2, 16, 128]);
    let scales = prediction.scales.iter().map(|scale| {
        let hosts = scale.ranks as usize / 2;
        let undisturbed_ns = scale.undisturbed_ns as u64;
        let (mean, error) = run(
            &records,
            hosts,
            undisturbed_ns,
            steps,
            &mut random,
            |machine| machine.allreduces_ns(step_ns, round_ns, steps),
        );
        (
            scale.ranks,
            delay_of_recorded_gaps_ns(scale) / mean,
            error / mean,
        )
    });
    scales.collect()
}

#[test]
fn an_allreduce_that_is_run_takes_as_long_as_estimated() {
    for (ranks, found, error) in allreduces((11, 4e6, 50e3), 500) {
        // The prediction is an estimate (see `scale::allreduce`).
        assert!(
            (found - 1.0).abs() < 0.15 + 4.0 * error,
            "{ranks} {found} {error}"
        );
    }
}

/// If gaps are as long as a step or ten times as long, the estimate is too high. The test prints
/// the ratio; docs/scale.md shows these figures.
#[test]
#[allow(clippy::print_stdout)]
fn an_allreduce_with_long_gaps_takes_no_longer_than_estimated() {
    for scene in [(2, 20e6, 1e6), (3, 200e6, 10e6)] {
        for (ranks, found, error) in allreduces(scene, 1_000) {
            let gap_ns = scene.2;
            println!("gaps of {gap_ns} ns, {ranks} ranks: {found:.2} times as long, +- {error:.2}");
            assert!(found > 0.85 - 4.0 * error, "{ranks} {found} {error}");
        }
    }
}
