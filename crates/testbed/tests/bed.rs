//! Tests the guarantees of a lab: a busy neighbour is blamed, and an absent neighbour is not. Under
//! virtual time, everything repeats exactly.

mod lab {
    use serde_json::Value;
    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::judge::{assert_budgets_add_up, sources};
    use vmnoise_testbed::lab_program;

    /// Command that measures a guest of the lab's own vmnoise for a second.
    const MICROVM: &str = "vmnoise microvm --duration 1s --format json";

    #[test]
    fn a_busy_neighbour_is_named_and_an_absent_one_is_not() {
        let microvm = format!("{MICROVM} --cpus 1");
        let report = Lab::kernel(DebianKernel::Cloud)
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
        // Two tasks of equal weight run, so each should get half of the CPU. The limit is only a
        // quarter, because the emulator pauses.
        let runtime_ns = disturbed["cpus"][0]["runtime_ns"].as_u64().unwrap();
        let blamed_ns = blamed_ns(&disturbed);
        assert!(
            blamed_ns * 4 > runtime_ns,
            "blamed for {blamed_ns} ns of {runtime_ns} ns"
        );
    }

    #[test]
    fn a_command_that_is_not_there_ends_the_lab_with_its_reason() {
        let error = Lab::kernel(DebianKernel::Cloud)
            .run(&["nonsense"])
            .unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains("0 of 1 commands ended"), "{message}");
        assert!(message.contains("starting `nonsense`"), "{message}");
    }
}

mod lab_full {
    mod own_suite {
        use vmnoise_testbed::bed::{DebianKernel, Lab};
        use vmnoise_testbed::judge::assert_exits_are_seen;

        /// The gate (docs/design.md) runs `exercise.rs` and `join.rs`, which check the same with two
        /// boots each.
        #[test]
        fn under_virtual_time_a_run_repeats_to_the_last_bit() {
            let lab = Lab::kernel(DebianKernel::Cloud).virtual_time(2);
            let microvm = "vmnoise microvm --duration 200ms --format json";
            let untraced = format!("{microvm} --no-trace");
            // Everything is compared: clock readings, gaps, exits and the console.
            let [first, second] = [0, 1].map(|_| lab.run(&[microvm, &untraced]).unwrap());
            assert_exits_are_seen(&first.outputs[0].json().unwrap());
            assert_eq!(first, second);
        }
    }
}
