//! Runs `vmnoise exits` while `lab-vmm` treats VMs, and checks the result.

use serde_json::Value;
use vmnoise_testbed::bed::{CommandOutput, Lab, LabReport};
use vmnoise_testbed::judge::{HOST_INTERRUPTS, assert_vcpu_adds_up};
use vmnoise_testbed::lab_program;
use vmnoise_testbed::vmm_steps::{Counts, Treatment};

/// Time between two ticks of Debian's cloud kernels, nanoseconds.
pub const TICK_NS: u64 = 4_000_000;
/// Words that occur in the kernel's error messages.
const COMPLAINTS: [&str; 6] = ["WARNING", "BUG", "Oops", "Call Trace", "stall", "hung"];

/// Results of `vmnoise exits`, and of the commands that ran at the same time.
pub struct ExitsComparison {
    pub report: LabReport,
    /// Result of `vmnoise exits`, with schema `vmnoise.exits/1`.
    pub exits: Value,
    /// One record per `lab-vmm` command, in the order of the commands.
    pub treatments: Vec<Treatment>,
    /// One output per other command, in the order of the commands.
    pub others: Vec<CommandOutput>,
}

/// Runs these commands in a lab while `vmnoise exits` runs.
pub fn exits_beside(lab: Lab, commands: &[&str]) -> ExitsComparison {
    let mut all = vec!["&& vmnoise exits -d 5m --format json"];
    all.extend(commands);
    all.push("lab-vmm untrace --");
    let program = |name| lab_program(name).unwrap();
    let lab = lab.program(&program("lab-vmm"));
    let report = lab.program(&program("lab-disturb")).run(&all).unwrap();
    for complaint in COMPLAINTS {
        assert!(!report.console.contains(complaint), "{}", report.console);
    }
    // Outputs of commands that the lab waits for at the end come last, in order.
    let is_beside = |command: &str| command.starts_with("&& ");
    let at_the_end = all.iter().filter(|command| is_beside(command)).count();
    let (in_turn, beside) = report.outputs.split_at(all.len() - at_the_end);
    let exits = beside[0].json().unwrap();
    assert_eq!(exits["schema"], "vmnoise.exits/1");
    assert_eq!(exits["lost_events"], 0);
    assert_eq!(exits["losses"]["vcpus_full"], 0);
    let (mut in_turn, mut beside) = (in_turn.iter(), beside[1..].iter());
    let (mut treatments, mut others) = (Vec::new(), Vec::new());
    for command in commands {
        let outputs = if is_beside(command) {
            &mut beside
        } else {
            &mut in_turn
        };
        let output = outputs.next().unwrap();
        if command.contains("lab-vmm ") {
            treatments.push(serde_json::from_str(output.text().unwrap()).unwrap());
        } else {
            others.push(output.clone());
        }
    }
    ExitsComparison {
        report,
        exits,
        treatments,
        others,
    }
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

pub fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("no number: {value}"))
}

/// Returns the vCPUs of one VM. First asserts that the times of each vCPU add up.
pub fn vcpus<'a>(exits: &'a Value, treatment: &Treatment) -> &'a [Value] {
    let mut vms = list(&exits["vms"]).iter();
    let vm = vms.find(|vm| vm["vm"] == treatment.pid);
    let vcpus = list(&vm.unwrap_or_else(|| panic!("VM {} is missing", treatment.pid))["vcpus"]);
    for (number_of, vcpu) in vcpus.iter().enumerate() {
        assert_eq!(vcpu["vcpu"], number_of, "{vcpus:#?}");
        assert_vcpu_adds_up(vcpu);
    }
    vcpus
}

/// Returns the number of a VM's exits with this reason. Without a reason, returns the number of all
/// exits.
pub fn counted(vcpus: &[Value], reason: Option<&str>) -> u64 {
    let rows = vcpus.iter().flat_map(|vcpu| list(&vcpu["reasons"]));
    rows.filter(|row| reason.is_none_or(|reason| row["name"] == reason))
        .map(|row| number(&row["count"]))
        .sum()
}

/// Asserts that we count the same exits as KVM. If a vCPU is stopped, it is within an exit. KVM has
/// already counted this exit, but we have not, because it has not ended.
pub fn assert_kvm_counts_the_same(vcpus: &[Value], counts: &Counts) {
    let unended = vcpus.len() as u64;
    let kvm = &counts.kvm;
    assert_eq!(counted(vcpus, None) + unended, kvm["exits"], "{kvm:?}");
    let mut ahead = 0;
    for (name, reason) in [
        ("io_exits", "io"),
        ("halt_exits", "hlt"),
        ("irq_exits", "interrupt"),
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

/// Returns the time of a vCPU in this share, nanoseconds.
pub fn share_ns(vcpu: &Value, share: &str) -> u64 {
    number(&vcpu["time_ns"][share])
}

pub fn interrupts_ns(vcpu: &Value) -> u64 {
    let shares = HOST_INTERRUPTS.iter();
    shares.map(|share| share_ns(vcpu, share)).sum()
}

/// Compares two values of the time for which the vCPU was runnable without a CPU: the scheduler's
/// and ours. The time is from the first read to the second. The vCPU's thread also waited before it
/// first entered the guest, and the first read limits this wait. We count an exit when it ends, so
/// the third read limits the exit during the second read.
pub fn assert_waited(vcpu: &Value, treatment: &Treatment) -> u64 {
    let delays: Vec<u64> = treatment
        .readings()
        .iter()
        .map(|counts| counts.vcpus[0].run_delay_ns)
        .collect();
    let [early_ns, late_ns, last_ns] = delays[..] else {
        panic!("{delays:?}")
    };
    let waited_ns = share_ns(vcpu, "preempted") + share_ns(vcpu, "throttled");
    let tolerance_ns = TICK_NS.max(late_ns / 50);
    assert!(waited_ns <= last_ns + tolerance_ns, "{delays:?}, {vcpu}");
    assert!(
        waited_ns + interrupts_ns(vcpu) + tolerance_ns >= late_ns - early_ns,
        "{delays:?}, {vcpu}"
    );
    println!("waited {waited_ns} ns, run delay {delays:?} ns");
    late_ns - early_ns
}
