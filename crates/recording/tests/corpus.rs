//! Replays the fuzz corpus of the reader on stable.

#[path = "../../../fuzz/properties/recording_reader.rs"]
mod property;

use std::path::Path;

use vmnoise_events::{ActivityKind, Event, LossKind, VmIdentity};
use vmnoise_recording::{ReadError, RecordingEnd, RecordingReader};

const FOLDER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fuzz/corpus/recording_reader"
);

/// The vmnoise of format version 1 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_1_is_read_and_lacks_what_is_newer() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-1")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    let (mut gaps, mut tallies) = (0, 0);
    let ending = reader.for_each(&mut |event| match event {
        Event::Gap(gap) => {
            assert_eq!((gap.heavy_exits, gap.interference), (3, None));
            gaps += 1;
        }
        Event::Tally(tally) => {
            assert_eq!(tally.interference, None);
            tallies += 1;
        }
        _ => {}
    });
    assert_eq!(ending.unwrap(), RecordingEnd::Complete);
    assert_eq!((gaps, tallies), (1, 2));
}

/// The vmnoise of format version 2 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_2_is_read() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-2")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.facts().options.exits, None);
    let mut gaps = 0;
    let ending = reader.for_each(&mut |event| {
        if let Event::Gap(gap) = event {
            assert_eq!((gap.heavy_exits, gap.interference), (3, Some(4)));
            gaps += 1;
        }
    });
    assert_eq!((ending.unwrap(), gaps), (RecordingEnd::Complete, 1));
}

/// The vmnoise of format version 3 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_3_is_read_and_reports_no_clock() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-3")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.facts().host.apic_ids, []);
    let (mut vcpus, mut exits) = (0, 0);
    let ending = reader.for_each(&mut |event| match event {
        Event::Vcpu(_) => vcpus += 1,
        Event::Exit(_) => exits += 1,
        Event::VcpuClock(clock) => panic!("{clock:?} is newer than this recording"),
        _ => {}
    });
    assert_eq!(
        (ending.unwrap(), vcpus, exits),
        (RecordingEnd::Complete, 1, 1)
    );
}

/// The vmnoise of format version 4 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_4_is_read_and_reports_nothing_of_a_host() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-4")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.facts().host.apic_ids, [(0, 0), (2, 4)]);
    let mut clocks = 0;
    let ending = reader.for_each(&mut |event| match event {
        Event::VcpuClock(_) => clocks += 1,
        Event::HostFrame(_) | Event::FeedTotals(_) => {
            panic!("{event:?} is newer than this recording")
        }
        _ => {}
    });
    assert_eq!((ending.unwrap(), clocks), (RecordingEnd::Complete, 1));
}

/// The vmnoise of format version 5 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_5_is_read_and_has_no_steal_before_a_timer_was_armed_late() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-5")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    let mut steals = Vec::new();
    let ending = reader.for_each(&mut |event| {
        if let Event::Activation(activation) = event {
            steals.push(activation.steal_ns);
        }
    });
    assert_eq!(ending.unwrap(), RecordingEnd::Complete);
    assert_eq!(steals, [[0, 70, 0, 8, u64::MAX]]);
}

/// The vmnoise of format version 6 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_6_is_read_and_reports_no_time_that_nobody_saw() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-6")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    let mut unseen = Vec::new();
    let ending = reader.for_each(&mut |event| {
        if let Event::VcpuTotals(totals) = event {
            unseen.push(totals.unseen_ns);
        }
    });
    assert_eq!((ending.unwrap(), unseen), (RecordingEnd::Complete, vec![0]));
}

/// The vmnoise of format version 7 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_7_is_read_and_lacks_nothing_that_it_held() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-7")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    let (mut activities, mut losses) = (0, 0);
    let ending = reader.for_each(&mut |event| match event {
        Event::Activity(activity) => {
            assert_ne!(activity.kind, ActivityKind::Stopped);
            activities += 1;
        }
        Event::Loss(loss) => {
            assert_ne!(loss.kind, LossKind::Unrecorded);
            losses += 1;
        }
        _ => {}
    });
    assert_eq!(ending.unwrap(), RecordingEnd::Complete);
    assert!(activities > 0 && losses > 0);
}

/// The vmnoise of format version 8 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_8_is_read_and_knows_vms_by_name_alone() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-8")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    let mut vcpus = 0;
    let ending = reader.for_each(&mut |event| {
        if let Event::Vcpu(vcpu) = event {
            assert_eq!(vcpu.vm_name.as_str(), "web");
            assert_eq!(vcpu.identity, VmIdentity::default());
            vcpus += 1;
        }
    });
    assert_eq!((ending.unwrap(), vcpus), (RecordingEnd::Complete, 1));
}

/// The vmnoise of format version 9 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_9_is_read_and_does_not_know_how_its_machine_was_set() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-9")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.facts().host.settings, None);
    let mut vcpus = 0;
    let ending = reader.for_each(&mut |event| {
        if let Event::Vcpu(vcpu) = event {
            assert_ne!(vcpu.identity, VmIdentity::default());
            vcpus += 1;
        }
    });
    assert_eq!((ending.unwrap(), vcpus), (RecordingEnd::Complete, 1));
}

/// The vmnoise of format version 10 wrote this file. Keep the file when the seeds are renewed.
#[test]
fn a_recording_of_format_10_is_read_and_knows_neither_waits_nor_posted_interrupts() {
    let bytes = std::fs::read(Path::new(FOLDER).join("format-10")).unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    let witnesses = reader.facts().witnesses;
    assert!(!witnesses.run_delay && !witnesses.hides_vectors);
    let (mut gaps, mut tallies) = (0, 0);
    let ending = reader.for_each(&mut |event| match event {
        Event::Gap(gap) => {
            assert_eq!(gap.run_delay_ns, 0);
            gaps += 1;
        }
        Event::Tally(tally) => {
            assert_eq!(tally.posted, None);
            tallies += 1;
        }
        _ => {}
    });
    assert_eq!(ending.unwrap(), RecordingEnd::Complete);
    assert!(gaps > 0 && tallies > 0);
}

#[test]
fn every_file_of_the_corpus() {
    let (mut complete, mut cut_off, mut truncated, mut corrupt, mut foreign) = (0, 0, 0, 0, 0);
    for entry in Path::new(FOLDER).read_dir().unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        match property::check(&bytes) {
            Ok(RecordingEnd::Complete) => complete += 1,
            Ok(RecordingEnd::CutOff { .. }) => cut_off += 1,
            Err(ReadError::Truncated { .. }) => truncated += 1,
            Err(ReadError::Corrupt { .. }) => corrupt += 1,
            Err(_) => foreign += 1,
        }
    }
    let found = [complete, cut_off, truncated, corrupt, foreign];
    assert!(
        found.iter().all(|files| *files > 0),
        "complete, cut off, truncated, corrupt, foreign: {found:?}; \
         renew the seeds as fuzz/README.md says"
    );
}
