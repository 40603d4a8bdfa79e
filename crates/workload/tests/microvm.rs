//! Tests the microVM on the /dev/kvm of this machine.

mod kvm {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    use rustix::fs::{MemfdFlags, memfd_create};
    use vmnoise_events::{CpuTally, Gap, OffsetProof, Policy, exit_counts};
    use vmnoise_workload::microvm::{Microvm, MicrovmConfig, SharedPages, offer, poll_steps};
    use vmnoise_workload::{RunningWorkload, tsc};

    use crate::common::{BusyThread, gaps};

    const DRAIN: Duration = Duration::from_millis(20);

    fn config(cpus: &[u32]) -> MicrovmConfig {
        MicrovmConfig {
            cpus: cpus.to_vec(),
            threshold_tsc: 2_500,
            policy: None,
            exit_counts: None,
        }
    }

    fn hz() -> u64 {
        tsc::calibrate_hz(Duration::from_millis(50))
    }

    /// Runs a microVM for `dur`. Returns the microVM, all of its gaps and its last tallies.
    fn run(config: MicrovmConfig, dur: Duration) -> (Microvm, Vec<Gap>, Vec<CpuTally>) {
        let cycles = (dur.as_nanos() * u128::from(hz()) / 1_000_000_000) as u64;
        let mut microvm = Microvm::prepare(config).unwrap();
        microvm.start(Some(tsc::now() + cycles)).unwrap();
        let gaps = drain_to_end(&mut microvm);
        let tallies = microvm.tallies();
        (microvm, gaps, tallies)
    }

    fn drain_to_end(microvm: &mut Microvm) -> Vec<Gap> {
        let mut drained = Vec::new();
        while microvm.running() {
            drained.extend(gaps(microvm));
            std::thread::sleep(DRAIN);
        }
        microvm.join().unwrap();
        drained.extend(gaps(microvm));
        drained
    }

    #[test]
    fn gaps_are_ordered_disjoint_and_inside_the_run() {
        let (microvm, gaps, tallies) = run(config(&[1]), Duration::from_millis(200));
        let [tally] = tallies[..] else {
            panic!("{tallies:?}")
        };
        assert_eq!(tally.cpu, 1);
        assert!(!gaps.is_empty(), "a timer tick alone is a gap");
        let mut before = tally.first_tsc;
        for gap in &gaps {
            assert_eq!(gap.cpu, 1);
            assert!(
                gap.start_tsc >= before,
                "{gap:?} overlaps what ended at {before}"
            );
            assert!(
                gap.end_tsc - gap.start_tsc >= 2_500,
                "{gap:?} is under the threshold"
            );
            before = gap.end_tsc;
        }
        assert!(before <= tally.last_tsc);
        let runtime = tally.last_tsc - tally.first_tsc;
        assert!(runtime >= hz() / 1000 * 150, "{runtime} cycles");
        let blind = tally.blind_tsc.unwrap();
        assert!(
            blind > 0 && blind < runtime / 10,
            "blind for {blind} of {runtime} cycles"
        );
        assert_eq!((microvm.dropped(), microvm.clock_steps_back()), (0, 0));
    }

    #[test]
    fn the_guest_reads_the_hosts_clock() {
        let begin = tsc::now();
        let (microvm, _, tallies) = run(config(&[1]), Duration::from_millis(50));
        let clock = microvm.clock();
        assert!(clock.offset_proof.is_some(), "{clock:?}");
        assert!(
            clock.bracket_tsc < hz() / 1000,
            "a bracket of a millisecond proves little"
        );
        if clock.offset_proof == Some(OffsetProof::SetAndBracketed) {
            assert_eq!((clock.offset_tsc, clock.offset_bound_tsc), (0, 0));
        }
        assert!(begin < tallies[0].first_tsc && tallies[0].last_tsc < tsc::now());
    }

    #[test]
    fn stop_ends_the_run_early() {
        let mut microvm = Microvm::prepare(config(&[1])).unwrap();
        microvm.start(None).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(microvm.running());
        let stopped = tsc::now();
        microvm.stop();
        drain_to_end(&mut microvm);
        let late = microvm.tallies()[0].last_tsc.saturating_sub(stopped);
        assert!(late < hz(), "ended {late} cycles after the stop");
    }

    #[test]
    fn dropping_a_microvm_in_any_state_ends_it() {
        let begin = Instant::now();
        drop(Microvm::prepare(config(&[0, 1])).unwrap());
        let mut endless = Microvm::prepare(config(&[1])).unwrap();
        endless.start(None).unwrap();
        drop(endless);
        let mut never_started = Microvm::prepare(config(&[1])).unwrap();
        never_started.join().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn two_cpus_feel_their_own_gaps() {
        let (microvm, gaps, tallies) = run(config(&[0, 1]), Duration::from_millis(200));
        assert_eq!(
            microvm
                .threads()
                .iter()
                .map(|thread| thread.cpu)
                .collect::<Vec<_>>(),
            [0, 1]
        );
        for tally in &tallies {
            assert!(
                gaps.iter().any(|gap| gap.cpu == tally.cpu),
                "none on CPU {}",
                tally.cpu
            );
        }
        let together =
            |a: &CpuTally, b: &CpuTally| a.first_tsc < b.last_tsc && b.first_tsc < a.last_tsc;
        assert!(together(&tallies[0], &tallies[1]), "{tallies:?}");
    }

    #[test]
    fn a_busy_neighbour_is_stolen_time() {
        let neighbour = BusyThread::on(1);
        let (microvm, gaps, tallies) = run(config(&[1]), Duration::from_millis(600));
        drop(neighbour);
        assert!(microvm.has_steal_clock());
        let per_ms = hz() / 1000;
        let longest = gaps
            .iter()
            .map(|gap| gap.end_tsc - gap.start_tsc)
            .max()
            .unwrap();
        assert!(longest > per_ms, "longest gap: {longest} cycles");
        let in_gaps: u64 = gaps.iter().map(|gap| gap.steal_ns).sum();
        let steal = tallies[0].steal_clock_ns.unwrap();
        assert!(in_gaps > 50_000_000, "{in_gaps} ns of steal in gaps");
        assert!(
            in_gaps <= steal,
            "{in_gaps} ns in gaps, {steal} ns on the clock"
        );
        let reloads: u64 = gaps.iter().map(|gap| u64::from(gap.reloads)).sum();
        assert!(reloads > 0 && reloads <= tallies[0].reloads.unwrap());
    }

    #[test]
    fn the_guest_sees_live_exit_counts() {
        let file = File::from(memfd_create("exits", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(4096).unwrap();
        let write = |cpu: usize, offset: usize, count: u64| {
            let at = cpu * exit_counts::SLOT_BYTES + offset;
            file.write_all_at(&count.to_ne_bytes(), at as u64).unwrap();
        };
        let exit_counts = Some(SharedPages::map(file.as_fd(), 4096).unwrap());
        let mut microvm = Microvm::prepare(MicrovmConfig {
            exit_counts,
            ..config(&[1])
        })
        .unwrap();
        write(1, exit_counts::LIGHT_OFFSET, 1_000);
        microvm.start(Some(tsc::now() + hz() / 4)).unwrap();
        let mut gaps = Vec::new();
        for round in 1..=5 {
            std::thread::sleep(Duration::from_millis(20));
            write(1, exit_counts::LIGHT_OFFSET, 1_000 + 3 * round);
            write(1, exit_counts::HEAVY_OFFSET, 2 * round);
            write(0, exit_counts::LIGHT_OFFSET, 100 * round);
        }
        gaps.extend(drain_to_end(&mut microvm));
        let light: u32 = gaps.iter().map(|gap| gap.light_exits).sum();
        let heavy: u32 = gaps.iter().map(|gap| gap.heavy_exits).sum();
        assert_eq!(
            (light, heavy),
            (15, 10),
            "only what was counted on CPU 1 since the start"
        );
    }

    #[test]
    fn a_full_ring_drops_and_counts() {
        // With a threshold of 0, every iteration is a gap.
        let mut microvm = Microvm::prepare(MicrovmConfig {
            threshold_tsc: 0,
            ..config(&[1])
        })
        .unwrap();
        microvm.start(Some(tsc::now() + hz() / 10)).unwrap();
        while microvm.running() {
            std::thread::sleep(DRAIN);
        }
        assert!(microvm.dropped() > 0);
        assert_eq!(gaps(&mut microvm).len(), 1 << 15);
    }

    #[test]
    fn a_real_time_guest_is_prepared_or_refused_with_a_remedy() {
        let config = MicrovmConfig {
            policy: Some(Policy::Fifo(1)),
            ..config(&[1])
        };
        match Microvm::prepare(config) {
            Ok(microvm) => assert!(microvm.running()),
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        }
    }

    #[test]
    fn the_offer_is_what_a_run_gets() {
        let offer = offer().unwrap();
        assert_eq!(offer.api_version, 12);
        let microvm = Microvm::prepare(config(&[0])).unwrap();
        assert_eq!(offer.steal_clock, microvm.has_steal_clock());
        assert_eq!(offer.clock.offset_proof, microvm.clock().offset_proof);
        assert_eq!(
            offer.exit_stat,
            microvm.tallies()[0].kvm_stat_exits.is_some()
        );
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let error = Microvm::prepare(config(&[0, 900])).unwrap_err();
        assert!(error.to_string().contains("CPU 900"), "{error}");
    }

    #[test]
    fn poll_steps_are_short() {
        let mut steps = poll_steps(1).unwrap();
        steps.sort_unstable();
        let median = steps[steps.len() / 2];
        assert!(steps.len() > 100_000);
        assert!(
            median > 0 && median < 10 * tsc::rdtsc_cycles() + 100,
            "{median} cycles"
        );
    }
}
