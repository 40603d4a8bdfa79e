//! Helpers that join a few exits with a few gaps.

use vmnoise_events::*;
use vmnoise_explain::JoinedRun;

use super::joined_scenes::{AT, guest_stream, host_stream};
use super::joins::{ALL, join, obeys_the_law, plain};
use super::vcpus::{ExitScene, INTR};
use ActivityKind::{Irq, Thread};

pub fn gap(from: u64, to: u64) -> Gap {
    Gap {
        cpu: 0,
        ..super::gap(AT + from, AT + to)
    }
}

/// Returns an activity of the guest's kernel. Sources 0 to 2 are `g0` to `g2`.
pub fn own(kind: ActivityKind, from: u64, to: u64, source: u32) -> Activity {
    Activity {
        cpu: 0,
        kind,
        start_mono_ns: AT + from,
        end_mono_ns: AT + to,
        source: SourceId(source),
        steal_ns: 0,
    }
}

/// Returns these scenes, one after the other on one host, with times that begin at [`AT`]. All
/// scenes get the names and the activities of all others.
pub fn at(scenes: Vec<ExitScene>) -> Vec<ExitScene> {
    let mut names: Vec<String> = Vec::new();
    let mut scenes: Vec<ExitScene> = scenes.into_iter().map(|it| it.later(0, AT)).collect();
    for scene in &mut scenes {
        let of_scene = std::mem::take(&mut scene.names);
        let mut id_of = |id: SourceId| {
            let name = &of_scene[id.0 as usize];
            let known = names.iter().position(|known| known == name);
            let place = known.unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            SourceId(place as u32)
        };
        let of_activities = scene.activities.iter_mut().map(|it| &mut it.source);
        let of_kept = scene.intervals.iter_mut().flat_map(|it| &mut it.source);
        of_activities.chain(of_kept).for_each(|id| *id = id_of(*id));
    }
    let host: Vec<Activity> = scenes.iter().flat_map(|it| it.activities.clone()).collect();
    for scene in &mut scenes {
        scene.names.clone_from(&names);
        scene.activities.clone_from(&host);
    }
    scenes
}

/// Returns an exit for a timer interrupt. A task of the host runs before the guest continues.
pub fn preempted() -> ExitScene {
    ExitScene::new(INTR, 2_000, 8_000)
        .host(1, Irq, "local_timer:236", 2_000, 2_500)
        .kept(VcpuIntervalKind::Waiting, 3_000, 7_000)
        .host(1, Thread, "hog:77", 3_000, 7_000)
}

pub fn run_with(
    change: impl FnOnce(&mut RunFacts, &mut RunFacts),
    guest: &[Event],
    host: &[Event],
) -> JoinedRun {
    let (mut guest_facts, mut host_facts, pairs) = plain();
    change(&mut guest_facts, &mut host_facts);
    let run = join((&guest_facts, guest), (&host_facts, host), pairs, ALL);
    obeys_the_law(&run);
    run
}

pub fn run(gaps: &[Gap], activities: &[Activity], scenes: Vec<ExitScene>) -> JoinedRun {
    let guest = guest_stream(gaps, activities, &[]);
    run_with(|_, _| {}, &guest, &host_stream(&at(scenes), &[]))
}

pub fn parts(run: &JoinedRun, place: usize) -> Vec<(Share, Option<&str>, u64)> {
    let parts = run.trees[place].of.parts.iter();
    parts
        .map(|it| (it.share, it.source.as_deref(), it.ns))
        .collect()
}
