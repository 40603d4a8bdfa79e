//! A Linux guest under QEMU on a stock kernel's own kvm_amd: what `vmnoise exits` tells of
//! it, held against KVM's own counters.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod exits_judge;

mod lab {
    use vmnoise_labs::bed::{Kernel, Lab};
    use vmnoise_labs::lab_program;

    use super::exits_judge::*;

    #[test]
    fn a_linux_guest_has_its_name_its_exits_and_its_halts() {
        // It boots, sleeps for a second, and switches itself off; its VMM stays.
        let boot = "lab-vmm traced start told:2 quiet:3000 stop read kill -- \
                    lab-guest boot -name l2,debug-threads=on -no-shutdown";
        let lab = Lab::kernel(Kernel::Cloud)
            .cpus(2)
            .guest(&["lab-vmm run:1000 --", "vmnoise --version"])
            .program(&lab_program("lab-guest").unwrap());
        let Beside {
            report,
            exits,
            treatments,
            others,
        } = exits_beside(lab, &[boot, "lab-guest results"]);
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
        // KVM's clock of a halt stops when the thread has the CPU again. What others had of
        // it by then is no halt.
        let kvm_ns: u64 = ["halt_poll_success_ns", "halt_poll_fail_ns", "halt_wait_ns"]
            .iter()
            .map(|name| counts.kvm[*name])
            .sum();
        let halted_ns = share_ns(&vcpus[0], "halted");
        println!(
            "halted {halted_ns} ns, KVM's own clock {kvm_ns} ns; {}",
            vcpus[0]["time_ns"]
        );
        assert!((kvm_ns / 2..=kvm_ns).contains(&halted_ns));
    }
}
