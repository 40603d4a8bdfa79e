//! Compares the step times of an MPI program with the step times that `vmnoise scale` predicts from
//! a recording of its CPUs. Also tests that a data set keeps the recordings of ranks separate.

use std::fs;
use std::path::{Path, PathBuf};

use vmnoise_testbed::mpi::{
    CULPRIT, LONG, Launcher, MpiCollective, PRIORITY, PredictionComparison, SCENES, SceneOutcome,
    Slurm, beside, by_mpirun, by_srun, what_is_missing,
};
use vmnoise_testbed::{binary, run_to_end};

/// Prints a comparison, and asserts that prediction and measurement agree.
fn assert_predicted(comparison: &PredictionComparison<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let outcomes = beside(comparison, folder.path()).unwrap();
    for outcome in &outcomes {
        let [predicted, measured] = outcome.slowdowns();
        println!(
            "{} {} {:?} {}: predicted {predicted:.4}, measured {measured:.4}: {:.4} apart, {:.4} allowed",
            comparison.launcher.name(),
            comparison.collective.name(),
            comparison.bursts.burst,
            outcome.scene.name,
            outcome.apart(),
            outcome.allowed
        );
    }
    let [quiet, one, in_phase, out_of_phase] = &outcomes[..] else {
        panic!("{} scenes", outcomes.len());
    };
    for outcome in [one, in_phase, out_of_phase] {
        assert!(outcome.apart() <= outcome.allowed, "{outcome:?}");
        assert!(is_longer(outcome, quiet), "{outcome:?}\n{quiet:?}");
        let blamed = outcome
            .rounds
            .iter()
            .map(|(predicted, _)| &predicted.culprits[0].0);
        assert!(blamed.into_iter().all(|who| who == CULPRIT), "{outcome:?}");
    }
    assert!(!blames_the_disturber(quiet), "{quiet:?}");
    // The rank that is not disturbed waits for the disturbed rank.
    for (_, measured) in &one.rounds {
        let [other_ns, disturbed_ns] = measured.rank_work_ns;
        assert!(other_ns < disturbed_ns, "{one:?}");
    }
    // If bursts are longer than a step, two bursts never lie in the same step. The prediction must
    // keep noise that occurs at the same time on CPUs of one host together. It must not combine
    // noise from different times.
    if comparison.bursts == LONG {
        assert!(is_longer(out_of_phase, in_phase), "{outcomes:?}");
    }
}

/// Returns whether steps are longer in the scene `outcome` than in the scene `than`, by more than
/// the other noise. This must be true of the predicted and of the measured steps.
fn is_longer(outcome: &SceneOutcome, than: &SceneOutcome) -> bool {
    let both = outcome.slowdowns().into_iter().zip(than.slowdowns());
    both.into_iter()
        .all(|(longer, shorter)| longer / shorter > 1.0 + outcome.unlike)
}

fn blames_the_disturber(outcome: &SceneOutcome) -> bool {
    let culprits = outcome
        .rounds
        .iter()
        .flat_map(|(predicted, _)| &predicted.culprits);
    culprits.into_iter().any(|(who, _)| who == CULPRIT)
}

/// Asserts that each rank records its own CPU, that only the CPU of rank 1 is disturbed, and that
/// the data set keeps one recording per rank.
fn assert_ranks_record(launcher: &Launcher<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (vmnoise, files) = (binary(), folder.join("rank"));
    let script = format!(
        "rank=${{PMIX_RANK:-$SLURM_PROCID}}; exec '{}' osnoise -c $rank -P f:{PRIORITY} -d 500ms -o {}$rank.vmn",
        vmnoise.display(),
        files.display()
    );
    let [_, one, ..] = SCENES;
    let disturbers = one.begin(LONG).unwrap();
    launcher.run(&["sh", "-c", &script], folder).unwrap();
    drop(disturbers);
    let fleet = folder.join("fleet");
    for rank in ["0", "1"] {
        let file = format!("{}{rank}.vmn", files.display());
        let output = run_to_end(&["export", &file, "--csv", fleet.to_str().unwrap()]).unwrap();
        assert!(output.status.success(), "{output:?}");
        let run = run_of_rank(&fleet, rank);
        let table = |name: &str| fs::read_to_string(run.join(name)).unwrap();
        let facts = table("run.csv");
        let mut lines = facts.lines().map(|line| line.split(','));
        let place = lines.next().unwrap().position(|column| column == "rank");
        assert_eq!(
            lines.next().unwrap().nth(place.unwrap()),
            Some(rank),
            "{facts}"
        );
        let is_blamed = table("gap_parts.csv").contains(CULPRIT);
        assert_eq!(is_blamed, rank == "1", "rank {rank}");
    }
}

/// Returns the folder of the only run that this rank has recorded.
fn run_of_rank(fleet: &Path, rank: &str) -> PathBuf {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let runs = entries(fleet).into_iter().flat_map(|host| entries(&host));
    let its_end = format!("-rank{rank}");
    let mut its = runs.filter(|run| run.to_str().unwrap().ends_with(&its_end));
    let first = its.next().unwrap();
    assert_eq!(its.next(), None);
    first
}

mod root {
    use super::*;
    use vmnoise_testbed::skipped;

    #[test]
    fn steps_of_an_mpi_program_are_as_long_as_predicted_and_the_culprit_is_named() {
        if let Some(reason) = what_is_missing() {
            return skipped(&reason);
        }
        assert_predicted(&PredictionComparison {
            launcher: Launcher::Mpirun,
            collective: MpiCollective::Barrier,
            bursts: LONG,
            rounds: 2,
        });
    }

    #[test]
    fn what_the_ranks_of_mpirun_record_lies_by_rank() {
        if let Some(reason) = what_is_missing() {
            return skipped(&reason);
        }
        assert_ranks_record(&Launcher::Mpirun);
    }
}

mod lab_full {
    mod mpi {
        use super::super::*;

        #[test]
        fn steps_of_mpirun_are_as_predicted() {
            for comparison in by_mpirun() {
                assert_predicted(&comparison);
            }
        }

        #[test]
        fn steps_and_recordings_of_srun_are_as_predicted() {
            let folder = tempfile::tempdir().unwrap();
            let slurm = Slurm::start(folder.path()).unwrap();
            assert_ranks_record(&Launcher::Srun(&slurm));
            for comparison in by_srun(&slurm) {
                assert_predicted(&comparison);
            }
        }
    }
}
