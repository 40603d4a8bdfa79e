//! Tests the exercises on this machine's KVM. The number of exits must equal KVM's count, and the
//! expected side must handle the exits.

mod kvm {
    use std::time::{Duration, Instant};

    use vmnoise_workload::microvm::exercise::{
        Exercise, ExerciseConfig, ExerciseResult, ExitHandler, prepare,
    };
    use vmnoise_workload::tsc;

    /// Number of exits that start and stop an exercise: the last `out`, and the first access to the
    /// page of the exercise program.
    const EDGE: u64 = 2;

    fn config(exercise: Exercise, cpus: &[u32]) -> ExerciseConfig {
        ExerciseConfig {
            exercise,
            cpus: cpus.to_vec(),
            duration: Duration::from_millis(200),
            tsc_hz: tsc::calibrate_hz(Duration::from_millis(20)),
            policy: None,
        }
    }

    fn one(exercise: Exercise) -> ExerciseResult {
        let rows = prepare(&config(exercise, &[1]))
            .unwrap()
            .run(&|| false)
            .unwrap();
        assert_eq!(rows.len(), 1);
        rows[0]
    }

    /// Returns KVM's count of exits without those for interrupts of the host.
    fn own_exits(row: &ExerciseResult) -> u64 {
        let count = |it: Option<u64>| it.expect("KVM has counts since Linux 5.14");
        count(row.kvm.exits) - count(row.kvm.irq_exits)
    }

    #[test]
    fn what_exits_took_adds_up() {
        for exercise in Exercise::ALL {
            let row = one(exercise);
            assert!(row.count > 100, "{exercise:?}: {row:?}");
            let spread = row.exit_tsc.unwrap();
            assert!(spread.min > 0 && spread.min <= spread.p50, "{row:?}");
            assert!(spread.p50 <= spread.p99 && spread.p99 <= spread.max);
            assert!(spread.min <= spread.mean && spread.mean <= spread.max);
            assert_eq!(spread.total / row.count, spread.mean);
            assert!(spread.total <= row.runtime_tsc, "{row:?}");
        }
    }

    #[test]
    fn exits_to_the_vmm_are_those_that_kvm_counted() {
        for exercise in [Exercise::Io, Exercise::Mmio] {
            let row = one(exercise);
            assert_eq!(row.kind(), Some(ExitHandler::Heavy), "{row:?}");
            assert_eq!(row.vmm_exits, row.count);
            // An NMI of the host also causes an exit, which KVM does not count separately.
            let most = row.count + EDGE + row.count / 100;
            assert!((row.count..=most).contains(&own_exits(&row)), "{row:?}");
        }
    }

    #[test]
    fn exits_for_kvm_do_not_reach_the_vmm() {
        for exercise in [Exercise::Cpuid, Exercise::Hypercall, Exercise::Spin] {
            let row = one(exercise);
            assert_eq!(row.vmm_exits, 0, "{row:?}");
            match row.kind() {
                Some(ExitHandler::Light) => {
                    assert_eq!(exercise.kind(), ExitHandler::Light);
                    let most = row.count + EDGE + row.count / 100;
                    assert!((row.count..=most).contains(&own_exits(&row)), "{row:?}");
                }
                // PVM runs the guest as an ordinary program, so these instructions never cause an
                // exit to KVM.
                other => {
                    assert_eq!(other, Some(ExitHandler::None));
                    assert!(row.kvm.exits.unwrap() < row.count / 2, "{row:?}");
                }
            }
        }
    }

    #[test]
    fn an_exit_costs_more_than_none() {
        let min = |exercise| one(exercise).exit_tsc.unwrap().min;
        let (spin, cpuid, io) = (min(Exercise::Spin), min(Exercise::Cpuid), min(Exercise::Io));
        println!("least cycles: spin {spin}, cpuid {cpuid}, io {io}");
        assert!(spin < cpuid && cpuid < io);
    }

    #[test]
    fn each_cpu_has_a_row() {
        let rows = prepare(&config(Exercise::Io, &[1, 0]))
            .unwrap()
            .run(&|| false)
            .unwrap();
        assert!(rows.iter().map(|row| row.cpu).eq([1, 0]));
        assert!(rows.iter().all(|row| row.count > 0));
    }

    #[test]
    fn enough_is_enough() {
        let long = ExerciseConfig {
            duration: Duration::from_secs(3600),
            ..config(Exercise::Spin, &[1])
        };
        let start = Instant::now();
        let rows = prepare(&long)
            .unwrap()
            .run(&|| start.elapsed() > Duration::from_millis(100))
            .unwrap();
        assert!(rows[0].count > 0 && start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let error = prepare(&config(Exercise::Io, &[0, 900])).unwrap_err();
        assert!(error.to_string().contains("CPU 900"), "{error}");
    }
}
