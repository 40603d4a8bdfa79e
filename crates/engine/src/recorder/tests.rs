//! Tests of recordings on a disk that is slow, full or gone.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

use vmnoise_console::fixtures::Hanging;
use vmnoise_events::{
    Activity, ActivityKind, Anchor, CpuTally, Finish, FinishReason, ShareMap, Source, SourceId,
    Vcpu, VcpuId, VcpuTotals, fixtures,
};
use vmnoise_recording::{RecordingEnd, RecordingReader};

use super::*;

/// Returns limits that bound only the data that may be left out.
fn room(most: usize) -> Room {
    let all = usize::MAX;
    Room { most, all }
}

#[test]
fn names_do_not_wait_without_end() {
    let (most, all) = (2_000, 50_000);
    let disk = Hanging::default();
    let file = WriteBehind::new(disk.clone(), Room { most, all }).unwrap();
    let mut recorder = Recorder::new(Some(Writer::new(file, &fixtures::polling_facts()).unwrap()));
    let held = disk.0.lock().unwrap();
    let mut said = None;
    // Each drain has a new name of more than ten bytes.
    for number in 0..all as u64 {
        drain(number * 10)
            .iter()
            .for_each(|event| recorder.push(event));
        said = said.or_else(|| {
            recorder
                .take_news()
                .filter(|news| news.contains("ends here"))
        });
        if said.is_some() {
            break;
        }
    }
    assert!(said.is_some(), "names wait without end");
    drop(held);
    let error = recorder.finish().wait().unwrap().to_string();
    assert!(error.contains("ends here"), "{error}");
}

/// Returns the events of one drain, as the loop makes them; every tenth drain brings a new name.
fn drain(number: u64) -> Vec<Event> {
    let at = number * 20_000_000;
    let id = SourceId((number / 10) as u32);
    let name = Event::Source(Source {
        id,
        name: format!("task:{}", id.0).into(),
    });
    let anchor = Event::Anchor(Anchor {
        before_tsc: at,
        mono_ns: at,
        after_tsc: at,
    });
    let tally = Event::Tally(CpuTally {
        cpu: 16,
        last_tsc: at,
        ..CpuTally::default()
    });
    let activity = Event::Activity(Activity {
        cpu: 16,
        kind: ActivityKind::Thread,
        start_mono_ns: at,
        end_mono_ns: at + 1_000,
        source: id,
        steal_ns: 0,
    });
    let mut events = vec![anchor, tally];
    events.extend(number.is_multiple_of(10).then_some(name));
    events.extend([activity, Event::Watermark(at)]);
    events
}

fn is_activity(event: &&Event) -> bool {
    matches!(event, Event::Activity(_))
}

#[test]
fn a_disk_that_hangs_costs_events_that_the_recording_counts() {
    let disk = Hanging::default();
    let file = WriteBehind::new(disk.clone(), room(20_000)).unwrap();
    let writer = Writer::new(file, &fixtures::polling_facts()).unwrap();
    let mut recorder = Recorder::new(Some(writer));
    let mut reported = Vec::new();
    let lost_in_the_ring = Event::Loss(Loss {
        kind: LossKind::RingFull,
        count: 5,
    });
    let mut news = Vec::new();
    let mut report = |events: Vec<Event>, recorder: &mut Recorder| {
        for event in &events {
            recorder.push(event);
        }
        recorder.flush();
        news.extend(recorder.take_news());
        reported.extend(events);
    };
    let held = disk.0.lock().unwrap();
    for number in 0..100 {
        report(drain(number), &mut recorder);
    }
    // The loss is reported only once.
    report(vec![lost_in_the_ring.clone()], &mut recorder);
    drop(held);
    while !recorder.writer.as_ref().unwrap().get_ref().keeps_up() {
        std::thread::yield_now();
    }
    for number in 100..110 {
        report(drain(number), &mut recorder);
    }
    let finish = Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns: 0,
    });
    report(vec![finish.clone()], &mut recorder);
    assert!(recorder.finish().wait().is_none());
    assert_eq!(news.len(), 1, "{news:?}");
    assert!(news[0].contains("missing in the recording"), "{news:?}");

    let written = disk.0.lock().unwrap();
    let mut read = Vec::new();
    let mut reader = RecordingReader::new(written.as_slice()).unwrap();
    let ending = reader.for_each(&mut |event| read.push(event.clone()));
    assert_eq!(ending.unwrap(), RecordingEnd::Complete);
    let unrecorded = read.iter().find_map(|event| match event {
        Event::Loss(loss) if loss.kind == LossKind::Unrecorded => Some(loss.count),
        _ => None,
    });
    let activities = |events: &[Event]| events.iter().filter(is_activity).count() as u64;
    let missing = activities(&reported) - activities(&read);
    assert!(missing > 0);
    assert_eq!(unrecorded, Some(missing));
    assert!(read.contains(&lost_in_the_ring));
    assert_eq!(read.last(), Some(&finish));
    // The events read are in the order in which they were reported.
    let mut rest = reported.iter();
    for event in read.iter().filter(|event| !matches!(event, Event::Loss(_))) {
        assert!(rest.any(|it| it == event), "{event:?}");
    }
}

#[test]
fn what_is_reported_once_while_the_disk_is_behind_is_written_when_it_has_room() {
    let disk = Hanging::default();
    let file = WriteBehind::new(disk.clone(), room(2_000)).unwrap();
    let mut recorder = Recorder::new(Some(Writer::new(file, &fixtures::polling_facts()).unwrap()));
    let held = disk.0.lock().unwrap();
    let report = |recorder: &mut Recorder, events: &[Event]| {
        events.iter().for_each(|event| recorder.push(event));
        recorder.flush();
    };
    for number in 0..100 {
        report(&mut recorder, &drain(number));
    }
    assert!(recorder.behind.is_some());
    let vcpu = Event::Vcpu(Vcpu {
        id: VcpuId(0),
        tid: 11,
        vmm_pid: 9,
        number: None,
        vm: 0,
        vm_name: "vm:9".into(),
        identity: Default::default(),
        sees_kvm: false,
    });
    report(&mut recorder, &[vcpu]);
    // The vCPU has ended and sends no more reports.
    let last_word = Event::VcpuTotals(VcpuTotals {
        vcpu: VcpuId(0),
        first_mono_ns: 1,
        last_mono_ns: 2,
        exits: 7,
        heavy: 0,
        split: ShareMap::default(),
        unseen_ns: 0,
        worst: None,
        reasons: Vec::new(),
    });
    let mut number_100 = drain(100);
    number_100.push(last_word.clone());
    report(&mut recorder, &number_100);
    report(&mut recorder, &drain(101));
    let recorded = recorder.finish();
    drop(held);
    assert!(recorded.wait().is_none());
    assert_eq!(read(&disk).iter().filter(|it| **it == last_word).count(), 1);
}

#[test]
fn a_drain_is_recorded_as_a_whole_or_left_out_as_a_whole() {
    let disk = Hanging::default();
    let file = WriteBehind::new(disk.clone(), room(2_000)).unwrap();
    let mut recorder = Recorder::new(Some(Writer::new(file, &fixtures::polling_facts()).unwrap()));
    let held = disk.0.lock().unwrap();
    for number in 0..100 {
        drain(number).iter().for_each(|event| recorder.push(event));
        recorder.flush();
    }
    assert!(recorder.behind.is_some());
    // The disk recovers in the middle of a drain.
    let late = drain(100);
    let is_early = |event: &&Event| !is_activity(event);
    late.iter()
        .filter(is_early)
        .for_each(|it| recorder.push(it));
    drop(held);
    while !recorder.writer.as_ref().unwrap().get_ref().keeps_up() {
        std::thread::yield_now();
    }
    late.iter()
        .filter(is_activity)
        .for_each(|it| recorder.push(it));
    let next = drain(101);
    next.iter().for_each(|event| recorder.push(event));
    assert!(recorder.finish().wait().is_none());
    let read = read(&disk);
    let has_activity = |of: &[Event]| read.contains(of.iter().find(is_activity).unwrap());
    assert!(!has_activity(&late));
    assert!(has_activity(&next));
}

fn read(disk: &Hanging) -> Vec<Event> {
    let written = disk.0.lock().unwrap();
    let mut read = Vec::new();
    let mut reader = RecordingReader::new(written.as_slice()).unwrap();
    reader
        .for_each(&mut |event| read.push(event.clone()))
        .unwrap();
    read
}

#[test]
fn a_disk_that_hangs_to_the_end_of_the_run_gets_its_last_counters() {
    let disk = Hanging::default();
    let file = WriteBehind::new(disk.clone(), room(2_000)).unwrap();
    let mut recorder = Recorder::new(Some(Writer::new(file, &fixtures::polling_facts()).unwrap()));
    let held = disk.0.lock().unwrap();
    for number in 0..100 {
        drain(number).iter().for_each(|event| recorder.push(event));
        recorder.flush();
    }
    let recorded = recorder.finish();
    drop(held);
    assert!(recorded.wait().is_none());
    let written = disk.0.lock().unwrap();
    let mut read = Vec::new();
    let mut reader = RecordingReader::new(written.as_slice()).unwrap();
    reader
        .for_each(&mut |event| read.push(event.clone()))
        .unwrap();
    let last = drain(99);
    let last = last.iter().filter(|event| !is_activity(event));
    assert_eq!(read[read.len() - 3..], last.cloned().collect::<Vec<_>>());
}
