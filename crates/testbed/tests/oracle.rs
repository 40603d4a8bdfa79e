//! Compares `vmnoise osnoise` with the kernel's own tracer, events and counters. docs/validation.md
//! contains the results.

mod virtual_time {
    use vmnoise_testbed::oracle::{OsnoiseEventKind, beside_the_kernel, softirqs};

    #[test]
    fn gaps_of_the_kernels_tracer_are_reported_as_it_reports_them() {
        let found = beside_the_kernel().unwrap();
        assert_eq!(found.lost_events, 0, "{found:?}");
        for kind in [
            OsnoiseEventKind::Nmi,
            OsnoiseEventKind::Irq,
            OsnoiseEventKind::Thread,
        ] {
            let agreement = found.agreement(kind).unwrap();
            assert!(agreement.counts_agree(), "{agreement:?}");
            assert!(agreement.durations_agree(), "{agreement:?}");
        }
        for kind in [OsnoiseEventKind::Irq, OsnoiseEventKind::Thread] {
            assert!(found.agreement(kind).unwrap().kernel > 200, "{found:?}");
        }
        // On PREEMPT_RT, softirqs run in threads.
        assert_eq!(
            found.agreement(OsnoiseEventKind::Softirq).unwrap().kernel,
            0
        );
        assert!(found.gaps.kernel > 200, "{found:?}");
        assert_eq!(found.gaps.missed, [], "{found:?}");
    }

    #[test]
    fn soft_interrupts_are_those_of_tracefs_and_those_the_kernel_counts() {
        let found = softirqs().unwrap();
        // This build usually has at least ten softirqs. Fewer would not be a useful test.
        assert!(found.agreement.kernel >= 10, "{found:?}");
        assert!(found.agreement.counts_agree(), "{found:?}");
        assert!(found.agreement.durations_agree(), "{found:?}");
        for (name, (traced, counted)) in &found.counted {
            // A softirq may run between the read of a counter and the write of its value to the
            // trace.
            assert!(traced.abs_diff(*counted) <= 1, "{name} {found:?}");
        }
    }
}

mod lab {
    use vmnoise_testbed::oracle::nmis;

    /// The emulator's monitor determines when an NMI arrives. Virtual time does not control this.
    #[test]
    fn nmis_from_outside_are_those_of_the_kernels_tracer() {
        let found = nmis().unwrap();
        assert!(found.kernel > 0, "{found:?}");
        // The tracer measures the whole NMI, and we measure its handlers.
        assert!(found.counts_agree(), "{found:?}");
        assert!(found.our_median_ns <= found.kernel_median_ns, "{found:?}");
    }
}
