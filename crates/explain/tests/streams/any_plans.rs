//! Random plans of pairs of recordings, for property tests.

use proptest::collection::vec;
use proptest::prelude::*;

use super::clocks::{Monotonic, PairClocks, Shown, Stop, StopKind};
use super::lives::VcpuStay;
use super::pairs::{RecordingPlan, TICK_NS};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Returns a CLOCK_MONOTONIC whose rate changes sometimes. Each rate lasts long enough for the
/// anchors to show the error of a straight line between two anchors.
fn any_monotonic() -> impl Strategy<Value = Monotonic> {
    let changes = vec((4_u64..20, -500_000_i64..500_000), 0..6);
    (S..100_000 * S, -100_000_i64..100_000, changes).prop_map(|(base_ns, ppb, changes)| {
        let mut from_ns = 150 * MS;
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

/// Returns the clocks of a pair, with the counters of AMD or Intel, scaled or not. The guest
/// started long ago or just now, or its counter is far ahead of its host's counter.
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

/// Returns the clocks of a kernel that started just now or long ago, or clocks that show ideal
/// time.
pub fn any_shown() -> impl Strategy<Value = Shown> {
    let started = || prop_oneof![0..3 * S, 0..1_u64 << 60];
    let other = (1_u64..6, started(), started());
    let other = other.prop_map(|(cycles_per_ns, first_tsc, first_mono_ns)| Shown {
        cycles_per_ns,
        first_tsc,
        first_mono_ns,
    });
    prop_oneof![Just(Shown::PLAIN), other]
}

/// Returns up to three stays. Half of the vCPUs stay on the host all the time. During the run, the
/// others come to the host, leave the host, or get another id or thread.
pub fn any_stays() -> impl Strategy<Value = Vec<VcpuStay>> {
    let at_ns = || 100 * MS..1_200 * MS;
    let stay = prop_oneof![
        4 => Just(VcpuStay::Always),
        1 => at_ns().prop_map(VcpuStay::Until),
        1 => at_ns().prop_map(VcpuStay::From),
        1 => at_ns().prop_map(VcpuStay::OtherIdFrom),
        1 => at_ns().prop_map(VcpuStay::OtherThreadFrom),
    ];
    vec(stay, 1..4)
}

/// Returns the reason why a VM did not run. The reason decides which clocks stood still.
fn any_stop_kind() -> impl Strategy<Value = StopKind> {
    prop_oneof![
        2 => Just(StopKind::Paused),
        1 => Just(StopKind::Suspended),
        1 => Just(StopKind::HostSuspended),
        // The counter stays above 0: the first stop begins after at least 300 ms, and the second at
        // least 150 ms after the end of the first.
        1 => (MS..200 * MS).prop_map(|back_ns| StopKind::Restored { back_ns }),
    ]
}

/// Returns the plan without changes of a clock's rate that are close to the ends of a recording or
/// to a stop. Near these times, too few clock readings follow or precede a change to show its whole
/// error. No law covers such changes.
pub fn with_visible_rates(mut plan: RecordingPlan) -> RecordingPlan {
    let stops = plan.clocks.stops.iter();
    let stops = stops.flat_map(|stop| [stop.from_ns, stop.to_ns]);
    let ends = [plan.guest.0, plan.guest.1, plan.host.0, plan.host.1];
    let edges: Vec<u64> = stops.chain(ends).collect();
    plan.clocks.keep_rates_around(&edges, 3 * TICK_NS);
    plan
}

/// Returns the plan of a guest with one to three CPUs that stays on its host. Each side records for
/// 0.4 s to 1.3 s, with a start and an end of its own. The host has up to two other VMs.
pub fn any_plan() -> impl Strategy<Value = RecordingPlan> {
    let stops = vec((150 * MS..350 * MS, MS..100 * MS, any_stop_kind()), 0..3);
    let runs = prop_oneof![
        3 => Just(((100_000, 4 * MS), (2_000, 500_000))),
        // The matcher takes most time for many short exits.
        1 => Just(((20_000, 800_000), (1_000, 100_000))),
        // A competitor takes the CPU for half of the time.
        2 => Just(((3 * MS, 5 * MS), (3 * MS, 5 * MS))),
    ];
    (
        (any::<u64>(), any_clocks(), stops),
        (1_u32..4, 0_u32..3, runs),
        (0..400 * MS, 800 * MS..1_300 * MS),
        (0..400 * MS, 800 * MS..1_300 * MS),
        (0_u64..60, 0_u64..4, prop_oneof![Just(100_u64), 40_u64..90]),
        (1_000_u64..20_000, 0_u64..3_000),
    )
        .prop_map(|(base, machine, guest, host, noise, edges)| {
            let (seed, mut clocks, stops) = base;
            let mut at_ns = 150 * MS;
            for (after_ns, len_ns, kind) in stops {
                at_ns += after_ns;
                clocks.stops.push(Stop {
                    from_ns: at_ns,
                    to_ns: at_ns + len_ns,
                    kind,
                });
                at_ns += len_ns;
            }
            let (cpus, other_vms, (run_ns, exit_ns)) = machine;
            with_visible_rates(RecordingPlan {
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
                stays: vec![VcpuStay::Always],
            })
        })
}
