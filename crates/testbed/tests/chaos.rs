//! Tests runs under faults. Whatever happens, the run continues or reports why it ends, and its
//! results add up.

use std::time::Duration;

use vmnoise_testbed::chaos::{run, run_in_lab};

/// Returns a seed; a random one by default. A failure prints the seed, with which the test can be
/// repeated.
fn seed() -> u64 {
    let given = std::env::var("CHAOS_SEED").ok();
    given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap())
}

mod kvm {
    use vmnoise_testbed::skipped;

    use super::*;

    #[test]
    fn every_fault_that_a_machine_of_others_may_have() {
        let tally = run(seed(), Duration::from_secs(60)).unwrap();
        for (name, times) in tally.0 {
            if let Err(reason) = times {
                skipped(&format!("{name}: {reason}"));
            }
        }
    }
}

mod lab {
    use super::*;

    #[test]
    fn every_fault_of_a_whole_machine() {
        print!("{}", run_in_lab(seed(), Duration::from_secs(10)).unwrap());
    }
}
