//! A guest whose timer is late requests a dump from its host. The host itself has no reason for a
//! dump. The test joins the two recordings. It uses one lab with stock kernels on both sides, and a
//! serial port between them.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use vmnoise_events::{Activation, Event};
use vmnoise_explain::Matcher;
use vmnoise_recording::RecordingReader;
use vmnoise_testbed::bed::{DebianKernel, Lab};
use vmnoise_testbed::lab_program;
use vmnoise_testbed::pair::explain;
use vmnoise_testbed::vmm_steps::Treatment;

use crate::harness::{Metrics, PROGRAM};

/// QEMU's options for the port, as in docs/feed.md.
const PORT: &str = "-device virtio-serial-pci -chardev socket,id=feed,path=/tmp/feed,server=on,wait=off \
                    -device virtserialport,chardev=feed,name=org.vmnoise.feed.0";
/// Starts a task that runs at random times, for 0.8 to 2.4 ms. A run usually exceeds the guest's
/// period. No other task has the same pattern, so the pattern identifies the guest.
const SMALL: &str = "& lab-disturb irregular 0 1600 9000";
/// Period of the guest's timers.
const PERIOD_NS: u64 = 1_000_000;
/// Lateness after which the guest requests a dump. [`BURST_NS`] is the length of the injected
/// burst. Both exceed the time for which the scheduler lets a task of the host run while the vCPU
/// waits (3 ms). They even exceed the sum of several such times and the small task.
const LATE_NS: u64 = 20_000_000;
const BURST_NS: u64 = 30_000_000;
/// Longest time until the end of the dump if the guest stops at a threshold. In [`BY_ITSELF_NS`],
/// the guest polls once a second, so the dump may be a second later.
const AT_A_THRESHOLD_NS: u64 = 1_000_000_000;
const BY_ITSELF_NS: u64 = 2_000_000_000;
const ASKS_AT_A_THRESHOLD: [&str; 4] = [
    "vmnoise --version",
    "lab-vmm run:3000 --",
    "vmnoise timerlat -q -d 10s -T 20ms --on-threshold dump --on-threshold continue --feed none -o /tmp/guest.rec",
    SAVE,
];
/// Commands of a guest in which `vmnoise serve` also runs. It starts before the guest becomes idle.
const ASKS_BY_ITSELF: [&str; 6] = [
    "vmnoise --version",
    "lab-scrape up",
    "& vmnoise-serve --cost-limit 100 --dump-over 20ms --ask-host",
    "lab-vmm run:6000 --",
    "vmnoise timerlat -q -d 10s --feed none -o /tmp/guest.rec",
    SAVE,
];
const SAVE: &str = "lab-guest save /tmp/guest.rec";
/// Command of the host's server. It makes no dump for its own reasons, because no wait exceeds a
/// second.
const SERVE: &str =
    "& vmnoise-serve --cost-limit 100 --dumps /tmp/dumps --dump-over 1s --dumps-for unix:/tmp/feed";
const SCRAPE: &str = "lab-scrape 127.0.0.1:9752 CPU";

struct Told {
    guest: Vec<u8>,
    dump: Vec<u8>,
    /// The injected task, as `comm:pid`.
    hog: String,
    before: Metrics,
    after: Metrics,
    kernel_version: String,
}

/// Runs these commands and programs in a guest. The second to last command measures.
fn run(guest: &[&str], programs: &[&Path]) -> Told {
    let ended = guest.iter().filter(|it| !it.starts_with("& ")).count();
    let told = |count: usize| format!("lab-guest told {count}");
    let boot = format!("& lab-guest boot -name guest=web,debug-threads=on {PORT}");
    let mut lab = Lab::kernel(DebianKernel::Cloud)
        .virtual_time(0)
        .guest(guest);
    for program in ["lab-scrape", "lab-guest", "lab-vmm", "lab-disturb"] {
        lab = lab.program(&lab_program(program).unwrap());
    }
    if programs.is_empty() {
        lab = lab.program_of_host(Path::new(PROGRAM));
    }
    for program in programs {
        lab = lab.program(program);
    }
    let burst_us = BURST_NS / 1_000;
    let disturb = format!("lab-vmm run:6000 turns:0:{burst_us}:200003 run:1500 unhog --");
    let report = lab.run(&[
        "lab-scrape up",
        SERVE,
        &boot,
        &told(1),
        SMALL,
        &told(ended - 2),
        SCRAPE,
        &disturb,
        SCRAPE,
        &told(ended),
        "lab-guest results",
        "lab-guest load /tmp/guest.rec",
        "lab-guest print /tmp/guest.rec",
        "lab-guest print /tmp/dumps",
    ]);
    let report = report.unwrap();
    let [
        _,
        _,
        _,
        before,
        treatment,
        after,
        _,
        results,
        _,
        guest,
        dump,
    ] = &report.outputs[..]
    else {
        panic!("{:?}", report.outputs);
    };
    println!("{}", results.text().unwrap());
    let treatment: Treatment = serde_json::from_str(treatment.text().unwrap()).unwrap();
    let mut hogs = treatment.steps.into_iter().filter_map(|step| step.hog);
    Told {
        guest: guest.file().unwrap(),
        dump: dump.file().unwrap(),
        hog: hogs.next().unwrap(),
        before: Metrics::of_text(before.text().unwrap()),
        after: Metrics::of_text(after.text().unwrap()),
        kernel_version: report.kernel_version,
    }
}

fn events(recording: &[u8]) -> Vec<Event> {
    let mut reader = RecordingReader::new(recording).unwrap();
    let mut events = Vec::new();
    while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    events
}

/// Returns the time in ns between the end of the first late wake-up and the end of the dump, on the
/// host's clock.
fn from_late_to_dump_ns(guest: &[u8], dump: &[u8]) -> u64 {
    let facts = |recording: &[u8]| RecordingReader::new(recording).unwrap().facts().clone();
    let mut matcher = Matcher::new(&facts(guest), &facts(dump)).unwrap();
    let (guest, host) = (events(guest), events(dump));
    guest.iter().for_each(|event| matcher.guest(event));
    host.iter().for_each(|event| matcher.host(event));
    let pairs = matcher.finish().unwrap();
    let is_late = |it: &&Activation| it.woke_mono_ns - it.expiry_mono_ns > LATE_NS;
    let mut activations = guest.iter().filter_map(|event| match event {
        Event::Activation(activation) => Some(activation),
        _ => None,
    });
    let late = activations.find(is_late).unwrap();
    let end_ns = host.iter().find_map(|event| match event {
        Event::Finish(finish) => Some(finish.mono_ns),
        _ => None,
    });
    end_ns.unwrap() - pairs.host_mono_ns(0, late.woke_mono_ns).unwrap()
}

/// Returns the first late wake-up in the joined recordings. The dump contains nothing after its own
/// end, so later wake-ups are incomplete.
fn first_late(joined: &Value) -> &Value {
    let number = |tree: &Value, key: &str| tree["wakeup"][key].as_u64().unwrap();
    let trees = joined["trees"].as_array().unwrap().iter();
    let late = trees.filter(|tree| number(tree, "latency_ns") > LATE_NS);
    late.min_by_key(|tree| number(tree, "expiry_mono_ns"))
        .unwrap()
}

/// Returns the time in ns that this task of the host took from a wake-up.
fn had_ns(tree: &Value, name: &str) -> u64 {
    let list = |value: &Value| value.as_array().unwrap().clone();
    let exits = list(&tree["phases"]).into_iter();
    let exits = exits.flat_map(|phase| list(&phase["exits"]));
    let parts = exits.flat_map(|exit| list(&exit["parts"]));
    let its = parts.filter(|part| part["share"] == "preempted" && part["name"] == name);
    its.map(|part| part["ns"].as_u64().unwrap()).sum()
}

/// Checks that the late wake-up is joined with the host's dump, and that the dump names the
/// injected task.
fn assert_names_who_made_it_late(told: &Told, within_ns: u64) {
    println!("Linux {}", told.kernel_version);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let [guest, dump] = [file("guest.rec", &told.guest), file("dump.vmn", &told.dump)];
    let joined = explain(&[&guest, &dump], &["--top", "100"]).unwrap();
    println!("{}\n{}", joined["pairs"][0], joined["joined"]);
    let late = first_late(&joined);
    println!("{late}");
    let ns = had_ns(late, &told.hog);
    println!("{} had {ns} ns of it", told.hog);
    // The guest's timer that expires first during the burst expires up to one period after its
    // start.
    assert!(ns + PERIOD_NS >= BURST_NS, "{late}");
    let until_ns = from_late_to_dump_ns(&told.guest, &told.dump);
    println!("the dump ends {until_ns} ns after that wake-up");
    assert!(until_ns < within_ns);
    for name in [
        "vmnoise_self_cpu_seconds_total",
        "vmnoise_probe_seconds_total",
    ] {
        println!("{name}: {} s", told.after.of(name) - told.before.of(name));
    }
}

mod virtual_time {
    use super::*;

    #[test]
    fn a_late_timer_of_a_guest_has_its_hosts_dump_name_who_made_it_late() {
        let told = run(&ASKS_AT_A_THRESHOLD, &[]);
        assert_names_who_made_it_late(&told, AT_A_THRESHOLD_NS);
    }
}

mod lab_full {
    use super::*;

    #[test]
    fn a_guest_that_is_always_on_asks_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("vmnoise-serve");
        // With debug information, the program would fill the guest's memory.
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&program).arg(PROGRAM);
        assert!(strip.status().unwrap().success());
        let told = run(&ASKS_BY_ITSELF, &[&program]);
        assert_names_who_made_it_late(&told, BY_ITSELF_NS);
    }
}
