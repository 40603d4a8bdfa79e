//! The laws and oracles: properties of results over generated streams whose truth is known.
//! `PROPTEST_CASES` sets the number of streams. A law with expensive streams uses a fraction of
//! this number.

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

use proptest::prelude::ProptestConfig;

/// Returns a configuration with the number of cases in `PROPTEST_CASES`, divided by `divisor`. The
/// divisors make all laws of the tier take about the same time.
fn one_in(divisor: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        failure_persistence: None,
        cases: default.cases.div_ceil(divisor),
        ..default
    }
}
