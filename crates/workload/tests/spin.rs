//! Tests polling threads on this machine, which may be noisy.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use vmnoise_events::{CpuTally, Gap, InterferenceSlot, Policy};
use vmnoise_testkit::{wait_until, wait_until_every};
use vmnoise_workload::spin::{
    InterferenceCounter, ReadSteal, Spin, SpinConfig, StealReading, poll_steps,
};
use vmnoise_workload::{Error, RunningWorkload, thread, tsc};

use crate::common::{BusyThread, gaps};

const THRESHOLD_TSC: u64 = 2_500;
const MS: Duration = Duration::from_millis(1);

fn cycles(dur: Duration) -> u64 {
    static HZ: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| tsc::calibrate_hz(20 * MS));
    (dur.as_nanos() * u128::from(*HZ) / 1_000_000_000) as u64
}

/// Returns settings of threads that poll all the time.
fn config(cpus: &[u32]) -> SpinConfig {
    SpinConfig {
        cpus: cpus.to_vec(),
        threshold_tsc: THRESHOLD_TSC,
        policy: None,
        cgroup: None,
        period_tsc: cycles(20 * MS),
        runtime_tsc: cycles(20 * MS),
        steal_readers: HashMap::new(),
        interference_counters: HashMap::new(),
        reads_run_delay: false,
    }
}

/// Returns settings of threads that poll for `runtime` in each `period`.
fn pausing(runtime: Duration, period: Duration) -> SpinConfig {
    SpinConfig {
        period_tsc: cycles(period),
        runtime_tsc: cycles(runtime),
        ..config(&[1])
    }
}

/// Returns a reader of the steal clock of CPU 1.
fn on_cpu_1(
    read: impl FnMut() -> Option<StealReading> + Send + 'static,
) -> HashMap<u32, ReadSteal> {
    HashMap::from([(1, Box::new(read) as ReadSteal)])
}

/// Returns a counter of readings, and a steal clock for CPU 1. At each reading, the steal clock
/// advances by 1 µs and by one reload.
fn stub() -> (Arc<AtomicU32>, HashMap<u32, ReadSteal>) {
    let readings = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&readings);
    let readers = on_cpu_1(move || {
        let reading = count.fetch_add(1, Ordering::Relaxed);
        Some(StealReading {
            steal_ns: u64::from(reading) * 1_000,
            version: Some((u32::MAX - 9).wrapping_add(2 * reading)),
        })
    });
    (readings, readers)
}

/// Runs until the deadline. Returns all gaps and the last tallies.
fn run(spin: &mut Spin, dur: Duration) -> (Vec<Gap>, Vec<CpuTally>) {
    spin.start(Some(tsc::now() + cycles(dur))).unwrap();
    let mut drained = Vec::new();
    while spin.running() {
        drained.extend(gaps(spin));
        std::thread::sleep(5 * MS);
    }
    spin.join().unwrap();
    drained.extend(gaps(spin));
    (drained, spin.tallies())
}

fn runtime_tsc(tally: &CpuTally) -> u64 {
    tally.last_tsc - tally.first_tsc - tally.blind_tsc.unwrap()
}

#[test]
fn the_settings_show_the_name_of_their_type() {
    let shown = format!("{:?}", config(&[0, 1]));
    assert_eq!(shown, "SpinConfig { cpus: [0, 1], .. }");
}

#[test]
fn gaps_are_ordered_disjoint_and_inside_the_run() {
    let begin_tsc = tsc::now();
    let mut spin = Spin::prepare(config(&[0, 1])).unwrap();
    let (gaps, tallies) = run(&mut spin, 100 * MS);
    assert_eq!((spin.dropped(), spin.clock_steps_back()), (0, 0));
    for (tally, thread) in tallies.iter().zip(spin.threads()) {
        assert_eq!(tally.cpu, thread.cpu);
        let mut before_tsc = tally.first_tsc;
        let mut count = 0;
        for gap in gaps.iter().filter(|gap| gap.cpu == tally.cpu) {
            assert!(gap.start_tsc >= before_tsc, "{gap:?} overlaps");
            assert!(gap.end_tsc - gap.start_tsc >= THRESHOLD_TSC, "{gap:?}");
            assert_eq!((gap.steal_ns, gap.reloads), (0, 0), "nobody read it");
            before_tsc = gap.end_tsc;
            count += 1;
        }
        assert!(count > 0, "a timer tick alone is a gap");
        assert!(begin_tsc < tally.first_tsc && before_tsc <= tally.last_tsc);
        assert!(runtime_tsc(tally) >= cycles(50 * MS), "{tally:?}");
        let blind_tsc = tally.blind_tsc.unwrap();
        assert!(blind_tsc > 0 && blind_tsc < runtime_tsc(tally) / 10);
        assert_eq!((tally.steal_clock_ns, tally.reloads), (None, None));
    }
    assert!(!spin.has_steal_clock());
}

#[test]
fn a_pause_is_no_runtime_no_gap_and_not_stolen() {
    let all_is_stolen = || {
        Some(StealReading {
            steal_ns: tsc::anchor().mono_ns,
            version: Some(0),
        })
    };
    let mut spin = Spin::prepare(SpinConfig {
        steal_readers: on_cpu_1(all_is_stolen),
        ..pausing(20 * MS, 150 * MS)
    })
    .unwrap();
    let (gaps, tallies) = run(&mut spin, 500 * MS);
    let [tally] = tallies[..] else {
        panic!("{tallies:?}")
    };
    let span_tsc = tally.last_tsc - tally.first_tsc;
    assert!(span_tsc >= cycles(400 * MS), "{tally:?}");
    let part = runtime_tsc(&tally) as f64 / span_tsc as f64;
    assert!((0.02..0.5).contains(&part), "polled {part} of the time");
    let in_gaps_tsc: u64 = gaps.iter().map(|gap| gap.end_tsc - gap.start_tsc).sum();
    assert!(
        in_gaps_tsc <= runtime_tsc(&tally),
        "gaps of {in_gaps_tsc} cycles in {tally:?}"
    );
    let stolen = Duration::from_nanos(tally.steal_clock_ns.unwrap());
    assert!(
        cycles(stolen) <= span_tsc / 2,
        "{stolen:?} stolen in {tally:?}"
    );
}

#[test]
fn a_sleeping_thread_ends_at_the_deadline_and_at_the_stop() {
    let minute = Duration::from_secs(60);
    let begin = Instant::now();
    let mut spin = Spin::prepare(pausing(MS, minute)).unwrap();
    run(&mut spin, 40 * MS);
    assert!(begin.elapsed() >= 40 * MS, "not before it");

    let mut spin = Spin::prepare(pausing(MS, minute)).unwrap();
    spin.start(None).unwrap();
    std::thread::sleep(30 * MS);
    assert!(spin.running());
    spin.stop();
    spin.join().unwrap();
    assert!(begin.elapsed() < minute / 2);
}

#[test]
fn stop_ends_the_run_early() {
    let mut spin = Spin::prepare(config(&[1])).unwrap();
    spin.start(None).unwrap();
    wait_until("the first reading", || spin.tallies()[0].first_tsc > 0);
    assert!(spin.running());
    let stop_tsc = tsc::now();
    spin.stop();
    spin.join().unwrap();
    let late_tsc = spin.tallies()[0].last_tsc.saturating_sub(stop_tsc);
    assert!(late_tsc < cycles(Duration::from_secs(1)), "{late_tsc}");
}

#[test]
fn a_busy_neighbour_makes_long_gaps() {
    let neighbour = BusyThread::on(1);
    let mut spin = Spin::prepare(config(&[1])).unwrap();
    let (gaps, _) = run(&mut spin, 150 * MS);
    drop(neighbour);
    let lengths = gaps.iter().map(|gap| gap.end_tsc - gap.start_tsc);
    let longest_tsc = lengths.max().unwrap();
    assert!(longest_tsc > cycles(MS), "longest gap: {longest_tsc}");
}

#[test]
fn the_steal_clock_is_read_once_for_each_gap_and_begin() {
    let (readings, steal_readers) = stub();
    let mut spin = Spin::prepare(SpinConfig {
        steal_readers,
        ..pausing(5 * MS, 25 * MS)
    })
    .unwrap();
    assert!(spin.has_steal_clock());
    let in_set_up = readings.load(Ordering::Relaxed);
    let (gaps, tallies) = run(&mut spin, 110 * MS);
    assert!(!gaps.is_empty());
    for gap in &gaps {
        assert_eq!((gap.steal_ns, gap.reloads), (1_000, 1), "{gap:?}");
    }
    let count = gaps.len() as u64;
    assert_eq!(tallies[0].steal_clock_ns, Some(count * 1_000));
    assert_eq!(tallies[0].reloads, Some(count));
    let begins = u64::from(readings.load(Ordering::Relaxed) - in_set_up) - count;
    // The thread reads the clock once at the begin and once after each pause. If the thread gets
    // too little CPU time, it does not pause.
    assert!((1..=6).contains(&begins), "{begins} begins");
}

#[test]
fn writing_that_was_disturbed_is_a_gap_too() {
    let mut calls = 0;
    let disturbed = move || {
        calls += 1;
        if calls % 5 == 0 {
            let until_tsc = tsc::now() + cycles(MS);
            while tsc::now() < until_tsc {}
        }
        Some(StealReading::default())
    };
    let mut spin = Spin::prepare(SpinConfig {
        steal_readers: on_cpu_1(disturbed),
        ..config(&[1])
    })
    .unwrap();
    let (gaps, _) = run(&mut spin, 100 * MS);
    let touch = |pair: &&[Gap]| pair[0].end_tsc == pair[1].start_tsc;
    let stretches: Vec<_> = gaps.windows(2).filter(touch).collect();
    assert!(!stretches.is_empty(), "{} gaps, none touch", gaps.len());
    for pair in stretches {
        let length_tsc = pair[1].end_tsc - pair[1].start_tsc;
        assert!(length_tsc >= 10_000, "{pair:?}");
    }
}

#[test]
fn a_slow_steal_clock_is_no_disturbance() {
    let slow = || {
        let until_tsc = tsc::now() + 20_000;
        while tsc::now() < until_tsc {}
        Some(StealReading::default())
    };
    let mut spin = Spin::prepare(SpinConfig {
        steal_readers: on_cpu_1(slow),
        ..config(&[1])
    })
    .unwrap();
    let (gaps, _) = run(&mut spin, 60 * MS);
    let pairs = gaps.windows(2);
    let touching = pairs.filter(|pair| pair[0].end_tsc == pair[1].start_tsc);
    let part = touching.count() as f64 / gaps.len() as f64;
    assert!(part < 0.5, "{part} of {} gaps touch", gaps.len());
}

#[test]
fn a_thread_that_was_moved_says_so() {
    let mut spin = Spin::prepare(config(&[1])).unwrap();
    spin.start(None).unwrap();
    wait_until("the first reading", || spin.tallies()[0].first_tsc > 0);
    let tid = Pid::from_raw(spin.threads()[0].tid.cast_signed());
    let mut elsewhere = CpuSet::new();
    elsewhere.set(0);
    sched_setaffinity(tid, &elsewhere).unwrap();
    wait_until("the end", || !spin.running());
    let moved = Error::Moved {
        cpu: 1,
        thread: "polling thread",
        now_on: 0,
    };
    assert_eq!(spin.failure().unwrap().to_string(), moved.to_string());
    assert!(spin.start(None).is_err());
    assert_eq!(spin.join(), Err(moved));
    assert!(gaps(&mut spin).iter().all(|gap| gap.cpu == 1));
}

#[test]
fn a_thread_that_dies_says_so() {
    let mut calls = 0;
    let dies = move || -> Option<StealReading> {
        calls += 1;
        if calls > 20 {
            std::panic::resume_unwind(Box::new("no message on stderr"));
        }
        Some(StealReading::default())
    };
    let mut spin = Spin::prepare(SpinConfig {
        threshold_tsc: 0,
        steal_readers: on_cpu_1(dies),
        ..config(&[1])
    })
    .unwrap();
    spin.start(None).unwrap();
    wait_until("a failure", || spin.failure().is_some());
    let gone = Error::Thread(thread::Error::Gone(1));
    assert_eq!(spin.join(), Err(gone));
}

/// Interference counters that a test changes.
#[derive(Default)]
struct Counters(InterferenceSlot);

impl AsRef<InterferenceSlot> for Counters {
    fn as_ref(&self) -> &InterferenceSlot {
        &self.0
    }
}

#[test]
fn every_count_is_in_the_tally_and_those_of_gaps_are_in_gaps() {
    let counters = Arc::new(Counters::default());
    let interrupt = || {
        counters.0.irq.fetch_add(1, Ordering::SeqCst);
        counters.0.total.fetch_add(1, Ordering::SeqCst);
    };
    interrupt();
    let mut spin = Spin::prepare(SpinConfig {
        interference_counters: HashMap::from([(1, counters.clone() as InterferenceCounter)]),
        ..config(&[1])
    })
    .unwrap();
    assert!(spin.counts_interference());
    spin.start(None).unwrap();
    wait_until("the last reading", || spin.tallies()[0].last_tsc > 0);
    let irqs = |spin: &Spin| spin.tallies()[0].interference.unwrap().irq;
    assert_eq!(irqs(&spin), 0, "what came before the start is not counted");
    for count in 1..=1_000 {
        interrupt();
        wait_until_every(MS, "an interrupt", || irqs(&spin) == count);
    }
    spin.stop();
    spin.join().unwrap();
    interrupt();
    assert_eq!(irqs(&spin), 1_000, "nor is what came after the end");
    let counts = gaps(&mut spin).into_iter();
    let counts = counts.map(|gap| u64::from(gap.interference.unwrap()));
    let in_gaps: u64 = counts.sum();
    assert!(in_gaps <= 1_000, "{in_gaps} in gaps");
}

#[test]
fn without_counters_interference_is_unknown() {
    let mut spin = Spin::prepare(config(&[1])).unwrap();
    assert!(!spin.counts_interference());
    spin.start(None).unwrap();
    let mut drained = Vec::new();
    wait_until("gaps", || {
        drained.extend(gaps(&mut spin));
        !drained.is_empty()
    });
    assert!(drained.iter().all(|gap| gap.interference.is_none()));
    assert_eq!(spin.tallies()[0].interference, None);
}

#[test]
fn a_full_ring_drops_and_counts() {
    // With a threshold of 0, every iteration is a gap.
    let mut spin = Spin::prepare(SpinConfig {
        threshold_tsc: 0,
        ..config(&[1])
    })
    .unwrap();
    spin.start(None).unwrap();
    wait_until("lost gaps", || spin.dropped() > 0);
    spin.stop();
    spin.join().unwrap();
    assert_eq!(gaps(&mut spin).len(), 1 << 15);
}

#[test]
fn dropping_the_threads_in_any_state_ends_them() {
    let begin = Instant::now();
    drop(Spin::prepare(config(&[0, 1])).unwrap());
    let mut endless = Spin::prepare(config(&[1])).unwrap();
    endless.start(None).unwrap();
    drop(endless);
    let mut never_started = Spin::prepare(config(&[1])).unwrap();
    never_started.join().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let refusal = |config| Spin::prepare(config).unwrap_err();
    assert_eq!(refusal(config(&[])), thread::Error::NoCpu.into());
    let missing = refusal(config(&[0, 900])).to_string();
    assert!(missing.contains("CPU 900"), "{missing}");
    for runtime in [Duration::ZERO, 21 * MS] {
        let error = refusal(pausing(runtime, 20 * MS));
        assert!(matches!(error, Error::Runtime { .. }), "{error}");
    }
    let fifo = SpinConfig {
        policy: Some(Policy::Fifo(1)),
        ..config(&[1])
    };
    match Spin::prepare(fifo) {
        Ok(spin) => assert!(spin.running()),
        Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
    }
}

#[test]
fn poll_steps_are_short() {
    let mut steps = poll_steps(1).unwrap();
    steps.sort_unstable();
    let median_tsc = steps[steps.len() / 2];
    assert!(steps.len() > 100_000);
    assert!(median_tsc < 10 * tsc::rdtsc_cycles() + 500, "{median_tsc}");
}

/// Returns the run delay of a thread, as the scheduler counts it.
fn waited_ns(tid: u32) -> u64 {
    let line = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Tests the run delay of gaps. The test needs no rights.
#[test]
fn gaps_say_how_long_their_thread_waited() {
    let mut spin = Spin::prepare(SpinConfig {
        reads_run_delay: true,
        ..config(&[1])
    })
    .unwrap();
    assert!(spin.counts_run_delay());
    let tid = spin.threads()[0].tid;
    let neighbour = BusyThread::on(1);
    spin.start(None).unwrap();
    let mut all = Vec::new();
    let begin = Instant::now();
    // Run delay before the thread began to poll belongs to no gap.
    while spin.tallies()[0].first_tsc == 0 {
        std::thread::sleep(MS);
    }
    let before_ns = waited_ns(tid);
    while begin.elapsed() < 400 * MS {
        all.extend(gaps(&mut spin));
        std::thread::sleep(5 * MS);
    }
    let waited_ns = waited_ns(tid) - before_ns;
    all.extend(gaps(&mut spin));
    drop(neighbour);
    spin.stop();
    let ns = |gap: &Gap| (gap.end_tsc - gap.start_tsc) * 1_000 / cycles(Duration::from_micros(1));
    let in_gaps_ns: u64 = all.iter().map(|gap| gap.run_delay_ns).sum();
    // If two threads share a CPU, each thread waits for half of the time. The missing time belongs
    // to gaps that were not finished at the begin or the end.
    let longest_ns = all.iter().map(ns).max().unwrap();
    assert!(waited_ns > 50_000_000, "it waited for {waited_ns} ns");
    assert!(
        in_gaps_ns.abs_diff(waited_ns) <= 2 * longest_ns,
        "{in_gaps_ns} of {waited_ns} ns, the longest gap has {longest_ns}"
    );
}
