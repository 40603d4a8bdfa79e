//! Tests the timers of a guest on a stock kernel's own kvm_amd. Polling must make the timers less
//! late, and must cost CPU time.

mod lab_full {
    mod own_suite {
        use serde_json::Value;
        use vmnoise_testbed::bed::{DebianKernel, Lab};

        /// Debian's kernels let KVM poll for 200 us. A halt in this test ends after 100 us, while
        /// KVM still polls. To exclude bursts, a median of four settings needs 9 cells of 100 ms for
        /// each setting: 0.5^n = 0.01 / 4 gives 8.6. In 5 s each setting has 12 cells.
        const COMMAND: &str =
            "vmnoise tune-timer -d 5s -i 100us --goal 1ms --percentile 50 --format json";

        #[test]
        fn polling_makes_timers_less_late_and_costs_cpu_time() {
            let lab = Lab::kernel(DebianKernel::Cloud).virtual_time(0);
            let run = lab.run(&[COMMAND]).unwrap();
            let document = run.outputs[0].json().unwrap();
            assert_eq!(document["schema"], "vmnoise.tune-timer/1");
            let present = &document["present"];
            assert_eq!(present["halt_poll_ns"], 200_000, "{present}");
            // KVM limits its own timer advance to 5 us. Labs mount debugfs, so the value is known.
            assert!(
                present["vcpu_advance_ns"].as_u64().unwrap() <= 5_000,
                "{present}"
            );
            let steps = document["steps"].as_array().unwrap();
            let step = |limit_ns: u64| {
                let found = steps.iter().find(|step| step["halt_poll_ns"] == limit_ns);
                found.unwrap_or_else(|| panic!("no {limit_ns}: {document}"))
            };
            let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{document}"));
            for step in steps {
                let timers = number(&step["timers"]);
                assert!(timers >= 100, "{step}");
                // Each timer fires while the guest halts, and nothing else wakes the guest.
                assert_eq!(step["kvm"]["halts"], timers, "{step}");
                assert_eq!(step["witnesses_agree"], true, "{step}");
                let late = &step["late_ns"];
                println!(
                    "{}: p50 {} ns late, busy {} %, early {}",
                    step["halt_poll_ns"], late["p50"], step["busy_percent"], step["early"]
                );
            }
            let (none, whole) = (step(0), step(200_000));
            assert_eq!(none["kvm"]["polls"], 0, "{none}");
            assert!(number(&whole["kvm"]["polls_in_time"]) > 0, "{whole}");
            // To wake a guest from sleep needs one more switch than to wake it during polling.
            assert!(number(&whole["late_ns"]["p50"]) < number(&none["late_ns"]["p50"]));
            let busy = |step: &Value| step["busy_percent"].as_f64().unwrap();
            assert!(busy(whole) > busy(none), "{document}");
            // All settings meet a goal of 1 ms, so the cheapest setting is chosen.
            let chosen = &steps[usize::try_from(number(&document["setting"])).unwrap()];
            assert!(busy(chosen) < busy(whole), "{chosen}");
        }
    }
}
