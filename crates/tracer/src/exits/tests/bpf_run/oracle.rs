//! Compares the handlers with the painter: each exit, and all sums.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};
use vmnoise_events::{Event, Exit, Share, ShareMap, VcpuTotals};

use super::harness::{Handlers, VCPU};
use super::life::{self, BRISK};
use super::lives::{self, Choice};
use super::moment::{Left, Moment, What};
use super::painted::{Painted, paint};

fn sum<'a>(exits: impl Iterator<Item = &'a Exit>) -> ShareMap<u64> {
    exits.fold(ShareMap::default(), |mut sum, exit| {
        sum += exit.split;
        sum
    })
}

pub(super) fn counted_as_painted(counted: &VcpuTotals, painted: &Painted) -> TestCaseResult {
    let exits = &painted.exits;
    prop_assert_eq!(counted.exits, exits.len() as u64);
    let heavy = exits.iter().filter(|exit| exit.heavy).count();
    prop_assert_eq!(counted.heavy, heavy as u64);
    let mut all = sum(exits.iter());
    all += painted.inside_run;
    prop_assert_eq!(counted.split, all);
    prop_assert_eq!(counted.unseen_ns, painted.unseen_ns);
    prop_assert_eq!(counted.first_mono_ns, painted.first_mono_ns);
    prop_assert_eq!(counted.last_mono_ns, painted.last_mono_ns);
    for reason in &counted.reasons {
        let code = reason.reason.map(|reason| reason.code);
        let of_reason = || exits.iter().filter(|exit| Some(exit.reason.code) == code);
        prop_assert_eq!(reason.count, of_reason().count() as u64);
        prop_assert_eq!(reason.split, sum(of_reason()));
        prop_assert_eq!(Some(reason.min_ns), of_reason().map(Exit::dur_ns).min());
        prop_assert_eq!(Some(reason.max_ns), of_reason().map(Exit::dur_ns).max());
    }
    // Among exits with the same noise, the first one is the worst.
    let noise = |exit: &&Exit| exit.dur_ns() - exit.split[Share::Halted];
    let worst = exits.iter().rev().max_by_key(noise);
    let worst = worst.filter(|exit| noise(exit) > 0);
    prop_assert_eq!(counted.worst.as_deref(), worst);
    Ok(())
}

/// Checks that handlers and painter agree on this life. `all_reported`: whether the ring buffer has
/// room for all records.
fn agree(
    handlers: &Handlers,
    begins: u64,
    choices: &[Choice],
    kvm_run_only: bool,
    all_reported: bool,
) -> TestCaseResult {
    let moments = life::live(begins, choices, kvm_run_only);
    let reported = handlers.live(&moments);
    let known = handlers.known_vcpus();
    let mut painted_vcpus = 0;
    for tid in [VCPU, VCPU + 1] {
        let painted = paint(&moments, tid, kvm_run_only);
        let Some(index) = known.iter().position(|it| u64::from(*it) == tid) else {
            prop_assert_eq!(painted.first_mono_ns, 0);
            continue;
        };
        painted_vcpus += 1;
        let mine = |event: &Event| match event {
            Event::Exit(reported) if reported.vcpu.0 as usize == index => Some(reported.exit),
            _ => None,
        };
        let reported: Vec<Exit> = reported.iter().filter_map(mine).collect();
        if all_reported {
            prop_assert_eq!(&reported, &painted.exits);
        } else {
            prop_assert!(
                reported
                    .iter()
                    .all(|reported| painted.exits.contains(reported))
            );
        }
        counted_as_painted(&handlers.counted(index as u32 + 1), &painted)?;
    }
    prop_assert_eq!(painted_vcpus, known.len());
    Ok(())
}

fn agree_on(cases: u32, handlers: &Handlers, steps: usize, kvm_run_only: bool, all_reported: bool) {
    let choices = any::<bool>().prop_flat_map(move |lossy| lives::choices(0..steps, lossy));
    lives::hold(cases, &(any::<u64>(), choices), |(begins, choices)| {
        let result = agree(handlers, begins, &choices, kvm_run_only, all_reported);
        result.map_err(|it| {
            let life = life::live(begins, &choices, kvm_run_only);
            TestCaseError::fail(format!("{it}\n{life:#?}"))
        })
    });
}

/// Half of the lives lose events. Each life has at most 60 events. These 100,000 lives take 22 s of
/// CPU time.
#[test]
fn every_nanosecond_of_an_exit_is_counted_as_painted() {
    agree_on(70_000, &Handlers::new(), 60, false, true);
}

#[test]
fn every_nanosecond_is_counted_as_painted_where_only_kvm_run_is_seen() {
    agree_on(30_000, &Handlers::kvm_run_only(), 60, true, true);
}

#[test]
fn long_lives_are_counted_as_painted() {
    agree_on(100, &Handlers::new(), 4_000, false, true);
    agree_on(50, &Handlers::kvm_run_only(), 4_000, true, true);
}

/// Half of these lives lose events. The number of exits per life is random. Over 120 lives, the
/// mean was 1,959 and the standard deviation 327. So some lives have fewer than a thousand exits.
/// For 20 lives together, fewer than 20,000 exits are 13 standard deviations away.
#[test]
fn a_thousand_exits_are_counted_as_painted() {
    const LIVES: u32 = 20;
    for (handlers, kvm_run_only) in [(Handlers::new(), false), (Handlers::kvm_run_only(), true)] {
        let choices = any::<bool>().prop_flat_map(|lossy| lives::choices(16_000, lossy));
        let exits = Cell::new(0);
        lives::hold(LIVES, &(any::<u64>(), choices), |(begins, choices)| {
            let begins = begins | BRISK;
            agree(&handlers, begins, &choices, kvm_run_only, true)?;
            exits.set(exits.get() + handlers.counted(1).exits);
            Ok(())
        });
        assert!(exits.get() >= 1_000 * u64::from(LIVES), "{exits:?}");
    }
}

/// A full ring buffer loses reported exits, but the counts stay complete.
#[test]
fn what_finds_no_room_is_counted_as_painted() {
    let handlers = Handlers::of(false, 0, 4_096);
    agree_on(50, &handlers, 4_000, false, false);
    assert!(handlers.lost() > 0);
}

/// Checks that the lives above contain the cases that make halts difficult. Otherwise they would
/// prove nothing.
#[test]
fn lives_hold_all_that_makes_a_halt_hard() {
    for kvm_run_only in [false, true] {
        let mut found = BTreeMap::<_, u32>::new();
        let mut runner = TestRunner::deterministic();
        for number in 0..1_500 {
            let tree = lives::choices(300, false).new_tree(&mut runner).unwrap();
            let moments = life::live(number << 8, &tree.current(), kvm_run_only);
            let painted = paint(&moments, VCPU, kvm_run_only);
            let exits = painted.exits.iter();
            let exits = exits.map(|it| (it.start_mono_ns, it.end_mono_ns, it.split));
            for (start, end, split) in exits.chain(painted.stays) {
                for (what, holds) in hard(&moments, start, end, split) {
                    *found.entry(what).or_default() += u32::from(holds);
                }
            }
        }
        // If each exit is a stay in the VMM, no exit contains a halt.
        found.retain(|what, _| !kvm_run_only || *what != "the VMM");
        println!("{found:?}");
        assert!(found.values().all(|count| *count >= 10), "{found:?}");
    }
}

/// Returns the names of the difficult cases of a halt, and whether these events with this split
/// contain each case.
fn hard(
    moments: &[Moment],
    start: u64,
    end: u64,
    split: ShareMap<u64>,
) -> [(&'static str, bool); 12] {
    let inside: Vec<Moment> = moments
        .iter()
        .filter(|it| start < it.at && it.at < end)
        .copied()
        .collect();
    let count = |is: fn(&What) -> bool| inside.iter().filter(|it| is(&it.what)).count();
    let halts = count(|it| matches!(it, What::Halted(..)));
    let sleeps = count(|it| matches!(it, What::Switch(VCPU, _, Left::Slept)));
    // CPU of the vCPU's thread, the CPUs to which it came, and the ends of its interruptions.
    let (mut cpu, mut cpus, mut over) = (Some(0), vec![], vec![]);
    let mut most_before = 0;
    for it in moments.iter().take_while(|it| it.at < end) {
        match it.what {
            What::Switch(VCPU, ..) => cpu = None,
            What::Switch(_, VCPU, _) => {
                cpu = Some(it.cpu);
                cpus.extend((start < it.at).then_some(it.cpu));
                over.push(it.at);
            }
            What::Nmi(_) | What::IrqExit | What::SoftirqExit if Some(it.cpu) == cpu => {
                over.push(it.at);
            }
            What::Halted(VCPU, ns, _) => {
                let before = over.iter().filter(|at| **at <= it.at - ns).count();
                most_before = most_before.max(if start < it.at { before } else { 0 });
                over.clear();
            }
            What::RunEnter(VCPU) | What::Entry(VCPU) => over.clear(),
            _ => {}
        }
    }
    let on_others = cpus.windows(2).any(|cpus| cpus[0] != cpus[1]);
    [
        ("two halts", halts > 1),
        (
            "a spurious wake-up",
            halts == 1 && sleeps > 1 && split[Share::Blocked] == 0,
        ),
        ("a sleep of its own", halts > 0 && split[Share::Blocked] > 0),
        ("the VMM", halts > 0 && split[Share::Vmm] > 0),
        ("a preemption", halts > 0 && split[Share::Preempted] > 0),
        ("throttling", halts > 0 && split[Share::Throttled] > 0),
        ("an interrupt", halts > 0 && split[Share::HostIrq] > 0),
        ("a softirq", halts > 0 && split[Share::HostSoftirq] > 0),
        ("an NMI", halts > 0 && split[Share::HostNmi] > 0),
        ("another CPU", halts > 0 && on_others),
        ("a poll", halts > 0 && sleeps == 0),
        ("much before it", most_before > 8),
    ]
}
