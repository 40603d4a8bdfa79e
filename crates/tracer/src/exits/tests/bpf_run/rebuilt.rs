//! Tests of switches that fire no event. The handler of the next event on the CPU rebuilds such a
//! switch from the scheduler's data, so that no time is lost.

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

/// Task other than `TASK`.
const OTHER: u64 = 8;

/// Returns whether the handler of this event checks which task has the CPU.
fn checks_who_runs(it: &Moment) -> bool {
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

/// Returns whether the handler of this event runs for the CPU of the event. A wake-up or migration
/// concerns a vCPU, and its handler does not check which task has the CPU.
fn is_done_there(it: &Moment) -> bool {
    !matches!(it.what, What::Waking(_) | What::Migrate(..))
}

/// Hides some switches away from tasks that are not vCPUs. Adds a rebuilt switch at the next event
/// of the same CPU. The bits of `which` choose the switches, never two in a row on a CPU. Returns
/// the reported events and the number of hidden switches.
fn hide(life: &[Moment], which: u64) -> (Vec<Moment>, u32) {
    let (mut reported, mut hidden) = (Vec::new(), 0);
    let mut switch = [None; CPUS as usize];
    let mut is_known = [false; CPUS as usize];
    for (place, it) in life.iter().enumerate() {
        let cpu = it.cpu as usize;
        if is_done_there(it)
            && let Some((prev, next, at)) = switch[cpu].take()
        {
            let what = What::HiddenSwitch(prev, next, at);
            reported.push(Moment { what, ..*it });
            is_known[cpu] = false;
        }
        let may_be_hidden = || {
            let mut later = life[place + 1..].iter();
            let next = later.find(|next| next.cpu == it.cpu && is_done_there(next));
            next.is_some_and(checks_who_runs)
        };
        match it.what {
            What::Switch(prev, next, _)
                if prev < VCPU
                    && is_known[cpu]
                    && which.rotate_right(place as u32).is_multiple_of(2)
                    && may_be_hidden() =>
            {
                switch[cpu] = Some((prev, next, it.at));
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
        // Another CPU may have read this CPU's work between the hidden and the rebuilt switch. In
        // this case the handlers count a loss.
        let is_all = handlers.unpaired() == before;
        whole.set(whole.get() + u32::from(hidden > 0 && is_all));
        match is_all {
            true => {
                result.map_err(|it| TestCaseError::fail(format!("{it}\n{reported:#?}\n{life:#?}")))
            }
            false => Ok(()),
        }
    });
    // More than a third of the lives must have a hidden switch and no loss.
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
fn a_rebuilt_switch_is_counted_as_painted() {
    hold(&Handlers::new());
}

#[test]
fn a_rebuilt_switch_is_counted_as_painted_where_only_kvm_run_is_seen() {
    hold(&Handlers::kvm_run_only());
}

/// The vCPU waits from 2100 to 5000. In the first case, `TASK` has the CPU in this time, and its
/// departure fires no event. In the second case, the switch from `TASK` to `OTHER` at 3000 fires no
/// event.
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
            handlers.run("hidden_switch", 0, 4_500, &[TASK, 3_000, 3_000, other]);
            handlers.run("switch", 0, 5_000, &[0, SLEEPS, other, VCPU]);
            named = vec![
                ("task:7".to_owned(), 2_100, 3_000),
                ("task:8".to_owned(), 3_000, 5_000),
            ];
        } else {
            handlers.run("hidden_switch", 0, 6_000, &[TASK, 5_000, 5_000, VCPU]);
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

/// `TASK` left long before the vCPU came. Unknown tasks had the CPU in between, so `TASK` is blamed
/// only until its departure.
#[test]
fn between_a_departure_and_an_arrival_others_may_have_run() {
    let handlers = Handlers::new();
    handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
    handlers.run("exit", 0, 2_000, &[VCPU, 0x72, 0x1]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    handlers.run("hidden_switch", 0, 200_000, &[TASK, 3_000, 150_000, VCPU]);
    handlers.run("entry", 0, 200_000, &[VCPU]);
    assert_eq!(handlers.vcpu(1).split[Share::Preempted], 147_900);
    assert_eq!(handlers.unpaired(), 0);
    let activities = handlers.activities();
    let reported: Vec<_> = activities.iter().map(|it| (it.2, it.3)).collect();
    assert_eq!(reported, [(2_100, 3_000)]);
}

/// Four kinds of switches are not rebuilt: a departure of a vCPU's thread, an unknown arrival, an
/// arrival before the last seen switch, and an arrival after the event that rebuilds.
#[test]
fn a_switch_that_cannot_be_rebuilt_stays_lost() {
    for (seen, switch) in [
        ([1, 0, VCPU, TASK], [TASK, 0, 0, VCPU]),
        ([1, 0, VCPU, TASK], [TASK, 1_900, 1_900, VCPU]),
        ([0, SLEEPS, VCPU, IDLE], [IDLE, 0, 9_000, VCPU]),
    ] {
        let handlers = Handlers::new();
        handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
        handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
        handlers.run("exit", 0, 2_000, &[VCPU, 0x72, 0x1]);
        handlers.run("switch", 0, 2_100, &seen);
        handlers.run("hidden_switch", 0, 6_000, &switch);
        handlers.run("entry", 0, 6_000, &[VCPU]);
        assert_eq!(handlers.unpaired(), 1);
    }
    let handlers = Handlers::new();
    handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
    handlers.run("hidden_switch", 0, 3_000, &[VCPU, 2_000, 2_000, TASK]);
    handlers.run("switch", 0, 3_000, &[0, SLEEPS, TASK, VCPU]);
    assert_eq!(handlers.unpaired(), 1);
}
