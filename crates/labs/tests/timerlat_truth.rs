//! What `vmnoise timerlat` says beside the kernel's own tracer, beside cyclictest, and of
//! delays whose cause and length are known: under virtual time, where a run repeats.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod lab {
    use vmnoise_labs::oracle::{beside_cyclictest, beside_timerlat, causes};

    /// Wake-ups of one run.
    const RUN: f64 = 2_000.0;
    /// The median of Kolmogorov's distribution: half of the distances between two samples of one
    /// distribution are smaller than this by the root of (n + m) / nm.
    const KOLMOGOROV_MEDIAN: f64 = 0.827_6;
    /// The times of the trace have whole microseconds, each interrupt inside a cause two more of
    /// them. It is 2 µs in the boots seen.
    const APART_NS: u64 = 5_000;

    #[test]
    fn wake_ups_of_the_kernels_tracer_have_ours_beside_them() {
        let found = beside_timerlat().unwrap();
        println!("{found:?}");
        assert_eq!(found.ring_full, 0, "{found:?}");
        assert!(found.matched * 100 >= found.kernel * 99, "{found:?}");
        // Ours are stamped by the events before the kernel's own stamps, in the same order.
        for context in [found.irq, found.thread] {
            assert!(
                context.our_median_ns <= context.kernel_median_ns,
                "{found:?}"
            );
            assert!(
                context.our_median_ns * 2 >= context.kernel_median_ns,
                "{found:?}"
            );
        }
        assert!(
            found.irq.our_median_ns < found.thread.our_median_ns,
            "{found:?}"
        );
    }

    #[test]
    fn latencies_are_distributed_as_those_of_cyclictest() {
        let found = beside_cyclictest().unwrap();
        println!("{found:?}");
        let turns = &found.turns;
        // Were both one program, half of the 36 distances would be no more than that; and what
        // now and then a tick does to a whole run is in the other half.
        let by_chance = KOLMOGOROV_MEDIAN * (2.0 / RUN).sqrt();
        assert!(turns.our_distance <= by_chance, "{found:?}");
        assert!(turns.ours_ns <= turns.cyclictest_ns, "{found:?}");
        // The witnesses take part in each wake-up, and in each alike.
        assert!(found.witnessed_ns >= turns.ours_ns, "{found:?}");
        assert!(found.witnessed_distance <= 0.1, "{found:?}");
    }

    #[test]
    fn a_known_cause_has_its_name_and_its_length() {
        let found = causes().unwrap();
        println!("{found:#?}");
        for cause in &found.causes {
            assert!(!cause.delays.is_empty(), "{cause:?}");
            for delay in &cause.delays {
                assert!(delay.injected_ns >= 50_000, "not by this cause: {cause:?}");
                assert!(delay.apart_ns() <= APART_NS, "{cause:?}");
            }
            // Where it was not let loose, nothing of the kind is blamed.
            let shortest = cause.delays.iter().map(|delay| delay.named_ns).min();
            assert!(cause.quiet_ns * 2 <= shortest.unwrap(), "{cause:?}");
        }
    }
}

mod lab_full {
    mod own_suite {
        use vmnoise_labs::oracle::descheduled;

        /// A wait is booked by the run queue's clock, which is read before the scheduler decides, and
        /// its events are fired after that: of all waits of a wake-up together 0.1 to 4.3 µs in the
        /// boot seen.
        const DECISIONS_NS: u64 = 8_000;
        /// Of the guest's task.
        const PERIOD_NS: u64 = 1_013_000;

        // Joined with its host, the same is in the gate (`join_timers.rs`).
        #[test]
        fn a_guest_whose_vcpu_is_kept_from_running_calls_it_steal_of_that_length() {
            let found = descheduled().unwrap();
            println!("{found:#?}");
            for delay in &found.delays {
                assert!(delay.named_ns * 100 >= delay.latency_ns * 95, "{delay:?}");
                let bound_ns = found.bound_ns + DECISIONS_NS;
                assert!(delay.apart_ns() <= bound_ns, "{delay:?}");
                // As late as what is left of a burst after one period, or it is by something else.
                assert!(delay.injected_ns + PERIOD_NS >= found.burst_ns, "{delay:?}");
            }
            assert!(found.quiet_ns * 20 <= found.burst_ns, "{found:?}");
        }
    }
}
