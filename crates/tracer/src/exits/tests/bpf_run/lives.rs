//! Lives at random, and how a test is held over many of them.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseResult, TestRunner};

/// What decides a life: how long until the next event, what it is, and whether it is lost.
pub(super) type Choice = (u64, u64, bool);

/// Random decisions, with losses or without.
pub(super) fn choices(
    steps: impl Into<proptest::collection::SizeRange>,
    lossy: bool,
) -> impl Strategy<Value = Vec<Choice>> {
    let lost = (0_u8..16).prop_map(move |chance| lossy && chance == 0);
    proptest::collection::vec((1_u64..20, any::<u64>(), lost), steps)
}

/// Holds this for so many lives. Most of their price would be good random numbers.
pub(super) fn hold<Lives: Strategy>(
    cases: u32,
    lives: &Lives,
    test: impl Fn(Lives::Value) -> TestCaseResult,
) {
    let config = ProptestConfig {
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::XorShift,
        ..ProptestConfig::with_cases(cases)
    };
    if let Err(failure) = TestRunner::new(config).run(lives, test) {
        panic!("{failure}");
    }
}
