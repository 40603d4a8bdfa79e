//! Compares `vmnoise timerlat` with the kernel's own tracer, with cyclictest, and with delays of
//! known cause and length. All runs are under virtual time, where each run gives the same result.

mod virtual_time {
    use vmnoise_testbed::oracle::{beside_timerlat, causes};

    /// Limit of a difference between two times, nanoseconds. The trace's times are whole
    /// microseconds, and each interrupt inside a cause adds two such times. So far, the difference
    /// was 2 µs in all boots.
    const APART_NS: u64 = 5_000;

    #[test]
    fn wake_ups_of_the_kernels_tracer_have_ours_beside_them() {
        let found = beside_timerlat().unwrap();
        println!("{found:?}");
        assert_eq!(found.ring_full, 0, "{found:?}");
        assert!(found.matched * 100 >= found.kernel * 99, "{found:?}");
        // Our events have earlier timestamps than the kernel's events, and the same order.
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
    fn a_known_cause_has_its_name_and_its_length() {
        let found = causes().unwrap();
        println!("{found:#?}");
        for cause in &found.causes {
            assert!(!cause.delays.is_empty(), "{cause:?}");
            for delay in &cause.delays {
                assert!(delay.injected_ns >= 50_000, "not by this cause: {cause:?}");
                assert!(delay.apart_ns() <= APART_NS, "{cause:?}");
            }
            // Without the disturber, almost no time is attributed to its name.
            let shortest = cause.delays.iter().map(|delay| delay.named_ns).min();
            assert!(cause.quiet_ns * 2 <= shortest.unwrap(), "{cause:?}");
        }
    }
}

mod lab_full {
    mod own_suite {
        use vmnoise_testbed::oracle::{LateWakeup, beside_cyclictest, descheduled};

        /// Period of the guest's task in nanoseconds.
        const PERIOD_NS: u64 = 1_013_000;
        /// Number of wake-ups in one run.
        const RUN: f64 = 2_000.0;
        /// Number of runs of each of the two programs.
        const ROUNDS: i32 = 6;
        /// Probability that two runs of one program differ by more than [`by_chance`].
        const RARELY: f64 = 0.01;

        /// Returns a bound for the median of all distances between runs of the two programs. If
        /// both were the same program, and wake-ups were independent, the median would exceed this
        /// bound in one of a hundred cases.
        ///
        /// The 36 pairs of runs form six groups of six pairs, such that no two pairs in a group
        /// share a run. If half of the 36 pairs have a distance above x, then at least three pairs
        /// of one group do. The pairs of a group are independent. Each has a distance above x with
        /// the probability q. The union of six such cases gives the bound 6 P(B(6, q) >= 3). Two
        /// samples of n values have a distance above x with a probability of at most 2 exp(-n x^2).
        /// This is the first term of Kolmogorov's and Smirnov's distribution; its sum alternates,
        /// so the term is an upper bound.
        fn by_chance() -> f64 {
            let three_of_six = |q: f64| -> f64 {
                let choose = [20.0, 15.0, 6.0, 1.0];
                let of = |(k, ways): (i32, f64)| ways * q.powi(k) * (1.0 - q).powi(ROUNDS - k);
                (3..).zip(choose).map(of).sum()
            };
            let further_apart = |x: f64| 2.0 * (-RUN * x * x).exp();
            let steps = (1..1_000).map(|step| f64::from(step) / 1e4);
            let mut rare =
                steps.filter(|x| 6.0 * three_of_six(further_apart(*x).min(1.0)) <= RARELY);
            rare.next().unwrap()
        }

        #[test]
        fn latencies_are_distributed_as_those_of_cyclictest() {
            let found = beside_cyclictest().unwrap();
            println!("{found:?}");
            let turns = &found.turns;
            // If a tick sometimes coincides with all wake-ups of a run, this run's distances are in
            // the upper half.
            assert!(turns.our_distance <= by_chance(), "{found:?}");
            assert_eq!(turns.rounds, ROUNDS as usize);
            assert!(turns.ours_ns <= turns.cyclictest_ns, "{found:?}");
            // BPF delays all wake-ups by the same time.
            assert!(found.witnessed_ns >= turns.ours_ns, "{found:?}");
            assert!(found.witnessed_distance <= 0.1, "{found:?}");
        }

        // The gate (docs/design.md) runs `join_timers.rs`, the same test joined with the host.
        #[test]
        fn a_guest_whose_vcpu_is_kept_from_running_calls_it_steal_of_that_length() {
            let found = descheduled().unwrap();
            println!("{found:#?}");
            for LateWakeup { delay, is_cut } in &found.delays {
                assert!(delay.named_ns * 100 >= delay.latency_ns * 95, "{delay:?}");
                let decision_ns = if *is_cut { found.decision_ns } else { 0 };
                let bound_ns = found.bound_ns + decision_ns;
                assert!(delay.apart_ns() <= bound_ns, "{delay:?}");
                // The rest of the latency is the guest's own work. If the bound were longer than
                // this rest, a guest that reports its whole latency as steal would pass.
                assert!(delay.injected_ns + bound_ns < delay.latency_ns, "{found:?}");
                // The wake-up is late by what is left of a burst after at most one period.
                // Otherwise, it would have another cause.
                assert!(delay.injected_ns + PERIOD_NS >= found.burst_ns, "{delay:?}");
            }
            assert!(found.quiet_ns * 20 <= found.burst_ns, "{found:?}");
        }
    }
}
