//! Random lives, and a function that checks many of them.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseResult, TestRunner};

/// A choice in a life: the time until the next event in ns, the kind of the event, and whether the
/// event is lost.
pub(super) type Choice = (u64, u64, bool);

/// Returns random choices. `lossy`: whether events are lost.
pub(super) fn choices(
    steps: impl Into<proptest::collection::SizeRange>,
    lossy: bool,
) -> impl Strategy<Value = Vec<Choice>> {
    let lost = (0_u8..16).prop_map(move |chance| lossy && chance == 0);
    proptest::collection::vec((1_u64..20, any::<u64>(), lost), steps)
}

/// Runs a test on this many lives. It uses fast random numbers, because good ones would take most
/// of the time.
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
