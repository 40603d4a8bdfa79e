//! Checks the unexplained time of a guest's gaps, window by window. Each window must be a
//! transition in a kernel for which there is no event. If a window is so long that another exit
//! fits into it, an event was lost.

use std::collections::BTreeMap;

use serde_json::Value;
use vmnoise_events::{Activity, ActivityKind, Event};

use super::{THRESHOLD_NS, number};

/// What ran before and after a window: `None` for the polling thread, `Exit` for the host.
type Kind = [Option<ActivityKind>; 2];

/// Records of both kernels about one gap.
#[derive(Debug, Clone)]
struct Gap {
    dur_ns: u64,
    /// Start and end of each activity or exit in nanoseconds since the gap's start, sorted by
    /// start.
    spans: Vec<(u64, u64, ActivityKind)>,
}

impl Gap {
    fn of(tree: &Value, activities: &[Activity]) -> Gap {
        let [start_ns, dur_ns] = ["start_mono_ns", "dur_ns"].map(|key| number(&tree["gap"][key]));
        let exits = tree["exits"].as_array().unwrap().iter();
        let exits = exits.map(|exit| {
            let [after_ns, dur_ns] = ["after_ns", "dur_ns"].map(|key| number(&exit[key]));
            (after_ns, after_ns + dur_ns, ActivityKind::Exit)
        });
        let within = |mono_ns: u64| mono_ns.saturating_sub(start_ns).min(dur_ns);
        let activities = activities.iter().map(|it| {
            let [start_ns, end_ns] = [it.start_mono_ns, it.end_mono_ns].map(within);
            (start_ns, end_ns, it.kind)
        });
        let activities = activities.filter(|(start_ns, end_ns, _)| start_ns < end_ns);
        let mut spans: Vec<_> = exits.chain(activities).collect();
        spans.sort_unstable();
        Gap { dur_ns, spans }
    }

    /// Returns the windows in which neither kernel recorded anything, and their lengths in
    /// nanoseconds.
    fn ways(&self) -> Vec<(Kind, u64)> {
        let mut ways = Vec::new();
        let (mut at_ns, mut from) = (0, None);
        let end = (self.dur_ns, self.dur_ns, None);
        let spans = self
            .spans
            .iter()
            .map(|&(start, end, kind)| (start, end, Some(kind)));
        for (start_ns, end_ns, to) in spans.chain([end]) {
            if start_ns > at_ns {
                ways.push(([from, to], start_ns - at_ns));
            }
            if end_ns > at_ns {
                (at_ns, from) = (end_ns, to);
            }
        }
        ways
    }

    /// Returns the time of a gap outside its only exit, if the gap contains nothing else. This is
    /// the time from the guest's user space to the host's first event and back.
    fn exit_way_ns(&self) -> Option<u64> {
        match self.spans[..] {
            [(start_ns, end_ns, ActivityKind::Exit)] => Some(self.dur_ns - (end_ns - start_ns)),
            _ => None,
        }
    }
}

/// Returns the windows of these gaps that are too long, each with its gap, kind, length and limit.
fn too_long(gaps: &[Gap]) -> Vec<(&Gap, Kind, u64, u64)> {
    let mut exit_ways_ns: Vec<u64> = gaps.iter().filter_map(Gap::exit_way_ns).collect();
    exit_ways_ns.sort_unstable();
    let (least_ns, most_ns) = (exit_ways_ns[0], exit_ways_ns[exit_ways_ns.len() - 1]);
    println!(
        "{} exit ways of {least_ns} to {most_ns} ns",
        exit_ways_ns.len()
    );
    // This is one path through one kernel, with a few branches.
    assert!(most_ns < least_ns * 2, "{exit_ways_ns:?}");

    let mut kinds: BTreeMap<Kind, Vec<u64>> = BTreeMap::new();
    for (kind, ns) in gaps.iter().flat_map(Gap::ways) {
        kinds.entry(kind).or_default().push(ns);
    }
    for (kind, ways_ns) in &mut kinds {
        ways_ns.sort_unstable();
        let [least_ns, most_ns] = [ways_ns[0], ways_ns[ways_ns.len() - 1]];
        println!("{kind:?}: {} of {least_ns} to {most_ns} ns", ways_ns.len());
    }
    // The longest transition is a switch by the guest's scheduler; a kernel does nothing longer
    // without an event. If a kind of transition occurs only once, this is its limit.
    let again = kinds.values().filter(|ways_ns| ways_ns.len() > 1);
    let turn_ns = again.map(|ways_ns| ways_ns[0]).max().unwrap();
    // Time that an exit adds to a window if the host reports the exit: the exit's own length, and
    // the transition to and from it.
    let exit_ns = THRESHOLD_NS + least_ns;
    let bound_ns = |kind: Kind| match (kind, &kinds[&kind][..]) {
        // The host does not record an exit below its threshold.
        ([None, None], _) => THRESHOLD_NS + most_ns,
        (_, [_]) => turn_ns + exit_ns,
        ([None | Some(ActivityKind::Exit), _], ways_ns) => ways_ns[0] + exit_ns,
        // The scheduler may keep the current task, and then fires no event.
        (_, ways_ns) => ways_ns[0] + exit_ns.max(turn_ns),
    };
    let ways = |gap| {
        Gap::ways(gap)
            .into_iter()
            .map(move |(kind, ns)| (gap, kind, ns))
    };
    let ways = gaps.iter().flat_map(ways);
    let ways = ways.map(|(gap, kind, ns)| (gap, kind, ns, bound_ns(kind)));
    ways.filter(|(.., ns, bound_ns)| ns >= bound_ns).collect()
}

/// Asserts that all unexplained time is transitions from one event to the next: into the host, to
/// another thread of the guest, or back to user space. The same recording shows how long these
/// transitions are, because each path through the same code takes the same time, except for
/// branches. If an exit is lost, or an activity is cut short, a window is longer than others of its
/// kind. An error that makes all windows of a kind longer is not found here. For this, `oracle.rs`
/// compares starts and ends of activities with the kernel's own tracer, on the kernel of the
/// machine's own suite.
pub fn assert_explains_all_but_the_ways(joined: &Value, guest: &[Event]) {
    let activities = guest.iter().filter_map(|event| match event {
        Event::Activity(activity) => Some(*activity),
        _ => None,
    });
    let activities: Vec<Activity> = activities.collect();
    let trees = joined["trees"].as_array().unwrap();
    let gaps: Vec<Gap> = trees
        .iter()
        .map(|tree| Gap::of(tree, &activities))
        .collect();
    for (tree, gap) in trees.iter().zip(&gaps) {
        let ways_ns: u64 = gap.ways().iter().map(|(_, ns)| ns).sum();
        let [residual_ns, steal_ns] = ["residual_ns", "steal_ns"].map(|key| number(&tree[key]));
        // Steal time has no position, so it may be part of a window or of an activity.
        let reported_ns = residual_ns..=residual_ns + steal_ns;
        assert!(reported_ns.contains(&ways_ns), "{ways_ns} ns: {tree}");
    }
    let too_long = too_long(&gaps);
    assert!(too_long.is_empty(), "{too_long:#?}");
}

/// Returns gaps that contain only an exit, a tick, or a tick and a thread. Their times are similar
/// to those of Linux 6.12.
fn ticks() -> Vec<Gap> {
    use ActivityKind::{Exit, Irq, Thread};
    let gaps = (0..10).flat_map(|branch_ns| {
        let exit = (480, 4_000, Exit);
        let irq = (5_080 + branch_ns, 13_000, Irq);
        let rearms = (8_000, 12_000, Exit);
        let thread = (14_800 + 10 * branch_ns, 20_000, Thread);
        [
            (vec![exit], 4_700 + branch_ns),
            (vec![exit, irq, rearms], 13_610),
            (vec![exit, irq, rearms, thread], 21_400 + branch_ns),
        ]
    });
    gaps.map(|(spans, dur_ns)| Gap { dur_ns, spans }).collect()
}

#[test]
fn a_turn_of_a_thread_may_take_longer_than_an_exit() {
    assert_eq!(too_long(&ticks()).len(), 0);
}

#[test]
fn a_lost_exit_is_noticed() {
    let ticks = ticks();
    for lost in [0, 1, 2, 27, 28, 29] {
        let mut ticks = ticks.clone();
        ticks[lost].spans.remove(0);
        assert_eq!(too_long(&ticks).len(), 1, "{lost}");
    }
}

#[test]
fn a_thread_that_is_cut_short_is_noticed() {
    for (begins_ns, ends_ns) in [(2_500, 0), (0, 2_500)] {
        let mut ticks = ticks();
        let (start_ns, end_ns, _) = &mut ticks[14].spans[3];
        (*start_ns, *end_ns) = (*start_ns + begins_ns, *end_ns - ends_ns);
        assert_eq!(too_long(&ticks).len(), 1, "{begins_ns} {ends_ns}");
    }
}
