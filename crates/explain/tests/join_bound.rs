//! Tests that a time that is too short for the error bound of the clock gets no culprit of the
//! host. A clock that is wrong by less than its bound would name the culprit of a neighbouring gap.

use crate::streams::clocks::Dice;
use crate::streams::joins::{ALL, join, obeys_the_law};
use crate::streams::pairs::{RecordedPair, RecordingPlan};
use crate::streams::vcpus::{ExitScene, INTR, exit_of, vcpu};
use crate::streams::{anchor, finish, gap, source};
use vmnoise_events::*;
use vmnoise_explain::{JoinedRun, Pairs};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Error of the recorded clock.
const OFF_NS: u64 = 50 * US;
/// Time between the starts of short gaps. With a wrong clock, each short gap meets the exit of its
/// neighbour.
const APART_NS: u64 = OFF_NS;
/// Number of short gaps in each round.
const SHORT: u64 = 4;
const ROUNDS: u64 = 30;
const WHO: [&str; SHORT as usize] = ["a:1", "b:2", "c:3", "d:4"];

/// Returns the start of each round. With these starts, no other offset of the clock fits as well.
fn rounds() -> impl Iterator<Item = u64> {
    let mut dice = Dice(7);
    (0..ROUNDS).map(move |round| 200 * MS + round * 40 * MS + dice.roll(0, 30 * MS))
}

/// Returns an exit in which this task had the CPU.
fn preempted(start_ns: u64, end_ns: u64, name: &str) -> ExitScene {
    ExitScene::new(INTR, start_ns, end_ns)
        .kept(VcpuIntervalKind::Waiting, start_ns + 100, end_ns - 100)
        .host(1, ActivityKind::Thread, name, start_ns + 100, end_ns - 100)
}

/// Returns the recordings of a guest and its host, whose true clocks are equal. The recorded offset
/// is wrong by `off_ns`. Each round has a long gap, whose exit could lie 60 us earlier or later. It
/// also has `short(round)` short gaps, each with an exit of another task. These exits take 4.6 us.
/// The guest observes gaps from `threshold_ns` on.
fn recorded(off_ns: i64, threshold_ns: u64, short: impl Fn(usize) -> u64) -> RecordedPair {
    let plain = RecordingPlan::plain().record();
    let mut guest_facts = plain.guest_facts;
    guest_facts.options.threshold_ns = threshold_ns;
    let (mut of_guest, mut of_host) = (Vec::new(), Vec::new());
    let mut observed = |start_ns, end_ns| {
        let gap = Gap {
            cpu: 0,
            ..gap(start_ns, end_ns)
        };
        of_guest.push((end_ns, Event::Gap(gap)));
    };
    let mut report = |scene: ExitScene, source: u32| {
        let activity = Activity {
            source: SourceId(source),
            ..scene.activities[0]
        };
        of_host.push((activity.end_mono_ns, Event::Activity(activity)));
        let waited = Event::VcpuInterval(scene.intervals[0]);
        of_host.push((activity.end_mono_ns, waited));
        let exit = Exit {
            end_mono_ns: scene.end_ns,
            split: ShareMap::from([
                (Share::Preempted, scene.end_ns - scene.start_ns - 200),
                (Share::Kvm, 200),
            ]),
            ..ExitScene::new(INTR, scene.start_ns, scene.start_ns).exit()
        };
        of_host.push((scene.end_ns, exit_of(0, exit)));
    };
    for (round, at_ns) in rounds().enumerate() {
        observed(at_ns, at_ns + 400 * US);
        report(preempted(at_ns + 60 * US, at_ns + 340 * US, "long:9"), 4);
        for short in 0..short(round) {
            let at_ns = at_ns + MS + short * APART_NS;
            observed(at_ns, at_ns + 5 * US);
            let who = short % SHORT;
            let exit = preempted(at_ns + 200, at_ns + 4_800, WHO[who as usize]);
            report(exit, who as u32);
        }
    }
    let names = (0..).zip(WHO.into_iter().chain(["long:9"]));
    let mut host: Vec<Event> = names.map(|(id, name)| source(id, name)).collect();
    host.push(Event::Vcpu(vcpu(0)));
    host.push(Event::VcpuClock(VcpuClock {
        vcpu: VcpuId(0),
        before_until_mono_ns: 0,
        from_mono_ns: 0,
        offset_tsc: off_ns,
        ratio: 1,
        ratio_frac_bits: 0,
    }));
    let tally = |at_ns| {
        Event::Tally(CpuTally {
            cpu: 0,
            first_tsc: 100 * MS,
            last_tsc: at_ns,
            ..CpuTally::default()
        })
    };
    RecordedPair {
        guest_facts,
        guest: drained(Vec::new(), of_guest, &|at_ns| Some(tally(at_ns))),
        host_facts: plain.host_facts,
        host: drained(host, of_host, &|_| None),
        lives: Vec::new(),
    }
}

/// Returns a stream that is drained every 20 ms.
fn drained(
    first: Vec<Event>,
    mut reported: Vec<(u64, Event)>,
    tally: &dyn Fn(u64) -> Option<Event>,
) -> Vec<Event> {
    reported.sort_by_key(|(end_ns, event)| (*end_ns, matches!(event, Event::Exit(_))));
    let mut reported = reported.into_iter().peekable();
    let mut events = first;
    for at_ns in (100 * MS..=1_600 * MS).step_by(20 * MS as usize) {
        events.push(anchor(at_ns));
        events.extend(tally(at_ns));
        while let Some((_, event)) = reported.next_if(|(end_ns, _)| *end_ns <= at_ns) {
            events.push(event);
        }
        events.push(Event::Watermark(at_ns));
    }
    events.push(finish());
    events
}

fn joined(off_ns: u64) -> (u64, JoinedRun) {
    let pair = recorded(off_ns as i64, 4_800, |_| SHORT);
    let pairs: Pairs = pair
        .matched()
        .expect("the data cannot tell the two clocks apart");
    let bound_ns = pairs.bound_ns(0).expect("it is paired");
    let guest = (&pair.guest_facts, &pair.guest[..]);
    let host = (&pair.host_facts, &pair.host[..]);
    let run = join(guest, host, pairs, ALL);
    obeys_the_law(&run);
    (bound_ns, run)
}

fn is_hosts(share: Share) -> bool {
    !share.is_residual() && share != Share::Steal
}

#[test]
fn a_clock_that_is_off_by_less_than_its_bound_names_no_neighbour() {
    for off_ns in [OFF_NS, 0] {
        let (bound_ns, run) = joined(off_ns);
        // The exits of long gaps have 60 us on either side. The exits of short gaps are not tested.
        let room_ns = 60 * US + off_ns;
        assert!((room_ns..room_ns + 100).contains(&bound_ns), "{bound_ns}");
        let (short, long): (Vec<_>, Vec<_>) =
            run.trees.iter().partition(|tree| tree.of.dur_ns == 5 * US);
        assert_eq!(
            (short.len() as u64, long.len() as u64),
            (ROUNDS * SHORT, ROUNDS)
        );
        for tree in short {
            assert!(tree.stretches[0].exits.is_empty(), "{tree:?}");
            assert!(
                !tree.of.parts.iter().any(|part| is_hosts(part.share)),
                "{tree:?}"
            );
            assert_ne!(tree.residual, Share::Hw, "{tree:?}");
        }
        // At least half of each named time is in the gap for every clock within the bound.
        for tree in long {
            let named = tree
                .of
                .parts
                .iter()
                .find(|part| part.share == Share::Preempted);
            let named = named.expect("it is long enough");
            assert_eq!(named.source.as_deref(), Some("long:9"));
        }
        let joined = &run.joined;
        // The first gap is long and begins before the first exit. The last gap is short and ends
        // after the last exit. The host did not see the vCPU there. With the wrong clock, the last
        // gap ends earlier.
        let unseen = u64::from(off_ns == 0);
        let (long, short) = (ROUNDS - 1, ROUNDS * SHORT - unseen);
        assert_eq!(joined.witnessed, long + short);
        assert_eq!(joined.unsure.count, short);
        assert_eq!(joined.unsure.ns, short * 5 * US);
        assert_eq!(joined.unsure.exits, 0);
        assert_eq!(joined.witnessed_ns, (short * 5 + long * 400) * US);
        // The short gaps are unexplained, and so is the time of the long gaps outside of their
        // exits.
        let unexplained_ns = (short * 5 + long * 120) * US;
        assert_eq!(joined.witnessed_unexplained_ns, unexplained_ns);
    }
}

/// The gaps of one round form a train. A clock that is off by one step maps all exits of the train
/// but the last to gaps. Too few exits contradict this clock, so the bound must include it.
#[test]
fn a_train_of_gaps_does_not_hide_how_far_a_clock_is_off() {
    let step_ns = APART_NS as i64;
    let train = |round| if round == 15 { 20 } else { 0 };
    let bound_ns = |off_ns| {
        let pairs = recorded(off_ns, US, train).matched();
        println!(
            "off by {off_ns} ns: {:?}",
            pairs.as_ref().map(|it| it.bound_ns(0))
        );
        pairs.ok()?.bound_ns(0)
    };
    for off_ns in [-step_ns, step_ns] {
        let bound_ns = bound_ns(off_ns);
        assert!(bound_ns.is_none_or(|ns| ns >= off_ns.unsigned_abs()));
    }
    // With the right clock, no exit contradicts; with any other clock, one does.
    let right_ns = bound_ns(0).expect("it is right");
    assert!(right_ns < 300, "{right_ns}");
}
