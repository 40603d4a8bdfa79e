//! What `vmnoise timerlat` says beside the kernel's own tracer, beside cyclictest, and of
//! delays whose cause and length are known: under virtual time, where a run repeats.

mod virtual_time {
    use vmnoise_labs::oracle::{beside_timerlat, causes};

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
        use vmnoise_labs::oracle::{Late, beside_cyclictest, descheduled};

        /// Of the guest's task.
        const PERIOD_NS: u64 = 1_013_000;
        /// Wake-ups of one run.
        const RUN: f64 = 2_000.0;
        /// Runs of each of the two.
        const ROUNDS: i32 = 6;
        /// How rarely two runs of one program are so far apart that [`by_chance`] is exceeded.
        const RARELY: f64 = 0.01;

        /// The median of all distances between runs of the one and runs of the other is larger than this in
        /// one case of a hundred, were both one program and no wake-up like another for a reason.
        ///
        /// The 36 pairs are six times six pairs of which no two share a run. If half of the 36 are further
        /// apart, so are three pairs of one of these sixes: of pairs apart from each other, of each with the
        /// probability q. The union of six such cases bounds it: 6 P(B(6, q) >= 3). Two samples of n are
        /// further apart than x by 2 exp(-n x^2), the first term of Kolmogorov's and Smirnov's
        /// distribution, which alternates and so is no more than that.
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
            // What now and then a tick does to a whole run is in the other half of the distances.
            assert!(turns.our_distance <= by_chance(), "{found:?}");
            assert_eq!(turns.rounds, ROUNDS as usize);
            assert!(turns.ours_ns <= turns.cyclictest_ns, "{found:?}");
            // The witnesses take part in each wake-up, and in each alike.
            assert!(found.witnessed_ns >= turns.ours_ns, "{found:?}");
            assert!(found.witnessed_distance <= 0.1, "{found:?}");
        }

        // Joined with its host, the same is in the gate (`join_timers.rs`).
        #[test]
        fn a_guest_whose_vcpu_is_kept_from_running_calls_it_steal_of_that_length() {
            let found = descheduled().unwrap();
            println!("{found:#?}");
            for Late { delay, is_cut } in &found.delays {
                assert!(delay.named_ns * 100 >= delay.latency_ns * 95, "{delay:?}");
                let decision_ns = if *is_cut { found.decision_ns } else { 0 };
                let bound_ns = found.bound_ns + decision_ns;
                assert!(delay.apart_ns() <= bound_ns, "{delay:?}");
                // What the wake-up took beside the waits is the guest's own. If the bound were that
                // long, a guest that calls all of its latency steal would pass.
                assert!(delay.injected_ns + bound_ns < delay.latency_ns, "{found:?}");
                // As late as what is left of a burst after one period, or it is by something else.
                assert!(delay.injected_ns + PERIOD_NS >= found.burst_ns, "{delay:?}");
            }
            assert!(found.quiet_ns * 20 <= found.burst_ns, "{found:?}");
        }
    }
}
