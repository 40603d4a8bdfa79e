//! Tests the culprits of `vmnoise microvm`. While a known cause takes the CPU from the microVM,
//! results must name the right culprit with the right time. Without the cause, results must not
//! blame it.

mod kvm {
    use std::time::{Duration, Instant};

    use serde_json::Value;
    use vmnoise_testbed::judge::{assert_budgets_add_up, assert_stopped};
    use vmnoise_testbed::{Burst, Disturber, VmnoiseRun, schedstat, undisturbed};

    use crate::blame_judge::{
        BlamedGap, assert_booked, assert_steal_clock, gaps, hidden_ns, looks, unpaired,
    };

    /// Options for a result that lists every gap. On this machine there may be 20,000 gaps of at
    /// least 1 us per second, which are more than a result can list. The machine's own host causes
    /// most of them. When a task takes the CPU, the gap is longer than 5 us: it contains two
    /// switches, and the vCPU's exit from and entry into the guest.
    const EVERY_GAP: [&str; 4] = ["--top", "65536", "--threshold", "5us"];

    /// Returns the CPU that all these tests measure. The tests and the tool's threads use the other
    /// CPUs.
    fn measured_cpu() -> u32 {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        online
            .trim()
            .rsplit([',', '-'])
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    fn microvm(duration: &str) -> VmnoiseRun {
        let arguments = [&["--duration", duration][..], &EVERY_GAP].concat();
        VmnoiseRun::microvm(measured_cpu(), &arguments).unwrap()
    }

    #[test]
    fn busy_task_is_blamed_for_what_it_took() {
        let busy = Disturber::busy(measured_cpu()).unwrap();
        let run = microvm("4s");
        let looks = looks(&run, (busy.pid(), busy.pid()));
        let summary = run.summary().unwrap();
        assert_budgets_add_up(&summary);
        assert_booked(&summary, &busy.source().unwrap(), &looks);
        assert_steal_clock(&summary, &looks);
    }

    #[test]
    fn two_runs_on_one_cpu_name_each_other() {
        let (long, short) = (microvm("4s"), microvm("2s"));
        let [of_long, of_short] = [&long, &short].map(|run| (run.pid(), run.vcpu_tid().unwrap()));
        let [by_long, by_short] = std::thread::scope(|scope| {
            let both = [
                scope.spawn(|| looks(&long, of_short)),
                scope.spawn(|| looks(&short, of_long)),
            ];
            both.map(|looks| looks.join().unwrap())
        });
        for (run, other, looks) in [(long, of_short, by_long), (short, of_long, by_short)] {
            let summary = run.summary().unwrap();
            assert_budgets_add_up(&summary);
            assert_booked(&summary, &format!(":{}", other.1), &looks);
        }
    }

    #[test]
    fn each_burst_is_in_a_gap_that_names_it_and_silence_is_not_blamed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("bursts");
        // The bursts last for 4 s at an odd rate. They start before the run and end before the run
        // ends.
        let burst = Duration::from_micros(500);
        let disturber = Disturber::bursts(measured_cpu(), 97, burst, 388, &log).unwrap();
        let source = disturber.source().unwrap();
        let summary = microvm("4s").summary().unwrap();
        assert_budgets_add_up(&summary);
        assert_bursts(&summary, &source, &disturber.into_log().unwrap());

        let quiet = microvm("1s").summary().unwrap();
        assert_budgets_add_up(&quiet);
        let lost_ns = |gap: BlamedGap<'_>| {
            gap.booked_ns(|part| {
                part["source"]
                    .as_str()
                    .is_some_and(|it| it.starts_with("lab-"))
            })
        };
        let blamed_ns: u64 = gaps(&quiet).into_iter().map(lost_ns).sum();
        assert_eq!(blamed_ns, 0, "a disturber that is not there is blamed");
    }

    /// Asserts that each burst lies in one gap that names the burst's thread. The gaps must
    /// attribute the same time to the bursts as the scheduler charged for them.
    fn assert_bursts(summary: &Value, source: &str, bursts: &[Burst]) {
        let gaps = gaps(summary);
        let (from_tsc, to_tsc) = (gaps[0].start_tsc(), gaps[gaps.len() - 1].end_tsc());
        let inside = |burst: &Burst| burst.begin_tsc > from_tsc && burst.end_tsc < to_tsc;
        let first = bursts.iter().position(inside).unwrap();
        // The last burst is left out, because the next burst contains the charge for its switch off
        // the CPU.
        let last = bursts
            .iter()
            .rposition(inside)
            .unwrap()
            .min(bursts.len() - 2);
        assert!(
            last - first > 50,
            "only {} bursts during the run",
            last - first
        );

        let (mut named_ns, mut lacking_ns, mut unnamed) = (0, 0, 0);
        let mut rest = &bursts[first..=last];
        while let Some(burst) = rest.first() {
            let holds = |gap: &&BlamedGap<'_>| {
                gap.start_tsc() <= burst.begin_tsc && burst.end_tsc <= gap.end_tsc()
            };
            let gap = *gaps.iter().find(holds).expect("a burst in no gap");
            let here = rest.partition_point(|burst| burst.end_tsc <= gap.end_tsc());
            let (here, behind) = rest.split_at(here);
            rest = behind;
            let logged_tsc = here.iter().map(|burst| burst.end_tsc - burst.begin_tsc);
            // Rounding and the clock error may shorten the reported time by a ten-thousandth.
            let logged_ns = logged_tsc.sum::<u64>() as f64 * gap.ns_per_cycle() * 0.9999;
            let own_ns = gap.preempted_ns(source);
            lacking_ns += (logged_ns as u64).saturating_sub(own_ns + gap.interrupts_ns());
            // If the kernel hid the switches of a burst, no task is blamed for the burst, not even
            // a wrong one.
            let nobodys_ns = gap.shares_ns(&["steal", "hw", "hv_or_hw", "unexplained"]);
            unnamed += usize::from(own_ns == 0);
            assert!(
                (own_ns + gap.interrupts_ns() + nobodys_ns) as f64 >= logged_ns,
                "{gap:?}"
            );
            named_ns += own_ns;
        }
        let unpaired = unpaired(summary, &gaps);
        let hidden_ns = hidden_ns(&gaps, unpaired);
        // The time that the host below took during bursts is not part of any task's time.
        let outer_ns = summary["cpus"][0]["outer_steal_ns"].as_u64().unwrap_or(0);
        // The charge from the end of one burst to the end of the next contains the thread's switch
        // off the CPU after the first burst. It also contains the switch onto the CPU before the
        // second burst.
        let charged = bursts[first..=last + 1]
            .iter()
            .map(|burst| burst.charged_ns);
        let charged_ns: u64 = charged.sum();
        let reported = format!(
            "{} bursts charged {charged_ns} ns, named {named_ns} ns; of what they logged \
             {lacking_ns} ns lack, a host below took {outer_ns} ns, hidden {hidden_ns} ns; \
             {unnamed} unnamed, {unpaired} unpaired",
            last - first + 1
        );
        println!("{reported}");
        assert!(unnamed <= unpaired, "{reported}");
        assert!(named_ns <= charged_ns, "{reported}");
        assert!(lacking_ns <= outer_ns + hidden_ns, "{reported}");
    }

    #[test]
    fn a_stopped_process_is_no_gap_and_not_measured() {
        let run = microvm("2s");
        let (pid, tid) = (run.pid(), run.vcpu_tid().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let process = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let before_stop = Instant::now();
        rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
        while !schedstat::stands(pid, tid) {
            assert!(
                before_stop.elapsed() < Duration::from_secs(5),
                "it does not stop"
            );
        }
        // Another thread uses the CPU while the process is stopped. Interrupts during the stop take
        // at most the time for which this thread was interrupted.
        let undisturbed = undisturbed(measured_cpu(), Duration::from_millis(300)).unwrap();
        // Other threads may delay the vCPU's thread, which notices the stop when it runs again.
        let slices = || schedstat::read(pid, tid).unwrap().slices;
        let before_run = slices();
        rustix::process::kill_process(process, rustix::process::Signal::CONT).unwrap();
        while slices() == before_run {
            assert!(
                before_stop.elapsed() < Duration::from_secs(30),
                "it does not run again"
            );
        }
        let longest = before_stop.elapsed();
        let summary = run.summary().unwrap();

        assert_budgets_add_up(&summary);
        let long = gaps(&summary).into_iter();
        let long: Vec<BlamedGap<'_>> = long
            .filter(|gap| gap.length_ns() >= undisturbed.as_nanos() as u64)
            .collect();
        assert!(long.is_empty(), "{long:?}");
        let not_measured_ns = summary["cpus"][0]["not_measured_ns"].as_u64().unwrap();
        assert_stopped(not_measured_ns, &(undisturbed..=longest));
    }
}
