//! Test of `vmnoise scale` against LogGOPSim, which simulates the same program with the same gaps,
//! rank by rank and step by step.

mod simulator;

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use vmnoise_testbed::skipped;

use self::simulator::Simulator;
use crate::many_gaps::write_irregular;

const STEP_NS: u64 = 1_000_000;
const STEPS: u32 = 400;
/// Number of simulations; each places the ranks elsewhere in the trace.
const RUNS: usize = 6;

mod lab_full {
    mod loggopsim {
        #[test]
        fn steps_are_as_long_as_those_that_it_simulates() {
            crate::loggopsim::assert_as_long_as_simulated();
        }
    }
}

fn assert_as_long_as_simulated() {
    let simulator = match Simulator::build() {
        Ok(simulator) => simulator,
        Err(why) => return skipped(&format!("LogGOPSim: {why}")),
    };
    let folder = tempfile::tempdir().unwrap();
    write_irregular(&folder.path().join("node.vmn"), 20_000);
    let vmnoise = |words: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        command
            .current_dir(folder.path())
            .args(words.split_whitespace());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
        output.stdout
    };
    vmnoise("export node.vmn --loggopsim .");
    let noise = folder.path().join("cpu0.noise");
    let scale = vmnoise("scale node.vmn --ranks 2,16,64 --step 1ms --format json");
    let scale: Value = serde_json::from_slice(&scale).unwrap();
    for scale in scale["scales"].as_array().unwrap() {
        let ranks = scale["ranks"].as_u64().unwrap() as u32;
        let ns = |key: &str| scale[key].as_f64().unwrap();
        let predicted = ns("of_recorded_gaps_ns") / ns("undisturbed_ns") - 1.0;
        let simulate = |noise| simulator.ns(folder.path(), noise, ranks, STEPS, STEP_NS) as f64;
        let undisturbed_ns = simulate(None);
        assert_eq!(undisturbed_ns, (u64::from(STEPS) * STEP_NS) as f64);
        let slowdowns = (0..RUNS).map(|_| {
            // The simulator's random seed is the second in which it starts.
            sleep(Duration::from_millis(1_100));
            simulate(Some(&noise)) / undisturbed_ns - 1.0
        });
        let slowdowns: Vec<f64> = slowdowns.collect();
        let mean = slowdowns.iter().sum::<f64>() / RUNS as f64;
        let squares = slowdowns.iter().map(|it| (it - mean).powi(2));
        let error = (squares.sum::<f64>() / (RUNS * (RUNS - 1)) as f64).sqrt();
        println!(
            "{ranks} ranks: simulated {:.3} ± {:.3} %, predicted {:.3} %",
            100.0 * mean,
            100.0 * error,
            100.0 * predicted
        );
        // In the simulator, gaps that begin while an operation is prolonged do not prolong it
        // further. Their part of the prolongation is as large as the gaps' part of a step. The
        // bounds also allow four standard errors, and the width of a cell of the predicted
        // distribution.
        let least = predicted * (1.0 - predicted) - 4.0 * error;
        let most = predicted * (1.0 + 1.0 / 128.0) + 4.0 * error;
        assert!(
            (least..most).contains(&mean),
            "{mean} {predicted} ± {error}"
        );
    }
}
