//! Compares every exit in the output of `vmnoise exits trace` with the KVM tracepoints that tracefs
//! recorded in the same run, under virtual time.

use serde_json::Value;
use vmnoise_testbed::bed::{DebianKernel, DebianSuite, Lab};
use vmnoise_testbed::lab_program;
use vmnoise_testbed::oracle::vm_exits::{reported, witnessed};
use vmnoise_testbed::vmm_steps::Treatment;

const EXERCISES: [(&str, &str); 3] = [("cpuid", "cpuid"), ("io", "io"), ("hlt", "hlt")];
/// Limit of a time difference, nanoseconds. tracefs reports times in microseconds. One tracepoint
/// calls tracefs and our program one after the other, so they read the clock at different times.
const CLOSE_NS: u64 = 4_000;

/// Compares all exits. Before Linux 6.12, kvm_exit fires on SVM with interrupts on. Then the
/// interrupt that caused the exit runs before kvm_exit, and the exit starts with this interrupt.
fn assert_agrees_with_tracefs(suite: DebianSuite, begins_before: bool) {
    let mut commands = vec![
        "&& lab-tracefs while buffer_size_kb=8192 trace_clock=mono events/kvm/kvm_exit/enable=1 \
         events/kvm/kvm_entry/enable=1 events/irq_vectors/enable=1 events/irq/enable=1 \
         events/sched/sched_switch/enable=1 -- vmnoise exits trace -T 0 -d 5m"
            .to_owned(),
    ];
    commands.extend(EXERCISES.iter().map(|(name, _)| {
        let exercise = format!("vmnoise microvm --exercise {name} -d 20ms --format json");
        format!("lab-vmm traced start read end -- {exercise}")
    }));
    // tracefs keeps its trace a moment after the end of `exits`.
    commands.push("lab-vmm untrace run:500 --".to_owned());
    commands.push("lab-tracefs show".to_owned());
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let lab = ["lab-vmm", "lab-tracefs"].iter().fold(
        Lab::kernel(DebianKernel::Cloud).from(suite),
        |lab, program| lab.program(&lab_program(program).unwrap()),
    );
    let report = lab.virtual_time(0).run(&commands).unwrap();
    println!("{}", report.kernel_version);
    let kernels = report.outputs[EXERCISES.len() + 1].text().unwrap();
    let ours = reported(report.outputs.last().unwrap().text().unwrap()).unwrap();
    assert_eq!(ours.len(), EXERCISES.len(), "{:?}", ours.keys());
    let mut before = 0;
    for ((name, reason), output) in EXERCISES.iter().zip(&report.outputs) {
        let treatment: Treatment = serde_json::from_str(output.text().unwrap()).unwrap();
        let ours = &ours[&treatment.pid.to_string()];
        let tid = treatment.readings()[0].vcpus[0].tid;
        let kernels = witnessed(kernels, tid).unwrap();
        assert_eq!(ours.len(), kernels.len(), "{name}");
        let mut furthest = (0, 0);
        let (mut timers, mut made) = (0, 0);
        for (ours, kernels) in ours.iter().zip(&kernels) {
            assert_eq!(ours.reason, kernels.reason, "{ours:?}, {kernels:?}");
            assert_eq!(ours.cpus, kernels.cpus, "{ours:?}, {kernels:?}");
            let sum: u64 = ours.parts.iter().map(|(_, ns, _)| ns).sum();
            assert_eq!(sum, ours.dur_ns, "{ours:?}");
            let late = [
                ours.start_ns.abs_diff(kernels.first_ns),
                (ours.start_ns + ours.dur_ns).abs_diff(kernels.entry_ns),
            ];
            assert!(
                late.iter().all(|&ns| ns <= CLOSE_NS),
                "{ours:?}, {kernels:?}"
            );
            furthest = (furthest.0.max(late[0]), furthest.1.max(late[1]));
            assert_eq!(
                ours.has_timer(),
                kernels.timers > 0,
                "{ours:?}, {kernels:?}"
            );
            timers += kernels.timers;
            before += u64::from(kernels.first_ns < kernels.exit_ns);
            made += u64::from(ours.reason == *reason);
        }
        println!(
            "{name}: {} exits, {made} of them {reason}, {timers} timer interrupts in them; begins and ends within {furthest:?} ns",
            ours.len()
        );
        assert!(made > 100 && timers > 0);
    }
    // If an exercise halts most of the time, timers fire within its exits.
    assert_eq!(before > 0, begins_before, "{before}");
}

mod virtual_time {
    use super::*;

    #[test]
    fn every_exit_is_as_tracefs_has_it() {
        assert_agrees_with_tracefs(DebianSuite::Own, true);
    }

    #[test]
    fn a_hog_is_named_and_the_vm_beside_it_has_none() {
        let programs = ["lab-vmm", "lab-disturb"];
        let lab = programs
            .iter()
            .fold(Lab::kernel(DebianKernel::Cloud), |lab, program| {
                lab.program(&lab_program(program).unwrap())
            });
        let report = lab
            .virtual_time(2)
            .run(&[
                "&& vmnoise exits trace -T 100 -d 5m -o /tmp/exits.vmn",
                "lab-vmm traced start read end -- vmnoise microvm --exercise cpuid -d 20ms",
                "lab-vmm start hog:0 waited:60 unhog read kill -- \
                 vmnoise microvm --exercise io -d 5m",
                "lab-vmm untrace run:500 --",
                "vmnoise explain /tmp/exits.vmn --format json",
            ])
            .unwrap();
        let [quiet, hogged, _, summary, trace] = &report.outputs[..] else {
            panic!("{}", report.outputs.len())
        };
        let summary: Value = serde_json::from_str(summary.text().unwrap()).unwrap();
        assert_eq!(summary["lost_events"], 0, "{}", summary["losses"]);
        let reported = reported(trace.text().unwrap()).unwrap();
        let [quiet, hogged] = [quiet, hogged]
            .map(|it| serde_json::from_str::<Treatment>(it.text().unwrap()).unwrap());
        let hog = hogged.all("hog:0")[0].hog.clone().unwrap();
        let had_ns = |treatment: &Treatment| -> u64 {
            let exits = reported.get(&treatment.pid.to_string());
            let parts = exits.into_iter().flatten().flat_map(|exit| &exit.parts);
            let of_hog = parts.filter(|(_, _, by)| by.as_deref() == Some(&hog));
            let of_hog: Vec<_> = of_hog.collect();
            assert!(of_hog.iter().all(|(share, ..)| share == "preempted"));
            of_hog.iter().map(|(_, ns, _)| ns).sum()
        };
        let vms = summary["vms"].as_array().unwrap();
        let vm = vms.iter().find(|vm| vm["vm"] == hogged.pid).unwrap();
        let preempted_ns = vm["vcpus"][0]["time_ns"]["preempted"].as_u64().unwrap();
        let of_hog_ns = had_ns(&hogged);
        println!("{hog} had {of_hog_ns} ns of {preempted_ns} ns preempted");
        assert!((40_000_000..=preempted_ns).contains(&of_hog_ns), "{vm}");
        assert_eq!(had_ns(&quiet), 0);
    }
}

mod lab_full {
    use super::*;

    mod trixie {
        use super::*;

        #[test]
        fn every_exit_is_as_tracefs_has_it() {
            assert_agrees_with_tracefs(DebianSuite::Trixie, false);
        }
    }

    mod trixie_backports {
        use super::*;

        #[test]
        fn every_exit_is_as_tracefs_has_it() {
            assert_agrees_with_tracefs(DebianSuite::TrixieBackports, false);
        }
    }
}
