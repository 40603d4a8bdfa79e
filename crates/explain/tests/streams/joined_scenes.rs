//! Random scenes of a guest and its host, on clocks that show ideal time. They contain exits of
//! vCPU 0, and the work of the guest's kernel on CPU 0.

use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;

use super::any_scenes::any_scene;
use super::vcpus::{ExitScene, exit_of, vcpu};
use super::{anchor, finish, source};

/// Origin of the times in the scenes, in ns.
pub const AT: u64 = 1_000_000_000;
/// Time from the origin of one scene to the origin of the next, in ns. No exit reaches into the
/// next scene.
pub const APART: u64 = 3_000;
pub const GUEST_NAMES: [&str; 3] = ["g0", "g1", "g2"];

/// Returns exits of vCPU 0 on one host, one after the other.
pub fn exits() -> impl Strategy<Value = Vec<ExitScene>> {
    vec(any_scene(), 0..4).prop_map(|scenes| {
        let scenes = scenes.into_iter().enumerate();
        let later = scenes.map(|(place, scene)| scene.later(0, AT + place as u64 * APART));
        let mut scenes: Vec<ExitScene> = later.collect();
        let host: Vec<Activity> = scenes.iter().flat_map(|it| it.activities.clone()).collect();
        for scene in &mut scenes {
            scene.activities.clone_from(&host);
        }
        scenes
    })
}

/// Returns the events in `first`, and then each reported event at its end. A watermark follows each
/// event that `marks` selects.
fn stream(first: Vec<Event>, mut reported: Vec<(u64, Event)>, marks: &[bool]) -> Vec<Event> {
    reported.sort_by_key(|(end_ns, event)| (*end_ns, matches!(event, Event::Exit(_))));
    let mut events = first;
    for (place, (end_ns, event)) in reported.into_iter().enumerate() {
        events.push(event);
        if marks.get(place) == Some(&true) {
            events.extend([anchor(end_ns), Event::Watermark(end_ns)]);
        }
    }
    events.extend([
        anchor(2_000_000_000),
        Event::Watermark(2_000_000_000),
        finish(),
    ]);
    events
}

/// Returns the host's stream with these exits.
pub fn host_stream(scenes: &[ExitScene], marks: &[bool]) -> Vec<Event> {
    let names = scenes.first().map_or(&[][..], |scene| &scene.names);
    let names = (0..).zip(names).map(|(id, name)| source(id, name));
    let mut reported: Vec<(u64, Event)> = Vec::new();
    let host = scenes.first().map_or(&[][..], |scene| &scene.activities);
    reported.extend(host.iter().map(|it| (it.end_mono_ns, Event::Activity(*it))));
    for scene in scenes {
        let kept = scene.intervals.iter();
        reported.extend(kept.map(|it| (it.end_mono_ns, Event::VcpuInterval(*it))));
        reported.push((scene.end_ns, exit_of(0, scene.exit())));
    }
    stream(
        names.chain([Event::Vcpu(vcpu(0))]).collect(),
        reported,
        marks,
    )
}

/// Returns the guest's stream with these gaps and activities.
pub fn guest_stream(gaps: &[Gap], activities: &[Activity], marks: &[bool]) -> Vec<Event> {
    let gaps = gaps.iter().map(|gap| (gap.end_tsc, Event::Gap(*gap)));
    reported_by_guest(gaps, activities, marks)
}

/// Returns which of the requested marks of a guest's stream are true. By a true mark, every
/// activity that reached into an earlier gap has ended.
pub fn true_marks(gaps: &[Gap], activities: &[Activity], marks: &[bool]) -> Vec<bool> {
    let of_gaps = gaps.iter().map(|gap| gap.end_tsc);
    let ends = of_gaps.chain(activities.iter().map(|it| it.end_mono_ns));
    let mut ends: Vec<u64> = ends.collect();
    ends.sort_unstable();
    let reaches_past = |gap: &Gap, mark: u64| {
        let mut activities = activities.iter();
        activities.any(|it| it.start_mono_ns < gap.end_tsc && it.end_mono_ns > mark)
    };
    let is_true = |mark: u64| {
        let mut over = gaps.iter().filter(|gap| gap.end_tsc <= mark);
        !over.any(|gap| reaches_past(gap, mark))
    };
    let each = ends.into_iter().zip(marks);
    each.map(|(mark, asked)| *asked && is_true(mark)).collect()
}

/// Returns the stream of a guest whose tasks wake up.
pub fn task_stream(wakeups: &[Activation], activities: &[Activity], marks: &[bool]) -> Vec<Event> {
    let wakeups = wakeups.iter();
    let wakeups = wakeups.map(|it| (it.woke_mono_ns, Event::Activation(*it)));
    reported_by_guest(wakeups, activities, marks)
}

fn reported_by_guest(
    observed: impl Iterator<Item = (u64, Event)>,
    activities: &[Activity],
    marks: &[bool],
) -> Vec<Event> {
    let names = (0..).zip(GUEST_NAMES).map(|(id, name)| source(id, name));
    let reported = activities.iter();
    let reported = reported.map(|it| (it.end_mono_ns, Event::Activity(*it)));
    stream(
        names.chain([anchor(100_000_000)]).collect(),
        observed.chain(reported).collect(),
        marks,
    )
}

/// Returns every second piece of the time between these cuts as a gap.
pub fn gaps(mut cuts: Vec<u64>, steal_ns: &[u64]) -> Vec<Gap> {
    cuts.sort_unstable();
    let pieces = cuts.chunks_exact(2).filter(|ends| ends[0] < ends[1]);
    let gaps = pieces
        .zip(steal_ns.iter().cycle())
        .map(|(ends, steal_ns)| Gap {
            cpu: 0,
            steal_ns: *steal_ns,
            ..super::gap(AT + ends[0], AT + ends[1])
        });
    gaps.collect()
}

/// Returns arbitrary work of the guest's kernel.
pub fn guest_activities() -> impl Strategy<Value = Vec<Activity>> {
    let kinds = [
        ActivityKind::Throttled,
        ActivityKind::Thread,
        ActivityKind::Softirq,
        ActivityKind::Irq,
        ActivityKind::Nmi,
    ];
    let one = (0..kinds.len(), 0..12_000_u64, 0..1_500_u64, 0..4_u32);
    let one = one.prop_map(move |(kind, from, len, source)| Activity {
        cpu: 0,
        kind: kinds[kind],
        start_mono_ns: AT + from,
        end_mono_ns: AT + from + len,
        source: SourceId(source),
        steal_ns: 0,
    });
    vec(one, 0..12)
}
