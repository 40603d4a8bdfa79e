//! Tests that a residual with a period is reported with this period, and a residual without a
//! period is not.

mod kvm {
    use serde_json::Value;
    use vmnoise_testbed::{Disturber, VmnoiseRun};

    const CPU: u32 = 1;

    fn periods_ns(summary: &Value) -> Vec<u64> {
        let periodic = summary["periodic"].as_array().unwrap().iter();
        periodic
            .filter_map(|found| found["period_ns"].as_u64())
            .collect()
    }

    fn is_near(period_ns: u64, hz: u64) -> bool {
        period_ns.abs_diff(1_000_000_000 / hz) * hz * 1_000 <= 1_000_000_000
    }

    #[test]
    fn an_odd_timer_that_no_witness_sees_is_found_by_its_period() {
        let timer = Disturber::timer(CPU, 737).unwrap();
        let unwitnessed = VmnoiseRun::microvm(CPU, &["--duration", "5s", "--no-trace"])
            .and_then(VmnoiseRun::summary)
            .unwrap();
        let found = periods_ns(&unwitnessed);
        assert!(
            found.iter().any(|period_ns| is_near(*period_ns, 737)),
            "{found:?}"
        );

        let witnessed = VmnoiseRun::microvm(CPU, &["--duration", "5s"])
            .and_then(VmnoiseRun::summary)
            .unwrap();
        let found = periods_ns(&witnessed);
        assert!(
            !found.iter().any(|period_ns| is_near(*period_ns, 737)),
            "witnessed interrupts are no residual: {found:?}"
        );
        drop(timer);

        let quiet = VmnoiseRun::microvm(CPU, &["--duration", "5s", "--no-trace"])
            .and_then(VmnoiseRun::summary)
            .unwrap();
        let found = periods_ns(&quiet);
        assert!(
            !found.iter().any(|period_ns| is_near(*period_ns, 737)),
            "{found:?}"
        );
    }
}
