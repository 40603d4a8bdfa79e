//! Laws and oracles: tests of properties that results must have for generated streams whose truth
//! is known. `PROPTEST_CASES` sets the number of streams. A law with expensive streams uses a
//! fraction of this number.

/// Defines laws over generated streams. `holds_for` divides the number of streams by the divisor.
macro_rules! laws {
    (one_in($divisor:expr); $(
        $(#[$meta:meta])*
        fn $name:ident($($pattern:pat in $stream:expr),+ $(,)?) $body:block
    )+) => {
        $(
            $(#[$meta])*
            fn $name() {
                $crate::law::holds_for($divisor, ($($stream,)+), |($($pattern,)+)| {
                    $body
                    Ok(())
                });
            }
        )+
    };
}

mod budget_law;
mod clock_jumps;
mod join_law;
mod join_matcher;
mod join_oracle;
mod join_pairs;
mod join_truth;
mod latency_matcher;
mod latency_oracle;
mod missing;
mod missing_below;
mod observed;
mod oracle;
mod trace;
mod vcpus_kvm;
mod vcpus_law;
mod wakeups_law;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};

/// Tests a law with the number of streams in `PROPTEST_CASES`, divided by `divisor`. The divisors
/// make all laws of the tier take about the same time.
///
/// The macro `proptest!` is not used: with it, the variable would override the divided number.
fn holds_for<S: Strategy>(divisor: u32, streams: S, law: impl Fn(S::Value) -> TestCaseResult) {
    let default = ProptestConfig::default();
    let cases = default.cases.div_ceil(divisor);
    let config = ProptestConfig {
        failure_persistence: None,
        cases,
        // A law that rejects more streams than it tries checks too few. With few cases, this may be
        // chance, so at least 24 rejections are allowed.
        max_global_rejects: cases.max(24),
        ..default
    };
    let outcome = TestRunner::new(config).run(&streams, law);
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
