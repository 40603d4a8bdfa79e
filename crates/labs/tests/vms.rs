//! Several VMs, each of which something is done to, in one run of `vmnoise exits` on a
//! stock kernel's own kvm_amd: held against what KVM and the scheduler count of them.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

use serde_json::Value;
use vmnoise_labs::bed::{CommandOutput, Kernel, Lab, LabReport};
use vmnoise_labs::lab_program;
use vmnoise_labs::vmm_steps::{Counts, Treatment};

/// Every tick of a kernel of Debian for the cloud.
const TICK_NS: u64 = 4_000_000;
/// What the kernel says when something is wrong with it.
const COMPLAINTS: [&str; 6] = ["WARNING", "BUG", "Oops", "Call Trace", "stall", "hung"];

/// Runs `vmnoise exits` beside these treatments of VMs, in a machine of two CPUs.
fn exits_beside(lab: Lab, treatments: &[&str]) -> (LabReport, Value, Vec<Treatment>) {
    let mut commands = vec!["&& vmnoise exits -d 5m --format json"];
    commands.extend(treatments);
    commands.push("lab-vmm untrace --");
    let program = |name| lab_program(name).unwrap();
    let lab = lab.program(&program("lab-vmm"));
    let report = lab.program(&program("lab-disturb")).run(&commands).unwrap();
    for complaint in COMPLAINTS {
        assert!(!report.console.contains(complaint), "{}", report.console);
    }
    // Those that were waited for only at the end come last, and the first of them first.
    let is_beside = |command: &&&str| command.starts_with("&&");
    let at_the_end = commands.iter().filter(is_beside).count();
    let (in_turn, beside) = report.outputs.split_at(commands.len() - at_the_end);
    let exits = beside[0].json().unwrap();
    assert_eq!(exits["schema"], "vmnoise.exits/1");
    assert_eq!(
        (&exits["lost_events"], &exits["losses"]["vcpus_full"]),
        (&0.into(), &0.into())
    );
    let (mut in_turn, mut beside) = (in_turn.iter(), beside[1..].iter());
    let outputs = treatments
        .iter()
        .map(|command| match command.starts_with("&&") {
            true => treatment(beside.next().unwrap()),
            false => treatment(in_turn.next().unwrap()),
        });
    let treatments = outputs.collect();
    (report, exits, treatments)
}

fn treatment(output: &CommandOutput) -> Treatment {
    serde_json::from_str(output.text().unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("no number: {value}"))
}

/// The vCPUs of one VM, each of which adds up.
fn vcpus<'a>(exits: &'a Value, treatment: &Treatment) -> &'a [Value] {
    let mut vms = list(&exits["vms"]).iter();
    let vm = vms.find(|vm| vm["vm"] == treatment.pid);
    let vcpus = list(&vm.unwrap_or_else(|| panic!("VM {} is missing", treatment.pid))["vcpus"]);
    for (number_of, vcpu) in vcpus.iter().enumerate() {
        assert_eq!(vcpu["vcpu"], number_of, "{vcpus:#?}");
        assert_adds_up(vcpu);
    }
    vcpus
}

fn assert_adds_up(vcpu: &Value) {
    let sum = |times: &Value| -> u64 {
        let parts = times.as_object().unwrap().values();
        parts.map(number).sum()
    };
    let reasons = || list(&vcpu["reasons"]).iter();
    let all = |key: &str| -> u64 { reasons().map(|row| number(&row[key])).sum() };
    for row in reasons() {
        assert_eq!(sum(&row["shares_ns"]), number(&row["total_ns"]), "{row}");
    }
    assert_eq!(all("count"), number(&vcpu["exits"]));
    assert_eq!(all("heavy"), number(&vcpu["heavy"]));
    let times = &vcpu["time_ns"];
    assert_eq!(all("total_ns"), sum(times) - number(&times["guest"]));
    for exit in list(&vcpu["worst"]) {
        assert_eq!(sum(&exit["shares_ns"]), number(&exit["dur_ns"]), "{exit}");
    }
}

/// All exits of a VM, or those for one reason.
fn counted(vcpus: &[Value], reason: Option<&str>) -> u64 {
    let rows = vcpus.iter().flat_map(|vcpu| list(&vcpu["reasons"]));
    rows.filter(|row| reason.is_none_or(|reason| row["name"] == reason))
        .map(|row| number(&row["count"]))
        .sum()
}

/// A vCPU that stands still does so within an exit, which KVM has counted and nobody has
/// seen the end of. All before it are the same for both.
fn assert_kvm_counts_the_same(vcpus: &[Value], counts: &Counts) {
    let unended = vcpus.len() as u64;
    let kvm = &counts.kvm;
    assert_eq!(counted(vcpus, None) + unended, kvm["exits"], "{kvm:?}");
    let mut ahead = 0;
    for (name, reason) in [
        ("io_exits", "io"),
        ("halt_exits", "hlt"),
        ("irq_exits", "interrupt"),
        ("pf_taken", "npf"),
    ] {
        let (theirs, ours) = (kvm[name], counted(vcpus, Some(reason)));
        assert!(
            (ours..=ours + unended).contains(&theirs),
            "{reason}: {ours}, {kvm:?}"
        );
        ahead += theirs - ours;
    }
    assert!(ahead <= unended, "{kvm:?}");
}

/// A share of a vCPU, nanoseconds.
fn share_ns(vcpu: &Value, share: &str) -> u64 {
    number(&vcpu["time_ns"][share])
}

fn interrupts_ns(vcpu: &Value) -> u64 {
    let shares = ["host_irq", "host_softirq", "host_nmi"];
    shares.iter().map(|share| share_ns(vcpu, share)).sum()
}

/// What waited runnable, by the scheduler and by us. The vCPU's thread has waited before
/// its first entry too, which the first reading bounds.
fn assert_waited(vcpu: &Value, treatment: &Treatment) -> u64 {
    let delays: Vec<u64> = treatment
        .readings()
        .iter()
        .map(|counts| counts.vcpus[0].run_delay_ns)
        .collect();
    let [early_ns, late_ns] = delays[..] else {
        panic!("{delays:?}")
    };
    let waited_ns = share_ns(vcpu, "preempted") + share_ns(vcpu, "throttled");
    let tolerance_ns = TICK_NS.max(late_ns / 50);
    assert!(waited_ns <= late_ns + tolerance_ns, "{delays:?}, {vcpu}");
    assert!(
        waited_ns + interrupts_ns(vcpu) + tolerance_ns >= late_ns - early_ns,
        "{delays:?}, {vcpu}"
    );
    println!("waited {waited_ns} ns, run delay {early_ns} ns at first, {late_ns} ns at last");
    late_ns - early_ns
}

mod lab {
    use super::*;

    const EXERCISE: &str = "vmnoise microvm -d 5m --exercise";

    #[test]
    fn each_vm_has_its_own_numbers_whatever_is_done_to_it() {
        let treat =
            |steps: &str, exercise: &str| format!("lab-vmm {steps} -- {EXERCISE} {exercise}");
        // The set-up of a guest makes 600 exits.
        let treatments = [
            // All the time, beside the others.
            format!(
                "&& {}",
                treat("traced start exits:5000 stop read kill", "cpuid -c 0,1")
            ),
            treat("traced start exits:1000 kill", "io -c 1"),
            treat(
                "start exits:1000 stop read cont hog:1 waited:300 unhog stop read kill",
                "cpuid -c 1",
            ),
            treat(
                "start exits:1000 stop run:300 cont exits:100 stop read kill",
                "io -c 1",
            ),
            treat(
                "start exits:1000 stop read cont quota:5000:20000 waited:300 stop read kill",
                "cpuid -c 1",
            ),
            treat(
                "start exits:1000 stop read cont migrate:100:3000 exits:1000 stop read kill",
                "hlt -c 1",
            ),
        ];
        let treatments: Vec<&str> = treatments.iter().map(String::as_str).collect();
        let lab = Lab::kernel(Kernel::Cloud).cpus(2);
        let (_, exits, treatments) = exits_beside(lab, &treatments);
        assert_eq!(list(&exits["vms"]).len(), treatments.len(), "{exits}");
        let [two, killed, hogged, stopped, throttled, moved] = &treatments[..] else {
            panic!("{}", treatments.len())
        };
        for treatment in &treatments {
            let vcpus = vcpus(&exits, treatment);
            if let Some(counts) = treatment.readings().last() {
                assert_kvm_counts_the_same(vcpus, counts);
                for (vcpu, theirs) in vcpus.iter().zip(&counts.vcpus) {
                    assert_eq!(number(&vcpu["tid"]), u64::from(theirs.tid));
                }
            }
        }

        assert_eq!(vcpus(&exits, two).len(), 2);
        assert!(counted(vcpus(&exits, two), Some("cpuid")) > 100);
        // What it did up to its death is kept.
        assert!(counted(vcpus(&exits, killed), Some("io")) > 100);

        let hogged_vcpu = &vcpus(&exits, hogged)[0];
        assert!(assert_waited(hogged_vcpu, hogged) > 100_000_000);
        assert!(share_ns(hogged_vcpu, "preempted") > 100_000_000);

        let stopped_vcpu = &vcpus(&exits, stopped)[0];
        let (stop, cont) = (stopped.all("stop")[0], stopped.all("cont")[0]);
        // It slept at least from the end of the one to the begin of the other, and at most
        // while it had not made another exit.
        let least_ns = cont.begin_mono_ns - stop.end_mono_ns;
        let most_ns = stopped.all("exits:100")[0].end_mono_ns - stop.begin_mono_ns;
        let blocked_ns = share_ns(stopped_vcpu, "blocked");
        println!("blocked {blocked_ns} ns, stopped for {least_ns} to {most_ns} ns");
        assert!((least_ns..=most_ns).contains(&blocked_ns), "{stopped_vcpu}");

        let throttled_vcpu = &vcpus(&exits, throttled)[0];
        assert_waited(throttled_vcpu, throttled);
        let throttled_ns = share_ns(throttled_vcpu, "throttled");
        let group_ns = throttled.readings()[1].throttled_ns.unwrap();
        println!("throttled {throttled_ns} ns, its group {group_ns} ns");
        assert!(throttled_ns > 100_000_000 && throttled_ns <= group_ns + TICK_NS);

        let migrations = moved.readings()[1].vcpus[0].migrations;
        println!("moved {migrations} times");
        assert!(migrations > 50, "{moved:?}");
        assert!(counted(vcpus(&exits, moved), Some("hlt")) > 100);
    }
}
