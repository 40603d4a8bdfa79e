//! Random lives in which switches are hidden and ends of interrupts are lost. No count may exceed
//! the painter's count for the whole life. If a count is smaller, a loss must be counted.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use vmnoise_events::{ActivityKind, Event, Share, ShareMap, SourceId};

use super::harness::{Handlers, IDLE, SLEEPS, TASK, VCPU};
use super::moment::{Moment, What};
use super::painted::{Painted, paint};
use super::{life, lives};

/// Names of sources. Each source is defined only once for all lives.
type Names = BTreeMap<SourceId, String>;

/// Kind of lost events: departures of vCPUs. The other kinds are arrivals of vCPUs, and ends of
/// interrupts. A life loses events of only one kind, as on machines that hide some switches.
const DEPARTURES: u8 = 0;
const ARRIVALS: u8 = 1;
const ENDS: u8 = 2;

fn is_vcpu(tid: u64) -> bool {
    tid >= VCPU
}

/// Returns whether this event may be lost. A switch between two vCPUs is never lost, because only
/// switches show which vCPU an exit belongs to.
fn may_be_lost(it: &Moment, losses: u8) -> bool {
    match it.what {
        What::Switch(prev, next, _) if losses == DEPARTURES => is_vcpu(prev) && !is_vcpu(next),
        What::Switch(prev, next, _) if losses == ARRIVALS => !is_vcpu(prev) && is_vcpu(next),
        What::IrqExit | What::SoftirqExit => losses == ENDS,
        _ => false,
    }
}

fn is_of(it: &Moment, tid: u64) -> bool {
    match it.what {
        What::Switch(prev, next, _) => prev == tid || next == tid,
        What::Halted(of, ..) | What::Exit(of, _) => of == tid,
        What::RunLeave(of) | What::RunEnter(of) | What::Entry(of) => of == tid,
        _ => false,
    }
}

/// Returns how much a share of this vCPU may exceed the painter's share, in ns. A vCPU that came
/// back without an event counts as away until its next event at most. Between the seen switches of
/// a CPU, it is unknown whether the CPU idled. For a reader on another CPU, an interrupt without an
/// end continues. If a CPU idles at the end of a wait, all time since the wake-up counts as sleep.
fn at_most_ns(lost: &[Moment], reported: &[Moment], tid: u64) -> u64 {
    let (first, end) = (reported[0].at, reported[reported.len() - 1].at);
    let from = |it: &Moment| {
        let next = |is: &dyn Fn(&&Moment) -> bool| {
            let mut later = reported.iter().filter(|next| next.at > it.at);
            later.find(|it| is(it)).map_or(end, |next| next.at)
        };
        let seen = next(&|next| next.cpu == it.cpu && matches!(next.what, What::Switch(..)));
        let until = match is_of(it, tid) {
            true => seen.max(next(&|next| is_of(next, tid))),
            false => seen,
        };
        let before = reported
            .iter()
            .rev()
            .filter(|before| before.cpu == it.cpu && before.at < it.at);
        let mut before = before.filter(|it| matches!(it.what, What::Switch(..)));
        let since = before.next().map_or(first, |before| before.at);
        let mut woken = reported.iter().rev().filter(|woken| woken.at < it.at);
        let woken = woken.find(|it| matches!(it.what, What::Waking(of) if of == tid));
        let since = match (it.what, woken) {
            (What::Switch(IDLE, ..) | What::Switch(_, IDLE, _), Some(woken)) => since.min(woken.at),
            _ => since,
        };
        until.saturating_sub(since)
    };
    lost.iter().map(from).sum()
}

/// Returns whether the thread had this CPU between the two times, in the whole life.
fn ran(life: &[Moment], cpu: u64, tid: u64, from: u64, to: u64) -> bool {
    let switches = life.iter().filter(|it| it.cpu == cpu);
    // Until its first switch, the CPU has the task that leaves at this switch. Without a switch, it
    // has its vCPU all the time.
    let mut has_it = tid == VCPU + cpu;
    for it in switches {
        if let What::Switch(prev, next, _) = it.what {
            if it.at >= to {
                return prev == tid;
            }
            if it.at > from {
                return false;
            }
            has_it = next == tid;
        }
    }
    has_it
}

fn learn(names: &mut Names, reported: &[Event]) {
    for event in reported {
        if let Event::Source(source) = event {
            names.insert(source.id, source.name.to_string());
        }
    }
}

fn nobody_is_blamed_who_did_not_run(
    names: &mut Names,
    reported: &[Event],
    life: &[Moment],
) -> TestCaseResult {
    learn(names, reported);
    for event in reported {
        let Event::Activity(it) = event else { continue };
        if it.kind != ActivityKind::Thread {
            continue;
        }
        let name = &names[&it.source];
        let tid: u64 = name.rsplit(':').next().unwrap().parse().unwrap();
        let (from, to) = (it.start_mono_ns, it.end_mono_ns);
        let ran = ran(life, it.cpu.into(), tid, from, to);
        prop_assert!(ran, "{name} did not run: {it:?}");
    }
    Ok(())
}

/// Returns the painter's total split, and the remaining time of the guest. If exits are not seen,
/// this time includes KVM's time.
fn whole(painted: &Painted) -> (ShareMap<u64>, u64) {
    let exits = painted.exits.iter().map(|it| it.split);
    let splits: Vec<_> = exits.chain([painted.inside_run]).collect();
    let split = ShareMap::only(Share::OF_EXITS, |share| {
        splits.iter().map(|it| it[share]).sum()
    });
    let span_ns = painted.last_mono_ns - painted.first_mono_ns;
    (split, span_ns - split.total() - painted.unseen_ns)
}

fn holds(
    handlers: &Handlers,
    names: &mut Names,
    life: &[Moment],
    reported: &[Moment],
    lost: &[Moment],
) -> TestCaseResult {
    // The last switches of the previous life are reported here.
    learn(names, &handlers.live(&[]));
    let unpaired_before = handlers.unpaired();
    let events = handlers.live(reported);
    nobody_is_blamed_who_did_not_run(names, &events, life)?;
    for event in &events {
        if let Event::Exit(reported) = event {
            prop_assert_eq!(
                reported.exit.split.total(),
                reported.exit.dur_ns(),
                "{:?}",
                reported
            );
        }
    }
    let mut is_all = true;
    for (place, tid) in handlers.known_vcpus().into_iter().enumerate() {
        let counted = handlers.counted(place as u32 + 1);
        let painted = paint(life, tid.into(), handlers.sees_kvm_run_only());
        let (split, guest_ns) = whole(&painted);
        prop_assert_eq!(counted.first_mono_ns, painted.first_mono_ns);
        prop_assert_eq!(counted.last_mono_ns, painted.last_mono_ns);
        let span_ns = counted.last_mono_ns - counted.first_mono_ns;
        let known_ns = counted.split.total() + counted.unseen_ns;
        prop_assert!(known_ns <= span_ns, "{counted:#?}");
        let more_ns = at_most_ns(lost, reported, tid.into());
        let ends_ns = match lost.first().map(|it| it.what) {
            Some(What::IrqExit | What::SoftirqExit) => {
                split[Share::HostIrq] + split[Share::HostSoftirq]
            }
            _ => 0,
        };
        // Unseen time is not the guest's time. Seen time is the guest's time at most. An exception
        // is time that turns out to be in a halt after the state became unknown. Another exception
        // is an interrupt that never ended.
        let counted_guest_ns = span_ns - known_ns;
        prop_assert!(
            counted_guest_ns <= guest_ns + ends_ns + split[Share::Halted],
            "guest {counted_guest_ns} of {guest_ns}: {counted:#?}"
        );
        for (share, ns) in counted.split.iter() {
            // Interrupts without an end count for KVM. Time counts as a halt if the thread reports
            // a halt.
            if matches!(share, Share::Kvm | Share::Halted) {
                continue;
            }
            let most_ns = split[share] + more_ns + ends_ns;
            prop_assert!(ns <= most_ns, "{share}: {ns} of {most_ns}: {counted:#?}");
        }
        is_all &= counted.split == split && counted.unseen_ns == painted.unseen_ns;
    }
    leave_all(handlers, life);
    let unpaired = handlers.unpaired() - unpaired_before;
    prop_assert!(is_all || unpaired > 0, "no loss is counted");
    Ok(())
}

/// Makes the current task leave each CPU. The handlers then count interrupts without an end, and
/// tasks that came without an event.
pub(super) fn leave_all(handlers: &Handlers, life: &[Moment]) {
    let last = life.last().map_or(0, |it| it.at);
    for cpu in 0..life::CPUS {
        let leaves = last_on(life, cpu);
        handlers.run("switch", cpu, last + 1, &[0, SLEEPS, leaves, TASK]);
    }
}

/// Returns the task that has this CPU at the end. Two CPUs begin with the thread of a vCPU.
fn last_on(life: &[Moment], cpu: u64) -> u64 {
    let switches = life.iter().rev().filter(|it| it.cpu == cpu);
    let mut next = switches.filter_map(|it| match it.what {
        What::Switch(_, next, _) => Some(next),
        _ => None,
    });
    next.next().unwrap_or(VCPU + cpu)
}

fn hold(handlers: &Handlers) {
    let kvm_run_only = handlers.sees_kvm_run_only();
    let names = RefCell::default();
    let lives = (
        any::<u64>(),
        0_u8..3,
        lives::choices(0..80, false),
        any::<u64>(),
    );
    lives::hold(10_000, &lives, |(begins, losses, choices, which)| {
        let life = life::live(begins, &choices, kvm_run_only);
        let mut nth = 0;
        // Before the first seen switch of a CPU, a hidden switch cannot be noticed.
        let mut known = [false; life::CPUS as usize];
        let (lost, reported): (Vec<Moment>, Vec<Moment>) = life.iter().copied().partition(|it| {
            let known = &mut known[it.cpu as usize];
            let may = *known && may_be_lost(it, losses);
            *known |= matches!(it.what, What::Switch(..));
            nth += u32::from(may);
            may && which.rotate_right(nth).is_multiple_of(2)
        });
        let result = holds(handlers, &mut names.borrow_mut(), &life, &reported, &lost);
        result.map_err(|it| TestCaseError::fail(format!("{it}\nlost {lost:#?}\n{life:#?}")))
    });
}

#[test]
fn what_is_hidden_is_reported_and_blames_nobody() {
    hold(&Handlers::new());
}

#[test]
fn what_is_hidden_is_reported_and_blames_nobody_where_only_kvm_run_is_seen() {
    hold(&Handlers::kvm_run_only());
}
