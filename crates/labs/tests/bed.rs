//! The built binary in stock kernels that this machine does not run: it boots there,
//! sees every exit, blames a busy neighbour and no absent one, and repeats exactly.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod lab {
    use serde_json::Value;
    use vmnoise_labs::bed::{Kernel, Lab};
    use vmnoise_labs::judge::{assert_budgets_add_up, sources};
    use vmnoise_labs::lab_program;

    /// A guest of the lab's own vmnoise measures for a second.
    const MICROVM: &str = "vmnoise microvm --duration 1s --format json";
    /// The lab's own kernel is measured for a second.
    const OSNOISE: &str = "vmnoise osnoise --duration 1s --format json";
    const DOCTOR: &str = "vmnoise doctor --format json";

    /// What the commands of a user say on this kernel, and that it is this kernel.
    fn doctor_microvm_osnoise(kernel: Kernel) -> [Value; 3] {
        let report = Lab::kernel(kernel)
            .run(&[DOCTOR, MICROVM, OSNOISE])
            .unwrap();
        let results = [0, 1, 2].map(|which| report.outputs[which].json().unwrap());
        assert_eq!(results[0]["host"]["kernel"], report.kernel_version);
        results
    }

    /// What must hold on every stock kernel with KVM: each exit is seen and has its
    /// time, and the tick is called by its name.
    fn assert_exits_are_seen(summary: &Value, at_least: u64) {
        assert_budgets_add_up(summary);
        let cpu = &summary["cpus"][0];
        let exits = |key: &str| cpu["exits"][key].as_u64().unwrap();
        let (light, heavy, kvm_stat) = (exits("light"), exits("heavy"), exits("kvm_stat"));
        assert!(light > at_least, "{}", cpu["exits"]);
        assert_eq!(light + heavy, kvm_stat, "{}", cpu["exits"]);
        assert!(cpu["shares_ns"]["kvm"].as_u64().unwrap() > 0, "{cpu}");
        let tick = sources(summary).find(|source| source.name == "local_timer:236");
        assert_eq!(tick.unwrap().share, "host_irq");
    }

    /// The kernel's own noise is its own, and no hypervisor without a steal clock is
    /// said to have stolen nothing.
    fn assert_the_tick_is_noise(summary: &Value) {
        assert_budgets_add_up(summary);
        let tick = sources(summary).find(|source| source.name == "local_timer:236");
        assert_eq!(tick.unwrap().share, "irq");
        let cpu = &summary["cpus"][0];
        assert!(cpu["shares_ns"]["steal"].is_null(), "{cpu}");
        assert!(cpu["shares_ns"]["hw"].is_null(), "{cpu}");
        assert!(cpu["exits"]["heavy"].is_null(), "{cpu}");
    }

    fn assert_best_rungs(doctor: &Value, probes: &[&str]) {
        let rungs = doctor["rungs"].as_array().unwrap();
        for probe in probes {
            let rung = rungs.iter().find(|rung| rung["probe"] == *probe).unwrap();
            assert_eq!(rung["rung"], "tp_btf", "{rung}");
        }
    }

    /// All that BPF witnesses of a host.
    const WITNESSES: [&str; 6] = [
        "host interrupts",
        "host soft interrupts",
        "host NMIs",
        "host tasks",
        "KVM_RUN left and entered",
        "VM exits",
    ];

    #[test]
    fn the_cloud_kernel_shows_every_exit() {
        let [doctor, microvm, osnoise] = doctor_microvm_osnoise(Kernel::Cloud);
        assert_best_rungs(&doctor, &WITNESSES);
        assert_exits_are_seen(&microvm, 50);
        assert_the_tick_is_noise(&osnoise);
    }

    #[test]
    fn the_same_binary_measures_on_preempt_rt() {
        let [doctor, microvm, osnoise] = doctor_microvm_osnoise(Kernel::Rt);
        assert_best_rungs(&doctor, &WITNESSES);
        assert_exits_are_seen(&microvm, 50);
        assert_the_tick_is_noise(&osnoise);
    }

    #[test]
    fn a_busy_neighbour_is_named_and_an_absent_one_is_not() {
        let microvm = format!("{MICROVM} --cpus 1");
        let report = Lab::kernel(Kernel::Cloud)
            .cpus(2)
            .program(&lab_program("lab-disturb").unwrap())
            .run(&[&microvm, "& lab-disturb busy 1", &microvm])
            .unwrap();
        let [quiet, disturbed] = [0, 1].map(|which| report.outputs[which].json().unwrap());
        let blamed_ns = |summary: &Value| -> u64 {
            assert_budgets_add_up(summary);
            sources(summary)
                .filter(|source| source.name.starts_with("lab-disturb:"))
                .map(|source| {
                    assert_eq!(source.share, "preempted");
                    source.total_ns
                })
                .sum()
        };
        assert_eq!(blamed_ns(&quiet), 0);
        // Two tasks of equal weight: each is due half of the CPU. The emulator's own
        // pauses are why this asks for no more than a quarter.
        let runtime_ns = disturbed["cpus"][0]["runtime_ns"].as_u64().unwrap();
        let blamed_ns = blamed_ns(&disturbed);
        assert!(
            blamed_ns * 4 > runtime_ns,
            "blamed for {blamed_ns} ns of {runtime_ns} ns"
        );
    }

    #[test]
    fn under_virtual_time_a_run_repeats_to_the_last_bit() {
        let lab = Lab::kernel(Kernel::Cloud).virtual_time(2);
        let microvm = "vmnoise microvm --duration 200ms --format json";
        let untraced = format!("{microvm} --no-trace");
        // Clock readings, gaps, exits and the console: nothing is left out.
        let [first, second] = [0, 1].map(|_| lab.run(&[microvm, &untraced]).unwrap());
        assert_exits_are_seen(&first.outputs[0].json().unwrap(), 20);
        assert_eq!(first, second);
    }

    #[test]
    fn a_command_that_is_not_there_ends_the_lab_with_its_reason() {
        let error = Lab::kernel(Kernel::Cloud).run(&["nonsense"]).unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains("0 of 1 commands ended"), "{message}");
        assert!(message.contains("starting `nonsense`"), "{message}");
    }
}
