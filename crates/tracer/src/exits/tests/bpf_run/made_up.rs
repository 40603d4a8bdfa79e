//! Switches that fired no event, of which the scheduler's own books tell: they are made up for at the next event of
//! that CPU, and nothing is lost.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use vmnoise_events::{ActivityKind, Share, ShareMap};

use super::harness::{Handlers, IDLE, SLEEPS, TASK, VCPU};
use super::hidden::leave_all;
use super::life::{self, CPUS};
use super::lives;
use super::moment::{Moment, What};
use super::oracle::counted_as_painted;
use super::painted::paint;

/// Another task.
const OTHER: u64 = 8;

/// Where it is looked at who has the CPU.
fn looks(it: &Moment) -> bool {
    matches!(
        it.what,
        What::IrqEntry
            | What::SoftirqEntry
            | What::Switch(..)
            | What::Halted(..)
            | What::RunLeave(_)
            | What::RunEnter(_)
            | What::Exit(..)
            | What::Entry(_)
    )
}

/// Whether it is done on the CPU of this event, and not only said of it.
fn is_done_there(it: &Moment) -> bool {
    !matches!(it.what, What::Waking(_) | What::Migrate(..))
}

/// The life without some departures of tasks that are no vCPUs, as the bits of `which` choose, and with what is told
/// of each at the next event of its CPU; how many there are. No two of a CPU come one after the other.
fn hide(life: &[Moment], which: u64) -> (Vec<Moment>, u32) {
    let (mut reported, mut hidden) = (Vec::new(), 0);
    let mut untold = [None; CPUS as usize];
    let mut is_known = [false; CPUS as usize];
    for (place, it) in life.iter().enumerate() {
        let cpu = it.cpu as usize;
        if is_done_there(it)
            && let Some((prev, next, at)) = untold[cpu].take()
        {
            let what = What::Untold(prev, next, at);
            reported.push(Moment { what, ..*it });
            is_known[cpu] = false;
        }
        let may_be_hidden = || {
            let mut later = life[place + 1..].iter();
            let next = later.find(|next| next.cpu == it.cpu && is_done_there(next));
            next.is_some_and(looks)
        };
        match it.what {
            What::Switch(prev, next, _)
                if prev < VCPU
                    && is_known[cpu]
                    && which.rotate_right(place as u32).is_multiple_of(2)
                    && may_be_hidden() =>
            {
                untold[cpu] = Some((prev, next, it.at));
                hidden += 1;
                continue;
            }
            What::Switch(..) => is_known[cpu] = true,
            _ => {}
        }
        reported.push(*it);
    }
    (reported, hidden)
}

fn hold(handlers: &Handlers) {
    const LIVES: u32 = 10_000;
    let kvm_run_only = handlers.sees_kvm_run_only();
    let whole = Cell::new(0);
    let lives = (any::<u64>(), lives::choices(0..80, false), any::<u64>());
    lives::hold(LIVES, &lives, |(begins, choices, which)| {
        let life = life::live(begins, &choices, kvm_run_only);
        let (reported, hidden) = hide(&life, which);
        let before = handlers.unpaired();
        handlers.live(&reported);
        let result = as_painted(handlers, &life, kvm_run_only);
        leave_all(handlers, &life);
        // Whoever looked from another CPU did not know whether that idled, or ended what was told of who ran there.
        let is_all = handlers.unpaired() == before;
        whole.set(whole.get() + u32::from(hidden > 0 && is_all));
        match is_all {
            true => result.map_err(|it| TestCaseError::fail(format!("{it}\n{reported:#?}\n{life:#?}"))),
            false => Ok(()),
        }
    });
    // Of three lives at least one has a switch to hide, and nobody who looks meanwhile.
    assert!(whole.get() > LIVES / 3, "{whole:?} of {LIVES}");
}

fn as_painted(handlers: &Handlers, life: &[Moment], kvm_run_only: bool) -> TestCaseResult {
    for (place, tid) in handlers.known_vcpus().into_iter().enumerate() {
        let painted = paint(life, tid.into(), kvm_run_only);
        counted_as_painted(&handlers.counted(place as u32 + 1), &painted)?;
    }
    Ok(())
}

#[test]
fn what_is_told_late_is_counted_as_painted() {
    hold(&Handlers::new());
}

#[test]
fn what_is_told_late_is_counted_as_painted_where_only_kvm_run_is_seen() {
    hold(&Handlers::kvm_run_only());
}

/// The vCPU waits from 2100 for a task that leaves unseen at 5000, when the vCPU comes, or another task until then.
#[test]
fn a_wait_ends_when_its_thread_came_and_each_who_had_the_cpu_is_named() {
    for (until, other) in [(5_000, None), (5_000, Some(OTHER))] {
        let handlers = Handlers::new();
        handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
        handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
        handlers.run("exit", 0, 2_000, &[VCPU, 0x72, 0x1]);
        handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
        let mut named = vec![("task:7".to_owned(), 2_100, until)];
        if let Some(other) = other {
            handlers.run("untold", 0, 4_500, &[TASK, 3_000, 3_000, other]);
            handlers.run("switch", 0, 5_000, &[0, SLEEPS, other, VCPU]);
            named = vec![
                ("task:7".to_owned(), 2_100, 3_000),
                ("task:8".to_owned(), 3_000, 5_000),
            ];
        } else {
            handlers.run("untold", 0, 6_000, &[TASK, 5_000, 5_000, VCPU]);
        }
        handlers.run("entry", 0, 6_000, &[VCPU]);
        let expected = ShareMap::from([(Share::Kvm, 1_100), (Share::Preempted, 2_900)]);
        assert_eq!(handlers.vcpu(1).split, expected);
        assert_eq!(handlers.unpaired(), 0);
        let activities = handlers.activities().into_iter();
        let threads = activities.filter(|it| it.0 == ActivityKind::Thread);
        let threads: Vec<_> = threads.map(|it| (it.4, it.2, it.3)).collect();
        assert_eq!(threads, named);
    }
}

/// A task that has left for long is not told to have run until another one came.
#[test]
fn between_a_departure_and_an_arrival_others_may_have_run() {
    let handlers = Handlers::new();
    handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
    handlers.run("exit", 0, 2_000, &[VCPU, 0x72, 0x1]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    handlers.run("untold", 0, 200_000, &[TASK, 3_000, 150_000, VCPU]);
    handlers.run("entry", 0, 200_000, &[VCPU]);
    assert_eq!(handlers.vcpu(1).split[Share::Preempted], 147_900);
    assert_eq!(handlers.unpaired(), 0);
    let activities = handlers.activities();
    let told: Vec<_> = activities.iter().map(|it| (it.2, it.3)).collect();
    assert_eq!(told, [(2_100, 3_000)]);
}

/// Nor is anything made up of a vCPU's own departure, of an arrival that is not known, or of one before the last
/// switch that was seen.
#[test]
fn what_is_not_known_stays_lost() {
    for (seen, untold) in [
        ([1, 0, VCPU, TASK], [TASK, 0, 0, VCPU]),
        ([1, 0, VCPU, TASK], [TASK, 1_900, 1_900, VCPU]),
        ([0, SLEEPS, VCPU, IDLE], [IDLE, 0, 9_000, VCPU]),
    ] {
        let handlers = Handlers::new();
        handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
        handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
        handlers.run("exit", 0, 2_000, &[VCPU, 0x72, 0x1]);
        handlers.run("switch", 0, 2_100, &seen);
        handlers.run("untold", 0, 6_000, &untold);
        handlers.run("entry", 0, 6_000, &[VCPU]);
        assert_eq!(handlers.unpaired(), 1);
    }
    let handlers = Handlers::new();
    handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
    handlers.run("untold", 0, 3_000, &[VCPU, 2_000, 2_000, TASK]);
    handlers.run("switch", 0, 3_000, &[0, SLEEPS, TASK, VCPU]);
    assert_eq!(handlers.unpaired(), 1);
}
