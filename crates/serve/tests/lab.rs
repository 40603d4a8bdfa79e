//! `vmnoise-serve` on stock kernels whose KVM is a module and whose guests are Linux.

use std::path::Path;

use vmnoise_labs::bed::{Kernel, Lab, Suite};
use vmnoise_labs::installed::{LOADER, with_libraries};
use vmnoise_labs::lab_program;

use crate::harness::{Metrics, PROGRAM};

/// What the guest does: it sleeps for 2 s, which its kernel halts for, and polls for 2 s.
const GUEST: [&str; 2] = ["lab-tracefs for 2", "vmnoise osnoise -d 2s"];
/// The user nobody, with the two capabilities that docs/serve.md names.
const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,+bpf,+perfmon \
                         --ambient-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon";
/// It polls beside a task that never sleeps, and beside vhost's worker of its own device.
const COMMANDS: [&str; 6] = [
    "& lab-guest boot -name guest=web,debug-threads=on -no-shutdown -device vhost-vsock-pci,guest-cid=3",
    "lab-guest told 1",
    "& lab-disturb busy 0",
    "& lab-disturb vsock 3",
    "lab-guest told 2",
    "lab-scrape 127.0.0.1:9752",
];

pub fn assert_serves_on(kernel: Kernel, suite: Suite) {
    // In virtual time, so that the guest has nothing left to do of its boot when it is to sleep.
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
    let serve = format!("& {LOADER} /bin/{AS_NOBODY} /bin/vmnoise-serve");
    let commands = [&["lab-scrape up", &serve], &COMMANDS[..]].concat();
    let report = lab.program(Path::new(PROGRAM)).run(&commands).unwrap();
    println!("{suite:?} {kernel:?}: Linux {}", report.kernel_version);
    for output in &report.outputs {
        output.text().unwrap();
    }
    let metrics = Metrics::of_text(&report.outputs.last().unwrap().stdout);
    let of = |name: &str, labels: &str| metrics.of(&format!("{name}{{vm=\"web\",{labels}}}"));

    let halted = of("vmnoise_vcpu_time_seconds_total", "state=\"halted\"");
    let running = of("vmnoise_vcpu_time_seconds_total", "state=\"running\"");
    let unseen = of("vmnoise_vcpu_lost_seconds_total", "share=\"unseen\"");
    let blamed = of(
        "vmnoise_vcpu_culprit_seconds_total",
        "kind=\"foreign\",culprit=\"lab-disturb\"",
    );
    println!("halted {halted} s, running {running} s, unseen {unseen} s, lab-disturb {blamed} s");
    // Two seconds of sleep, but for what wakes a kernel that sleeps: its tick and its timers.
    assert!(halted > 1.5, "{halted}");
    // Two that never sleep share the CPU by halves for 2 s; a slice of the scheduler is some ms.
    assert!(blamed > 0.9 && running > 0.9, "{blamed}, {running}");
    // It is found within a second of its first instruction.
    assert!(unseen < 1.0, "{unseen}");
    assert_eq!(metrics.of("vmnoise_events_missed_total"), 0.0);
    let by = |kind: &str| {
        let who =
            format!("vmnoise_vcpu_culprit_seconds_total{{vm=\"web\",kind=\"{kind}\",culprit=\"");
        let culprits = metrics.beginning(&who);
        let of_worker = culprits
            .iter()
            .filter(|(name, _)| name.starts_with("vhost-"));
        of_worker.map(|(_, seconds)| seconds).sum::<f64>()
    };
    println!("vhost's worker {} s as its own", by("own"));
    assert_eq!(by("foreign"), 0.0, "it works for its VM");
    // Before 6.4 it is a thread of the kernel, with a name of its own.
    assert_eq!(by("own") > 0.0, report.kernel_version.starts_with("6.1."));
}

mod own_suite {
    use super::*;

    #[test]
    fn cloud() {
        assert_serves_on(Kernel::Cloud, Suite::Own);
    }
}
