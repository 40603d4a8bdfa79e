//! A Linux guest under QEMU on a stock kernel's own kvm_amd: what `vmnoise exits` tells of
//! it, held against KVM's own counters.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod exits_judge;

mod lab {
    use vmnoise_labs::bed::{Kernel, Lab};
    use vmnoise_labs::lab_program;
    use vmnoise_labs::oracle::vm_exits::halts;

    use super::exits_judge::*;

    #[test]
    fn a_linux_guest_has_its_name_its_exits_and_its_halts() {
        // It boots, sleeps for a second, and switches itself off; its VMM stays.
        let boot = "lab-tracefs while buffer_size_kb=8192 events/kvm/kvm_vcpu_wakeup/enable=1 -- \
                    lab-vmm traced start told:2 quiet:3000 stop read kill -- \
                    lab-guest boot -name l2,debug-threads=on -no-shutdown";
        let lab = Lab::kernel(Kernel::Cloud)
            .cpus(2)
            .guest(&["lab-vmm run:1000 --", "vmnoise --version"])
            .program(&lab_program("lab-tracefs").unwrap())
            .program(&lab_program("lab-guest").unwrap());
        let Beside {
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
        // A halt ends for KVM when the thread has the CPU again; what others had of it by then
        // is no halt. KVM's counters leave out what lies between polling and sleep.
        let (woken_ns, halts) = halts(others[1].text().unwrap(), counts.vcpus[0].tid).unwrap();
        let counted_ns: u64 = ["halt_poll_success_ns", "halt_poll_fail_ns", "halt_wait_ns"]
            .iter()
            .map(|name| counts.kvm[*name])
            .sum();
        let halted_ns = share_ns(&vcpus[0], "halted");
        println!(
            "halted {halted_ns} ns; by KVM's events {woken_ns} ns in {halts}, by its counters \
             {counted_ns} ns; {}",
            vcpus[0]["time_ns"]
        );
        assert!(counted_ns <= woken_ns);
        assert!((counted_ns / 2..=woken_ns).contains(&halted_ns));
    }
}
