//! Tests on this machine. They compare the counts with the kernel's, and with the tracer of single
//! activities.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use vmnoise_events::{Activity, ActivityKind, Event};

use super::super::*;
use crate::Scope;
use crate::Tracer;

/// Returns a lock that prevents tests from using the same CPUs at the same time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the attached programs. If this machine has no steal clock, prints this and returns
/// `None`.
fn counting() -> Option<OwnCpus> {
    let Some(mut own) = OwnCpus::load().unwrap() else {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        writeln!(stderr(), "skipped: {name}: this machine has no steal clock").unwrap();
        return None;
    };
    own.attach().unwrap();
    Some(own)
}

fn pin(cpu: u32) {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).unwrap();
}

fn spin_for(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {}
}

/// Returns the last allowed CPU and another CPU.
fn two_cpus() -> (u32, u32) {
    let allowed = Host::here().allowed_cpus().unwrap();
    (allowed[allowed.len() - 1], allowed[0])
}

#[test]
fn the_sum_of_losses_is_what_the_steal_clock_went_on() {
    let _alone = alone();
    let Some(mut own) = counting() else { return };
    let (cpu, _) = two_cpus();
    let tracer = Tracer::load(&[cpu], Scope::Osnoise).unwrap();
    pin(cpu);
    // A switch happens between the two readings of the clock. So the counts are from an instant
    // between the readings.
    let look = |own: &OwnCpus| {
        let earliest_ns = tracer.outer_steal_ns(cpu).unwrap();
        thread::sleep(Duration::from_millis(1));
        let books = own.books(cpu).unwrap();
        (
            earliest_ns,
            books.steal,
            tracer.outer_steal_ns(cpu).unwrap(),
        )
    };
    let stretch = |own: &OwnCpus| {
        let (first_earliest, first, first_latest) = look(own);
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            spin_for(Duration::from_millis(5));
            thread::yield_now();
        }
        let (last_earliest, last, last_latest) = look(own);
        let sum_ns = last.ns - first.ns;
        let bounds = last_earliest.saturating_sub(first_latest)..=last_latest - first_earliest;
        println!("{sum_ns} ns of {bounds:?}");
        assert!(bounds.contains(&sum_ns), "{sum_ns} {bounds:?}");
        assert_eq!(sum_ns > 0, last.lengths != first.lengths);
        last_earliest - first_latest
    };
    let lost_ns = stretch(&own);
    // Losses in a pause are not counted. Losses after the pause are counted.
    let before = own.books(cpu).unwrap();
    own.pause();
    spin_for(Duration::from_millis(
        2 * lost_ns.div_ceil(1_000_000).min(1_000),
    ));
    assert_eq!(own.books(cpu).unwrap(), before);
    own.attach().unwrap();
    stretch(&own);
    assert_eq!(own.missed().unwrap(), 0);
}

/// Number of time windows. Between the readings of the two programs, the hypervisor may take the
/// CPU for any time, which then counts in only one of them. This happens sometimes, but not in most
/// windows.
const STRETCHES: usize = 10;

/// Counts at an unknown instant between two known instants.
struct Look {
    earliest_ns: u64,
    books: OwnCpuBooks,
    latest_ns: u64,
}

#[test]
fn interrupts_are_as_long_as_the_tracer_tells() {
    let _alone = alone();
    let Some(own) = counting() else { return };
    let (cpu, other) = two_cpus();
    pin(other);
    let mut tracer = Tracer::load(&[cpu], Scope::Osnoise).unwrap();
    tracer.attach().unwrap();
    let mut activities: Vec<Activity> = Vec::new();
    let is_over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let _ends = Ends(&is_over);
        scope.spawn(|| {
            pin(cpu);
            while !is_over.load(Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        thread::sleep(Duration::from_millis(50));
        let look = || Look {
            earliest_ns: mono_ns(),
            books: own.books(cpu).unwrap(),
            latest_ns: mono_ns(),
        };
        let mut looks = vec![look()];
        for _ in 0..STRETCHES {
            for _ in 0..4 {
                thread::sleep(Duration::from_millis(50));
                keep_all(&mut tracer, &mut activities);
            }
            looks.push(look());
        }
        thread::sleep(Duration::from_millis(50));
        looks
    });
    keep_all(&mut tracer, &mut activities);
    let of_kind = |kind, books: &OwnCpuBooks| match kind {
        ActivityKind::Irq => books.irq,
        _ => books.softirq,
    };
    for kind in [ActivityKind::Irq, ActivityKind::Softirq] {
        let (mut equal, mut all) = (0, 0);
        for pair in looks.windows(2) {
            let [first, last] = [0, 1].map(|it| of_kind(kind, &pair[it].books));
            let between = |from_ns, until_ns| {
                let of_kind = activities.iter().filter(|it| it.kind == kind);
                let ended =
                    of_kind.filter(move |it| (from_ns..=until_ns).contains(&it.end_mono_ns));
                let nets = ended.map(|it| net_ns(it, &activities));
                nets.fold((0, 0), |(count, sum_ns), ns| (count + 1, sum_ns + ns))
            };
            let least = between(pair[0].latest_ns, pair[1].earliest_ns);
            let most = between(pair[0].earliest_ns, pair[1].latest_ns);
            let count = last.lengths.count() - first.lengths.count();
            let sum_ns = last.ns - first.ns;
            println!("{kind:?}: {count} of {sum_ns} ns, by the tracer {least:?} to {most:?}");
            assert!((least.0..=most.0).contains(&count), "{count}");
            // Both programs read the clock at each begin and end, one after the other. One run of a
            // program takes less than a microsecond.
            let distance_ns = count * 1_000;
            equal += usize::from(sum_ns + distance_ns >= least.1 && sum_ns <= most.1 + distance_ns);
            all += count;
        }
        assert!(all > 10, "{all}");
        assert!(2 * equal > STRETCHES, "{equal} of {STRETCHES}");
    }
    assert_eq!(own.missed().unwrap(), 0);
}

fn keep_all(tracer: &mut Tracer, activities: &mut Vec<Activity>) {
    let mut keep = |event| {
        if let Event::Activity(activity) = event {
            activities.push(activity);
        }
    };
    tracer.drain(&mut keep).unwrap();
}

/// Returns the length of an activity in ns, without steal time and without the interrupts in it.
fn net_ns(activity: &Activity, all: &[Activity]) -> u64 {
    let ns = |it: &Activity| it.end_mono_ns - it.start_mono_ns - it.steal_ns;
    let inside = all.iter().filter(|it| {
        it.kind == ActivityKind::Irq
            && it.start_mono_ns > activity.start_mono_ns
            && it.end_mono_ns < activity.end_mono_ns
    });
    ns(activity).saturating_sub(inside.map(ns).sum())
}

fn mono_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the time in ns for which a thread of this process has waited so far (proc(5)).
fn run_delay_ns(tid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns the time in ns for which each task of this machine has waited so far.
fn run_delays_ns() -> BTreeMap<String, u64> {
    let tasks = fs::read_dir("/proc").unwrap().flatten();
    let tasks = tasks.filter_map(|process| fs::read_dir(process.path().join("task")).ok());
    let tasks = tasks.flatten().flatten();
    let delay = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ns = text.split(' ').nth(1)?.parse().ok()?;
        Some((task.file_name().into_string().ok()?, ns))
    };
    tasks.filter_map(delay).collect()
}

/// Makes threads end when the test ends, also after a failure.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn tasks_wait_as_long_as_the_scheduler_says() {
    let _alone = alone();
    let Some(own) = counting() else { return };
    let (cpu, other) = two_cpus();
    pin(other);
    let is_over = AtomicBool::new(false);
    let waits = || own.books(cpu).unwrap().waits.unwrap();
    thread::scope(|scope| {
        let _ends = Ends(&is_over);
        let (told, tids) = std::sync::mpsc::channel();
        for _ in 0..2 {
            let (told, is_over) = (told.clone(), &is_over);
            scope.spawn(move || {
                pin(cpu);
                told.send(gettid().as_raw_nonzero().get() as u32).unwrap();
                while !is_over.load(Relaxed) {}
            });
        }
        let tids: Vec<u32> = tids.iter().take(2).collect();
        let both_ns = || tids.iter().map(|tid| run_delay_ns(*tid)).sum::<u64>();
        // The counts also contain waits of other tasks. Tasks that have ended during the window are
        // missing in the kernel's sum. A wait is counted slightly before the kernel counts it, so
        // it may be in the window of only one of them. So the value may sometimes be outside the
        // two bounds.
        let stretch = || {
            let all = run_delays_ns();
            let first = waits();
            let two_ns = both_ns();
            thread::sleep(Duration::from_secs(1));
            let two_ns = both_ns() - two_ns;
            let last = waits();
            let known = |task: &String| all.get(task).copied().unwrap_or_default();
            let all_ns = run_delays_ns()
                .iter()
                .map(|(task, ns)| ns - known(task).min(*ns))
                .sum();
            let sum_ns = last.ns - first.ns;
            let count = last.lengths.count() - first.lengths.count();
            println!("{count} of {sum_ns} ns: {two_ns} of the two, {all_ns} of all");
            assert!(two_ns > 500_000_000, "{two_ns}");
            (two_ns..=all_ns).contains(&sum_ns)
        };
        assert!((0..5).any(|_| stretch()));
    });
}
