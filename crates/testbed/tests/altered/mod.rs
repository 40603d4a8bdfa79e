//! Writes copies of recordings that contain one change or omission.

use std::ops::{ControlFlow, RangeInclusive};
use std::path::Path;

use vmnoise_events::{Anchor, Event, Finish, FinishReason, RunFacts, VcpuClock, VcpuId};
use vmnoise_recording::{RecordingReader, Writer};

/// Returns all events of a recording, without its facts.
pub fn events(path: &Path) -> Vec<Event> {
    let mut reader = RecordingReader::open(path).unwrap();
    let mut events = Vec::new();
    while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    events
}

fn facts(path: &Path) -> RunFacts {
    RecordingReader::open(path).unwrap().facts().clone()
}

fn write(path: &Path, facts: &RunFacts, events: impl IntoIterator<Item = Event>) {
    let mut writer = Writer::create(path, facts).unwrap();
    for event in events {
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns the number of cycles that the TSC of a recording's machine counts in `ns` nanoseconds.
pub fn cycles(path: &Path, ns: u64) -> i64 {
    let cycles = u128::from(ns) * u128::from(facts(path).clock.tsc_hz) / 1_000_000_000;
    i64::try_from(cycles).unwrap()
}

/// Copies the host's recording. In the copy, the clocks of all guests are ahead by `by_tsc` cycles.
pub fn clocks_ahead(host: &Path, copy: &Path, by_tsc: i64) {
    let mut clocks = 0;
    let ahead = |mut event: Event| {
        if let Event::VcpuClock(clock) = &mut event {
            clock.offset_tsc += by_tsc;
            clocks += 1;
        }
        event
    };
    let events: Vec<Event> = events(host).into_iter().map(ahead).collect();
    assert!(clocks > 0);
    write(copy, &facts(host), events);
}

/// Copies the guest's recording. In the copy, the guest's first two CPUs are swapped.
pub fn vcpus_crossed(guest: &Path, copy: &Path) {
    let mut facts = facts(guest);
    let [first, second, ..] = &mut facts.host.apic_ids[..] else {
        panic!("{:?}", facts.host)
    };
    std::mem::swap(&mut first.1, &mut second.1);
    write(copy, &facts, events(guest));
}

/// Returns the first and the last reading of the TSC by all measuring threads of a guest.
pub fn span_tsc(guest: &Path) -> (u64, u64) {
    let spans = events(guest).into_iter().filter_map(|event| match event {
        Event::Tally(tally) => Some((tally.first_tsc, tally.last_tsc)),
        _ => None,
    });
    let both = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
    spans.reduce(both).unwrap()
}

/// Returns the times at which the host read its clocks while this guest measured, CLOCK_MONOTONIC
/// of the host in nanoseconds.
pub fn anchors_meanwhile(host: &Path, vm: &str, guest: &Path) -> Vec<u64> {
    let events = events(host);
    let is_of_vm = |id: VcpuId| {
        let of =
            |event: &Event| matches!(event, Event::Vcpu(it) if it.id == id && it.vm_name == vm);
        events.iter().any(of)
    };
    let clock = events.iter().find_map(|event| match event {
        Event::VcpuClock(clock) if is_of_vm(clock.vcpu) => Some(*clock),
        _ => None,
    });
    let clock: VcpuClock = clock.unwrap();
    let (first_tsc, last_tsc) = span_tsc(guest);
    let holds = |anchor: &Anchor| {
        let guest_tsc = clock.guest_tsc(anchor.before_tsc).unwrap();
        (first_tsc..=last_tsc).contains(&guest_tsc)
    };
    let anchors = events.iter().filter_map(|event| match event {
        Event::Anchor(anchor) if holds(anchor) => Some(anchor.mono_ns),
        _ => None,
    });
    anchors.collect()
}

/// Copies the part of the host's recording that lies in `left_ns`, CLOCK_MONOTONIC of the host in
/// nanoseconds. The copy looks like a recording of this time only.
pub fn only(host: &Path, copy: &Path, left_ns: RangeInclusive<u64>) {
    let until_ns = *left_ns.end();
    let lies = |start_ns, end_ns| left_ns.contains(&start_ns) && left_ns.contains(&end_ns);
    let is_left = |event: &Event| match event {
        Event::Anchor(anchor) => lies(anchor.mono_ns, anchor.mono_ns),
        Event::Activity(activity) => lies(activity.start_mono_ns, activity.end_mono_ns),
        Event::VcpuInterval(interval) => lies(interval.start_mono_ns, interval.end_mono_ns),
        Event::Exit(exit) => lies(exit.exit.start_mono_ns, exit.exit.end_mono_ns),
        Event::Watermark(mono_ns) => lies(*mono_ns, *mono_ns),
        // These sums are for the whole recording.
        Event::VcpuTotals(_) | Event::Finish(_) => false,
        _ => true,
    };
    let end = [
        Event::Watermark(until_ns),
        Event::Finish(Finish {
            reason: FinishReason::Interrupt,
            mono_ns: until_ns,
        }),
    ];
    let left = events(host).into_iter().filter(is_left);
    write(copy, &facts(host), left.chain(end));
}
