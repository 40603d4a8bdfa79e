//! Pairs of recordings, of which the second is from another machine, or from a host that had the
//! vCPU only for a time.

use std::fs;
use std::path::Path;

use serde_json::Value;
use vmnoise_events::*;
use vmnoise_recording::Writer;

use super::kinds::TASKS;
use super::world::{BlindWorld, By, CPU, HiddenPart, LENGTH_NS, record};
use super::{Said, check, document, reasons, vmnoise};
use crate::join_pair::{Flaws, facts, write_guest, write_host};

/// World in which only the timer takes CPU time: the culprit would start at the end of the
/// recording.
const QUIET: BlindWorld = BlindWorld {
    by: By::Task,
    from_ns: LENGTH_NS,
};

/// Writes a task that was late once, on a machine with this name.
fn write_timers(path: &Path, machine: &str, late_ns: u64) {
    let mut facts = facts(MeasuringCommand::Timerlat);
    facts.options.cpus = vec![CPU];
    facts.host.name = Some(machine.into());
    let mut writer = Writer::create(path, &facts).unwrap();
    let expiry_mono_ns = 5_000_000;
    for event in [
        Event::Anchor(Anchor {
            before_tsc: 0,
            mono_ns: 0,
            after_tsc: 0,
        }),
        Event::Activation(Activation {
            cpu: CPU,
            expiry_mono_ns,
            woke_mono_ns: expiry_mono_ns + late_ns,
            ..Activation::default()
        }),
        Event::Tally(CpuTally {
            cpu: CPU,
            last_tsc: 1_000_000_000,
            ..CpuTally::default()
        }),
        Event::Watermark(1_000_000_000),
        Event::Finish(Finish {
            reason: FinishReason::Duration,
            mono_ns: 1_000_000_000,
        }),
    ] {
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
}

/// Timers that are once 4 ms late use up all the time of the task. On the other machine this is
/// neither a miss nor a part of the response.
#[test]
fn the_timers_of_another_machine_say_nothing_of_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("tasks.toml"), TASKS).unwrap();
    record(
        &folder.join("run.vmn"),
        QUIET,
        HiddenPart::Nothing,
        None,
        |facts| {
            facts.host.name = Some("here".into());
        },
    );
    write_timers(&folder.join("late.vmn"), "here", 4_000_000);
    write_timers(&folder.join("prompt.vmn"), "here", 1_000);
    write_timers(&folder.join("foreign.vmn"), "elsewhere", 1_000);
    write_timers(&folder.join("foreign_late.vmn"), "elsewhere", 4_000_000);
    let line = |timers: &str| format!("schedule|run.vmn|{timers}|--tasks|tasks.toml");
    let cpu = |timers: &str| document(folder, &line(timers))["cpus"][0].clone();
    let task = |timers: &str| cpu(timers)["tasks"][0].clone();
    assert_eq!(task("late.vmn")["verdict"], "may_miss");
    assert_eq!(task("prompt.vmn")["verdict"], "holds");
    for timers in ["foreign.vmn", "foreign_late.vmn"] {
        assert_eq!(cpu(timers)["blocking_ns"], Value::Null, "{timers}");
        let foreign = task(timers);
        assert_eq!(foreign["verdict"], "cannot_tell");
        assert_eq!(reasons([&foreign["blind_spots"]]), ["other_machine"]);
        let reason = foreign["reason"].as_str().unwrap();
        let expected = format!("{timers} is of another machine");
        assert!(reason.contains(&expected), "{reason}");
        assert_eq!(vmnoise(folder, &line(timers)).status.code(), Some(3));
    }
    let response_ns = |timers: &str| task(timers)["response_ns"].clone();
    assert_eq!(response_ns("foreign_late.vmn"), response_ns("foreign.vmn"));
}

/// The recording of this machine alone breaks the deadline. If the recordings are of two machines,
/// vmnoise does not know on which the tasks run.
#[test]
fn a_miss_on_one_of_two_machines_decides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("tasks.toml"), TASKS).unwrap();
    let loud = BlindWorld {
        by: By::Task,
        from_ns: 0,
    };
    let here = |facts: &mut RunFacts| facts.host.name = Some("here".into());
    record(
        &folder.join("run.vmn"),
        loud,
        HiddenPart::Nothing,
        None,
        here,
    );
    for (machine, verdict) in [("here", "may_miss"), ("elsewhere", "cannot_tell")] {
        write_timers(&folder.join("timers.vmn"), machine, 1_000);
        let found = document(folder, "schedule|run.vmn|timers.vmn|--tasks|tasks.toml");
        let task = &found["cpus"][0]["tasks"][0];
        assert_eq!(task["verdict"], verdict, "{task}");
    }
}

/// Tasks of the host take 30 us of each long exit, a tenth of a percent of the guest's time. In
/// half of the time this is below the limit.
const LIMIT: &str = "host.vmn|--limit|preempted=0.08%";

#[test]
fn a_host_says_nothing_of_a_vcpu_that_is_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_guest(&folder.join("guest.vmn"));
    let half_ns = 600_000_000;
    for (there_ns, is_whole) in [
        (0..u64::MAX, true),
        (0..half_ns, false),
        (half_ns..u64::MAX, false),
    ] {
        let flaws = Flaws {
            there_ns: Some((there_ns.start, there_ns.end)),
            ..Flaws::default()
        };
        write_host(&folder.join("host.vmn"), flaws);
        let said = check(folder, "guest.vmn", LIMIT);
        let joined = document(folder, "explain|guest.vmn|host.vmn");
        let printed = reasons([&joined["blind_spots"]]);
        match is_whole {
            true => assert_eq!((said, printed), (Said::Bad, Vec::new())),
            false => {
                let elsewhere = vec!["host_elsewhere".to_owned()];
                assert_eq!(said, Said::Cannot(elsewhere.clone()), "{there_ns:?}");
                assert_eq!(printed, elsewhere, "{there_ns:?}");
            }
        }
    }
}
