//! The laws and oracles: properties of results over generated streams whose truth is known. `PROPTEST_CASES`
//! sets their number of streams; a law of which a stream is dear takes a fraction of it.

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

/// As many cases as `PROPTEST_CASES` says, divided by `divisor`: each law of the tier then takes about as long
/// as the others.
fn one_in(divisor: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        failure_persistence: None,
        cases: default.cases.div_ceil(divisor),
        ..default
    }
}
