//! Pairs of recordings at random, for properties.

use proptest::collection::vec;
use proptest::prelude::*;

use super::clocks::{Monotonic, PairClocks, Stop};
use super::lives::VcpuStay;
use super::pairs::{RecordingPlan, TICK_NS};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// A CLOCK_MONOTONIC that is disciplined now and then. It keeps a rate for as long as tells
/// the bound of a line between anchors how wrong it was.
fn any_monotonic() -> impl Strategy<Value = Monotonic> {
    let changes = vec((4_u64..20, -500_000_i64..500_000), 0..6);
    (S..100_000 * S, -100_000_i64..100_000, changes).prop_map(|(base_ns, ppb, changes)| {
        let mut from_ns = 300 * MS;
        let changes = changes.into_iter().map(|(ticks, ppb)| {
            from_ns += ticks * TICK_NS + 7 * MS;
            (from_ns, ppb)
        });
        Monotonic {
            base_ns,
            ppb: [(0, ppb)].into_iter().chain(changes).collect(),
        }
    })
}

/// The counters of AMD and Intel, scaled or not; guests that started long ago, just now, or
/// with a counter far ahead of their host's.
pub fn any_clocks() -> impl Strategy<Value = PairClocks> {
    let scale = prop_oneof![
        Just((1, 0)),
        (2_900_000_000_u64..6_500_000_000).prop_map(|ratio| (ratio, 32)),
        (190_u64 << 40..400 << 40).prop_map(|ratio| (ratio, 48)),
    ];
    let guest_base_tsc = prop_oneof![
        0..3 * S,
        0..1_u64 << 60,
        (1_u64 << 62)..(1 << 63) - (1 << 50)
    ];
    (
        1_000_000_000_u64..4_000_000_000,
        1_u64 << 30..1 << 55,
        any_monotonic(),
        guest_base_tsc,
        scale,
        any_monotonic(),
    )
        .prop_map(
            |(host_hz, host_base_tsc, host_mono, guest_base_tsc, scale, guest_mono)| PairClocks {
                host_hz,
                host_base_tsc,
                host_mono,
                guest_base_tsc,
                ratio: scale.0,
                ratio_frac_bits: scale.1,
                guest_mono,
                stops: vec![],
            },
        )
}

/// Half of the guests are moved to their host, or away from it, somewhere in the run.
pub fn any_stay() -> impl Strategy<Value = VcpuStay> {
    prop_oneof![
        2 => Just(VcpuStay::Always),
        1 => (200 * MS..2_200 * MS).prop_map(VcpuStay::Until),
        1 => (200 * MS..2_200 * MS).prop_map(VcpuStay::From),
    ]
}

/// A guest with one to three CPUs that is on its host all the time, and recorded for about two seconds, on a host that
/// recorded before, after or for longer than it, with other guests or alone.
pub fn any_plan() -> impl Strategy<Value = RecordingPlan> {
    let stops = vec((300 * MS..700 * MS, MS..150 * MS), 0..3);
    let runs = prop_oneof![
        Just(((100_000, 4 * MS), (2_000, 500_000))),
        Just(((20_000, 400_000), (1_000, 100_000))),
        // A competitor for half of the time.
        Just(((3 * MS, 5 * MS), (3 * MS, 5 * MS))),
    ];
    (
        (any::<u64>(), any_clocks(), stops),
        (1_u32..4, 0_u32..3, runs),
        (0..800 * MS, 1_400 * MS..2_300 * MS),
        (0..800 * MS, 1_400 * MS..2_300 * MS),
        (0_u64..60, 0_u64..4, prop_oneof![Just(100_u64), 40_u64..90]),
        (1_000_u64..20_000, 0_u64..3_000),
    )
        .prop_map(|(base, machine, guest, host, noise, edges)| {
            let (seed, mut clocks, stops) = base;
            let mut at_ns = 300 * MS;
            for (after_ns, len_ns) in stops {
                at_ns += after_ns;
                clocks.stops.push(Stop {
                    from_ns: at_ns,
                    to_ns: at_ns + len_ns,
                });
                at_ns += len_ns;
            }
            let (cpus, other_vms, (run_ns, exit_ns)) = machine;
            RecordingPlan {
                seed,
                clocks,
                apic_ids: (0..cpus).map(|cpu| 2 * cpu).collect(),
                guest,
                host,
                run_ns,
                exit_ns,
                own_percent: noise.0,
                lost_percent: noise.1,
                polled_ms: noise.2,
                threshold_ns: edges.0,
                bracket_ns: edges.1,
                other_vms,
                stay: VcpuStay::Always,
            }
        })
}
