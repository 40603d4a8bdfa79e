//! Tests periodic tasks on this machine, which may be noisy.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vmnoise_events::{Activation, Event, TimerSlot};
use vmnoise_testkit::wait_until;
use vmnoise_workload::timer::{Probes, Timer, TimerConfig, TimerSteps};
use vmnoise_workload::{RunningWorkload, thread};

const PERIOD_NS: u64 = 2_000_000;

fn config(cpus: &[u32]) -> TimerConfig {
    TimerConfig {
        cpus: cpus.to_vec(),
        policy: None,
        cgroup: None,
        period_ns: PERIOD_NS,
        aligned_ns: None,
        probes: Vec::new(),
    }
}

/// Returns every activation since the last call of this function.
fn activations(timer: &mut Timer) -> Vec<Activation> {
    let mut activations = Vec::new();
    timer.drain(&mut |event| match event {
        Event::Activation(activation) => activations.push(activation),
        other => panic!("no activation: {other:?}"),
    });
    activations
}

fn run(config: TimerConfig, length: Duration) -> Vec<Activation> {
    let mut timer = Timer::prepare(config).unwrap();
    timer.start(None).unwrap();
    std::thread::sleep(length);
    timer.stop();
    wait_until("the end", || !timer.running());
    let activations = activations(&mut timer);
    assert!(timer.dropped() == 0 && timer.failure().is_none());
    for tally in timer.tallies() {
        assert!(0 < tally.first_tsc && tally.first_tsc <= tally.last_tsc);
    }
    activations
}

#[test]
fn the_settings_show_the_name_of_their_type() {
    let shown = format!("{:?}", config(&[0, 1]));
    assert_eq!(shown, "TimerConfig { cpus: [0, 1], .. }");
}

#[test]
fn each_period_has_a_wake_up_or_is_missed() {
    let activations = run(config(&[1]), Duration::from_millis(300));
    assert!(activations.len() > 20, "{}", activations.len());
    for pair in activations.windows(2) {
        let periods = 1 + u64::from(pair[1].missed);
        let apart_ns = pair[1].expiry_mono_ns - pair[0].expiry_mono_ns;
        assert_eq!(apart_ns, periods * PERIOD_NS);
        assert!(pair[0].woke_mono_ns >= pair[0].expiry_mono_ns, "{pair:?}");
        assert!(pair[1].expiry_mono_ns > pair[0].woke_mono_ns, "{pair:?}");
    }
}

#[test]
fn aligned_tasks_lie_on_one_grid() {
    const BEHIND_NS: u64 = 300_000;
    let aligned = TimerConfig {
        aligned_ns: Some(BEHIND_NS),
        ..config(&[0, 1])
    };
    let activations = run(aligned, Duration::from_millis(100));
    let of = |cpu| activations.iter().find(|it| it.cpu == cpu).unwrap();
    let apart_ns = of(1)
        .expiry_mono_ns
        .abs_diff(of(0).expiry_mono_ns + 8 * PERIOD_NS);
    assert!(
        [BEHIND_NS, PERIOD_NS - BEHIND_NS].contains(&(apart_ns % PERIOD_NS)),
        "{apart_ns} ns"
    );
}

#[test]
fn a_task_asks_for_each_wake_up_and_takes_the_steps_that_bpf_wrote() {
    let slot = Arc::new(TimerSlot::default());
    let of_bpf = Arc::clone(&slot);
    struct Steps(Arc<TimerSlot>);
    impl AsRef<TimerSlot> for Steps {
        fn as_ref(&self) -> &TimerSlot {
            &self.0
        }
    }
    let config = TimerConfig {
        probes: vec![Probes {
            steps: Some(Arc::new(Steps(slot)) as TimerSteps),
            steal_reader: None,
        }],
        ..config(&[1])
    };
    let mut timer = Timer::prepare(config).unwrap();
    timer.start(None).unwrap();
    let begin = Instant::now();
    let mut seen = None;
    while seen.is_none() && begin.elapsed() < Duration::from_secs(20) {
        // Like BPF, the test writes to the slot while the task sleeps.
        let expiry_ns = of_bpf.expiry_mono_ns.load(Ordering::Acquire);
        of_bpf.irq_mono_ns.store(expiry_ns + 5, Ordering::Release);
        std::thread::sleep(Duration::from_micros(100));
        let steps = activations(&mut timer).into_iter();
        let irq = |it: Activation| it.irq_mono_ns.map(|ns| (it, ns));
        seen = seen.or(steps.filter_map(irq).next());
    }
    let (activation, irq_ns) = seen.unwrap();
    assert_eq!(
        (irq_ns - 5) % PERIOD_NS,
        activation.expiry_mono_ns % PERIOD_NS
    );
    assert_eq!(activation.switch_mono_ns, None, "nobody wrote it");
}

#[test]
fn nothing_to_measure_is_refused() {
    let refused = Timer::prepare(config(&[])).unwrap_err();
    assert_eq!(refused, thread::Error::NoCpu.into());
}

mod root {
    use super::*;

    /// By default, the timer of an ordinary task may expire 50 us late, and no probe reports this
    /// delay.
    #[test]
    fn timers_of_ordinary_tasks_have_no_slack() {
        let timer = Timer::prepare(config(&[0, 1])).unwrap();
        for thread in timer.threads() {
            // Reading the slack of another thread needs CAP_SYS_NICE.
            let slack = std::fs::read_to_string(format!("/proc/{}/timerslack_ns", thread.tid));
            assert_eq!(slack.unwrap().trim(), "1");
        }
        let own = std::fs::read_to_string("/proc/self/timerslack_ns").unwrap();
        assert_ne!(own.trim(), "1", "it would prove nothing");
    }
}
