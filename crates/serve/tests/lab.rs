//! Tests `vmnoise-serve` on stock kernels. KVM is a module there, and the guests run Linux.

use std::path::Path;

use vmnoise_testbed::bed::{DebianKernel, DebianSuite, Lab};
use vmnoise_testbed::installed::{LOADER, with_libraries};
use vmnoise_testbed::lab_program;

use crate::harness::{Metrics, PROGRAM};

/// Commands of the guest. The first does nothing, and shows that the guest has booted. The guest
/// then sleeps for 2 s, in which its kernel halts, and polls for 2 s. At the end it sleeps while
/// its exits are recorded.
const GUEST: [&str; 5] = [
    "lab-tracefs for 2",
    "lab-tracefs for 2",
    "vmnoise osnoise -d 2s",
    "vmnoise osnoise -d 1s",
    "lab-tracefs for 30",
];
/// Command prefix for the user nobody with the two capabilities that docs/serve.md names.
const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,+bpf,+perfmon \
                         --ambient-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon";
/// Reads the metrics, and the scheduler counters of the vCPU and of the disturber.
const LOOK: &str = "lab-scrape 127.0.0.1:9752 CPU lab-disturb vhost-";
/// Commands of the host. The VM polls next to a task that never sleeps. Afterwards it also polls
/// next to vhost's worker for its own device.
const COMMANDS: [&str; 11] = [
    "& lab-guest boot -name guest=web,debug-threads=on -no-shutdown -device vhost-vsock-pci,guest-cid=3",
    "lab-guest told 1",
    LOOK,
    "lab-guest told 2",
    LOOK,
    "& lab-disturb busy 0",
    "lab-guest told 3",
    LOOK,
    "& lab-disturb vsock 3",
    "lab-guest told 4",
    LOOK,
];
/// Commands of the host that record exits by another server. If KVM is a module, only root can read
/// its types. The VM has a turn 2 s after it was found. A debug build takes some seconds to start
/// here.
const EXITS: [&str; 3] = [
    "& vmnoise-serve --listen 127.0.0.1:9753 --cost-limit 100 --exits-on 1/2",
    "lab-tracefs for 14",
    "lab-scrape 127.0.0.1:9753",
];
/// Tolerance in s at the ends of a window. The kernel reports the time on a CPU up to the last tick
/// (4 ms at 250 Hz). A wait during a scrape lasts one slice of the scheduler (3 ms), and is counted
/// only when it ends.
const SLICE: f64 = 2.0 * (0.004 + 0.003);
/// Relative tolerance. Both sides read the clock some us apart.
const STAMPS: f64 = 0.02;

/// Returns the increase of the sum of these series between the two scrapes.
fn between(looks: &[Metrics], series: &[String]) -> f64 {
    let sum = |look: &Metrics| series.iter().map(|name| look.of(name)).sum::<f64>();
    sum(&looks[1]) - sum(&looks[0])
}

/// Returns the least and the largest possible increase of a series of the lab. Its values are read
/// before and after each scrape, which takes some time.
fn bounds(looks: &[Metrics], series: &str) -> (f64, f64) {
    let of = |look: usize, when: &str| looks[look].of(&series.replace("LOOK", when));
    (
        of(1, "before") - of(0, "after"),
        of(1, "after") - of(0, "before"),
    )
}

fn thread(looks: &[Metrics], name: &str, kind: &str) -> (f64, f64) {
    bounds(
        looks,
        &format!("lab_thread_seconds{{thread=\"{name}\",kind=\"{kind}\",look=\"LOOK\"}}"),
    )
}

fn hold(what: &str, told: f64, (least, most): (f64, f64)) {
    println!("{what}: {told:.3} s, by the scheduler {least:.3} to {most:.3} s");
    let (least, most) = (
        least * (1.0 - STAMPS) - SLICE,
        most * (1.0 + STAMPS) + SLICE,
    );
    assert!(
        (least..=most).contains(&told),
        "{what}: {told} s, not {least} to {most} s"
    );
}

/// Increase of the scheduler counters of the threads in a window, as least and largest possible
/// values.
struct Scheduler {
    ran: (f64, f64),
    waited: (f64, f64),
    slept: (f64, f64),
    disturbed: (f64, f64),
}

impl Scheduler {
    fn of(looks: &[Metrics]) -> Scheduler {
        let (ran, waited) = (
            thread(looks, "CPU", "on_cpu"),
            thread(looks, "CPU", "run_delay"),
        );
        let wall = bounds(looks, "lab_uptime_seconds{look=\"LOOK\"}");
        Scheduler {
            ran,
            waited,
            slept: (wall.0 - ran.1 - waited.1, wall.1 - ran.0 - waited.0),
            disturbed: thread(looks, "lab-disturb", "on_cpu"),
        }
    }
}

fn lost(share: &str) -> String {
    format!("vmnoise_vcpu_lost_seconds_total{{vm=\"web\",share=\"{share}\"}}")
}

fn time(state: &str) -> String {
    format!("vmnoise_vcpu_time_seconds_total{{vm=\"web\",state=\"{state}\"}}")
}

pub fn assert_serves_on(kernel: DebianKernel, suite: DebianSuite) {
    // The lab uses virtual time, so that the guest has booted before it is to sleep.
    let mut lab = Lab::kernel(kernel)
        .from(suite)
        .virtual_time(0)
        .vhost()
        .guest(&GUEST);
    for program in ["lab-scrape", "lab-guest", "lab-tracefs", "lab-disturb"] {
        lab = lab.program(&lab_program(program).unwrap());
    }
    for file in with_libraries("setpriv", "util-linux").unwrap() {
        lab = lab.program(&file);
    }
    // A debug build on an emulated CPU exceeds the default cost limit.
    let serve = format!("& {LOADER} /bin/{AS_NOBODY} /bin/vmnoise-serve --cost-limit 100");
    let commands = [&["lab-scrape up", &serve], &COMMANDS[..], &EXITS].concat();
    let lab = lab.program_of_host(Path::new(PROGRAM));
    let report = lab.run(&commands).unwrap();
    println!("{suite:?} {kernel:?}: Linux {}", report.kernel_version);
    let mut looks = Vec::new();
    let mut exits = Metrics::of_text("");
    for output in &report.outputs {
        output.text().unwrap();
        if output
            .stdout
            .contains("vmnoise_exits_sampled_seconds_total")
        {
            exits = Metrics::of_text(&output.stdout);
        } else if output.stdout.contains("lab_uptime_seconds") {
            looks.push(Metrics::of_text(&output.stdout));
        }
    }
    assert_eq!(
        looks.len(),
        4,
        "two stretches, and one beside vhost's worker"
    );
    for (what, looks) in [("that sleeps", &looks[..2]), ("that polls", &looks[1..3])] {
        println!("a guest {what}");
        let scheduler = Scheduler::of(looks);
        let told = |series: &[String]| between(looks, series);
        hold("running", told(&[time("running")]), scheduler.ran);
        let waited = ["preempted", "throttled", "idle", "unsure"].map(lost);
        hold("waiting", told(&waited), scheduler.waited);
        // The vCPU sleeps only because its guest halts.
        hold("halted", told(&[time("halted")]), scheduler.slept);
        assert_eq!(told(&[lost("unseen")]), 0.0);
        // The task that never sleeps has the CPU while the vCPU waits or sleeps.
        let culprit = "vmnoise_vcpu_culprit_seconds_total{vm=\"web\",kind=\"foreign\",culprit=\"lab-disturb\"}";
        let (least, most) = scheduler.disturbed;
        let blamed = (least - scheduler.slept.1, most.min(scheduler.waited.1));
        hold("lab-disturb", told(&[culprit.to_owned()]), blamed);
    }

    let last = &looks[2];
    let unseen = &lost("unseen");
    // The vCPU is found within a second of its first instruction.
    assert!(last.of(unseen) < 1.0, "{}", last.of(unseen));
    let last = &looks[3];
    assert_eq!(last.of("vmnoise_events_missed_total"), 0.0);
    let by = |kind: &str| {
        let who =
            format!("vmnoise_vcpu_culprit_seconds_total{{vm=\"web\",kind=\"{kind}\",culprit=\"");
        let culprits = last.beginning(&who);
        let of_worker = culprits
            .iter()
            .filter(|(name, _)| name.starts_with("vhost-"));
        of_worker.map(|(_, seconds)| seconds).sum::<f64>()
    };
    let (_, most) = thread(&looks[2..4], "vhost-", "on_cpu");
    println!(
        "vhost's worker: {} s as its own, by the scheduler at most {most} s",
        by("own")
    );
    assert!(by("own") <= most * (1.0 + STAMPS));
    assert_eq!(by("foreign"), 0.0, "it works for its VM");
    // Before Linux 6.4, vhost's worker is a kernel thread with its own name.
    assert_eq!(by("own") > 0.0, report.kernel_version.starts_with("6.1."));

    let looked = exits.of("vmnoise_exits_sampled_seconds_total{vm=\"web\"}");
    let reasons = exits.beginning("vmnoise_exits_sampled_total{vm=\"web\"");
    println!("in {looked} s: {reasons:?}");
    // A turn lasts at least one second.
    assert!(looked >= 1.0, "{looked}");
    // An idle Linux guest halts, and its timers wake it.
    let halts = exits.of("vmnoise_exits_sampled_total{vm=\"web\",reason=\"hlt\"}");
    assert!(halts > 0.0, "{reasons:?}");
}
