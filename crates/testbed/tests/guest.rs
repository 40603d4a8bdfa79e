//! Tests a Linux guest under QEMU on a stock kernel's own kvm_amd. Compares the result of `vmnoise
//! exits` with KVM's own counters.

mod virtual_time {
    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::lab_program;
    use vmnoise_testbed::oracle::vm_exits::halts;

    use crate::exits_judge::*;

    #[test]
    fn a_linux_guest_has_its_name_its_exits_and_its_halts() {
        // The guest boots and sleeps. Its VMM is stopped three times while the guest sleeps, and
        // once while the guest runs. The guest powers off, and its VMM remains.
        let boot = "lab-tracefs while buffer_size_kb=8192 events/kvm/kvm_vcpu_wakeup/enable=1 -- \
                    lab-vmm traced start told:1 run:500 stop run:50 cont run:200 stop run:50 cont \
                    run:200 stop run:50 cont told:2 quiet:3000 stop read kill -- \
                    lab-guest boot -name l2,debug-threads=on -no-shutdown";
        // The lab uses virtual time, so that each boot is the same.
        let lab = Lab::kernel(DebianKernel::Cloud)
            .virtual_time(0)
            .guest(&["vmnoise --version", "lab-vmm run:2000 --"])
            .program(&lab_program("lab-tracefs").unwrap())
            .program(&lab_program("lab-guest").unwrap());
        let ExitsComparison {
            report,
            exits,
            treatments,
            others,
        } = exits_beside(lab, &[boot, "lab-guest results", "lab-tracefs show"]);
        let results = others[0].text().unwrap();
        println!("{}: {results}", report.kernel_version);
        assert_eq!(results.lines().count(), 2, "{}", others[0].stderr);
        let guest = &treatments[0];
        let counts = guest.readings()[0];
        let vms = list(&exits["vms"]);
        assert_eq!(vms.len(), 1, "{exits}");
        assert_eq!(vms[0]["name"], "l2");
        let vcpus = vcpus(&exits, guest);
        assert_kvm_counts_the_same(vcpus, counts);
        for row in list(&vcpus[0]["reasons"]) {
            println!("{:>12} {}", row["count"], row["name"]);
        }
        for reason in ["io", "msr", "cpuid", "npf", "hlt", "interrupt"] {
            assert!(counted(vcpus, Some(reason)) > 0, "no {reason}");
        }
        // For KVM, a halt ends when the thread has the CPU again. We do not count the time that
        // other tasks take until then as part of the halt.
        let (woken_ns, halts) = halts(others[1].text().unwrap(), counts.vcpus[0].tid).unwrap();
        let halted_ns = share_ns(&vcpus[0], "halted");
        let interrupts = counted(vcpus, Some("interrupt"));
        let interrupt_ns = interrupts_ns(&vcpus[0]) / interrupts;
        println!(
            "halted {halted_ns} ns; by KVM's events {woken_ns} ns in {halts}; an interrupt takes \
             {interrupt_ns} ns; {}",
            vcpus[0]["time_ns"]
        );
        // A stop wakes the thread from its sleep, and the exit continues after the stop. So there
        // are more sleeps than exits.
        assert!(halts > usize::try_from(counted(vcpus, Some("hlt"))).unwrap());
        // Upper bound: our halt time is at most KVM's. Lower bound: KVM's halts include the
        // interrupts at their start and end. They also last until the woken thread has the CPU,
        // which another task may keep until the next tick. This happens once, because a woken
        // thread that has slept runs first.
        assert!(halted_ns <= woken_ns);
        let around_ns = 2 * halts as u64 * interrupt_ns;
        assert!(halted_ns + TICK_NS + around_ns >= woken_ns);
    }
}
