//! Test of `vmnoise tune-timer` on this machine: its figures add up, and it changes no setting of
//! the machine.

mod kvm {
    use std::fs;
    use std::process::{Command, Output};

    use serde_json::Value;

    fn vmnoise(line: &str) -> Output {
        let mut vmnoise = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        vmnoise.args(line.split(' ')).output().unwrap()
    }

    fn document(output: &Output) -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    fn parameter(name: &str) -> Option<String> {
        fs::read_to_string(format!("/sys/module/kvm/parameters/{name}")).ok()
    }

    /// No timer of this machine is 10 s late, and none takes no time at all. To exclude bursts, a
    /// median of six settings needs 10 cells of 100 ms for each setting: 0.5^n = 0.01 / 6 gives 9.2.
    /// In 8 s each setting has 13 cells.
    #[test]
    fn a_setting_is_named_where_all_keep_the_goal_and_nothing_is_set() {
        let before = parameter("halt_poll_ns");
        let output = vmnoise("tune-timer -d 8s -i 200us --goal 10s --percentile 50 --format json");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let document = document(&output);
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{document}"));
        let steps = document["steps"].as_array().unwrap();
        assert!(number(&document["setting"]) < steps.len() as u64);
        assert_eq!(
            steps.iter().filter(|step| step["present"] == true).count(),
            1
        );
        for step in steps {
            let (late, thread) = (&step["late_ns"], &step["thread"]);
            assert!(
                number(&step["timers"]) > 0 && number(&step["turns"]) == 10,
                "{step}"
            );
            let of = |key: &str| number(&late[key]);
            assert!(of("min") <= of("p50") && of("p50") <= of("p99"), "{late}");
            assert!(of("p99") <= of("max"), "{late}");
            assert!(
                number(&thread["ran_ns"]) <= number(&thread["wall_ns"]),
                "{thread}"
            );
            assert_ne!(step["witnesses_agree"], false, "{step}");
            if step["halt_poll_ns"] == 0 {
                assert_eq!(step["kvm"]["polled_ns"], 0, "{step}");
            }
        }
        assert_eq!(parameter("halt_poll_ns"), before);
    }

    #[test]
    fn a_goal_that_none_keeps_ends_with_2_and_says_so() {
        let output = vmnoise("tune-timer -d 600ms -i 200us --goal 1ns --percentile 50");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("FAIL: no setting keeps 50 % of timers within 1 ns"),
            "{text}"
        );
    }

    #[test]
    fn microvm_measures_the_present_setting_alone() {
        let output = vmnoise("microvm --timer 200us -d 200ms --format json");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let document = document(&output);
        assert_eq!(document["steps"].as_array().unwrap().len(), 1, "{document}");
        assert_eq!(document["steps"][0]["present"], true);
        assert!(document["steps"][0]["keeps_goal"].is_null());
    }
}
