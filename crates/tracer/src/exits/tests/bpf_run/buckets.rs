//! Tests that each length is counted in the right bucket. There are four buckets for each power of
//! two.

use std::collections::BTreeMap;

use super::harness::{CPUID, Handlers, VCPU};

#[test]
fn the_first_and_the_last_length_of_each_bucket_are_counted_in_it() {
    // Shortest length of each bucket. The last bucket also has all longer lengths.
    let quarters = (0..30).flat_map(|power| (4..8_u64).map(move |quarter| quarter << power));
    let begins: Vec<u64> = (1..4).chain(quarters).collect();
    let longest = 1 << 33;
    let lasts = begins.iter().skip(1).map(|begin| begin - 1);
    let lengths = begins.iter().copied().chain(lasts).chain([longest]);

    let handlers = Handlers::entered();
    let mut expected = BTreeMap::new();
    let mut now_ns = 1_000;
    for length in lengths {
        let next = begins.iter().find(|begin| **begin > length);
        let last = next.map_or(longest, |begin| begin - 1);
        *expected.entry(last).or_insert(0_u64) += 1;
        let values = [VCPU, CPUID];
        let start_ns = now_ns + 1;
        now_ns = start_ns + length;
        handlers.run_all(&[
            ("exit", 0, start_ns, &values),
            ("entry", 0, now_ns, &values[..1]),
        ]);
    }
    let vcpu = handlers.vcpu(1);
    let counted: BTreeMap<u64, u64> = vcpu.reasons[0].histogram.iter().copied().collect();
    assert_eq!(counted, expected);
}
