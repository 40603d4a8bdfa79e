//! Tests one run of `vmnoise exits` for several VMs, each of which is treated in another way, on a
//! stock kernel's own kvm_amd. Compares the result with the counts of KVM and of the scheduler.

mod lab {
    use std::time::Duration;

    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::judge::assert_stopped;

    use crate::exits_judge::*;

    const EXERCISE: &str = "vmnoise microvm -d 5m --exercise";

    #[test]
    fn each_vm_has_its_own_numbers_whatever_is_done_to_it() {
        let treat =
            |steps: &str, exercise: &str| format!("lab-vmm {steps} -- {EXERCISE} {exercise}");
        // The set-up of a guest causes 600 exits.
        let treatments = [
            // This VM runs all the time, in parallel with the others.
            format!(
                "&& {}",
                treat("traced start exits:5000 stop read kill", "cpuid -c 0,1")
            ),
            treat("traced start exits:1000 kill", "io -c 1"),
            treat(
                "start exits:1000 stop read cont hog:1 waited:300 unhog stop read \
                 cont exits:10 stop read kill",
                "cpuid -c 1",
            ),
            treat(
                "start exits:1000 stop undisturbed:1:300 cont exits:100 stop read kill",
                "io -c 1",
            ),
            treat(
                "start exits:1000 stop read cont quota:5000:20000 waited:300 stop read \
                 cont exits:10 stop read kill",
                "cpuid -c 1",
            ),
            treat(
                "start exits:1000 stop read cont migrate:100:3000 exits:1000 stop read kill",
                "hlt -c 1",
            ),
        ];
        let treatments: Vec<&str> = treatments.iter().map(String::as_str).collect();
        let lab = Lab::kernel(DebianKernel::Cloud).cpus(2);
        let ExitsComparison {
            exits, treatments, ..
        } = exits_beside(lab, &treatments);
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
        // The exits before the VMM was killed are kept.
        assert!(counted(vcpus(&exits, killed), Some("io")) > 100);

        let hogged_vcpu = &vcpus(&exits, hogged)[0];
        assert!(assert_waited(hogged_vcpu, hogged) > 100_000_000);
        assert!(share_ns(hogged_vcpu, "preempted") > 100_000_000);

        let stopped_vcpu = &vcpus(&exits, stopped)[0];
        let (stop, polled) = (stopped.all("stop")[0], stopped.all("undisturbed:1:300")[0]);
        // The vCPU slept at least while another thread polled on its CPU, and at most until it made
        // another exit.
        let (from, to) = (stop.begin_mono_ns, stopped.all("exits:100")[0].end_mono_ns);
        let least = polled.undisturbed.unwrap();
        let blocked_ns = share_ns(stopped_vcpu, "blocked");
        assert_stopped(blocked_ns, &(least..=Duration::from_nanos(to - from)));

        let throttled_vcpu = &vcpus(&exits, throttled)[0];
        assert_waited(throttled_vcpu, throttled);
        let throttled_ns = share_ns(throttled_vcpu, "throttled");
        let group_ns = throttled.readings()[2].throttled_ns.unwrap();
        println!("throttled {throttled_ns} ns, its group {group_ns} ns");
        // The vCPU's time may be longer than the time of its group, if a CPU stayed idle after the
        // vCPU was woken. The comparison with the scheduler's count above covers the whole wait.
        assert!(throttled_ns > 100_000_000);

        let migrations = moved.readings()[1].vcpus[0].migrations;
        println!("moved {migrations} times");
        assert!(migrations > 50, "{moved:?}");
        assert!(counted(vcpus(&exits, moved), Some("hlt")) > 100);
    }
}

mod lab_full {
    use vmnoise_testbed::bed::{DebianKernel, Lab};

    use crate::exits_judge::*;

    /// Exercises with different exits, on one or two vCPUs.
    const EXERCISES: [&str; 4] = ["io -c 1", "cpuid -c 0,1", "hlt -c 0", "mmio -c 1"];
    const VMS: usize = 40;

    #[test]
    fn vms_that_come_and_go_have_together_what_kvm_counted() {
        let treatment = |exercise: &&str| {
            let steps = "lab-vmm traced start exits:700 stop read kill";
            format!("{steps} -- vmnoise microvm -d 5m --exercise {exercise}")
        };
        let treatments: Vec<String> = EXERCISES.iter().cycle().take(VMS).map(treatment).collect();
        let treatments: Vec<&str> = treatments.iter().map(String::as_str).collect();
        let lab = Lab::kernel(DebianKernel::Cloud).cpus(2);
        let ExitsComparison {
            exits, treatments, ..
        } = exits_beside(lab, &treatments);
        assert_eq!(list(&exits["vms"]).len(), VMS, "{exits}");
        let (mut ours, mut theirs, mut unended) = (0, 0, 0);
        for treatment in &treatments {
            let vcpus = vcpus(&exits, treatment);
            let counts = treatment.readings()[0];
            assert_kvm_counts_the_same(vcpus, counts);
            ours += counted(vcpus, None);
            theirs += counts.kvm["exits"];
            unended += vcpus.len() as u64;
        }
        println!("{VMS} VMs, {theirs} exits by KVM, {ours} reported and {unended} not ended");
        assert_eq!(ours + unended, theirs);
    }
}
