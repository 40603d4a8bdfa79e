//! Measures how late the timers of a guest are. One vCPU arms the timer of its interrupt
//! controller, halts, and reads the clock when the interrupt comes, as in `tscdeadline_latency` of
//! kvm-unit-tests.
//!
//! Each limit of halt polling has a VM of its own. One thread runs these VMs alternately, so that
//! other changes on the machine affect all of them. KVM's parameters are not changed.

pub(super) mod program;
mod witness;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vmnoise_events::Policy;

use super::guest::GuestCommand;
use super::histogram::{self, Spread, Word};
use super::state::GuestState;
use super::vcpu::{GuestVcpu, Return};
use super::vm::MicrovmMemory;
use crate::worker::RunState;
use crate::workers::Workers;
use crate::{Error, RunningWorkload, tsc};
use witness::Witness;

pub use witness::{Halts, Times};

/// Interval at which [`PreparedLapicTimer::run`] asks its caller whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum lateness of a timer. If a timer is later, the run fails.
const PATIENCE: Duration = Duration::from_secs(5);

/// Settings of the measurement.
#[derive(Debug, Clone)]
pub struct LapicTimerConfig {
    /// Host CPU on which the vCPU runs.
    pub cpu: u32,
    /// Time from the arming of each timer to its expiry, in TSC cycles.
    pub interval_tsc: u64,
    /// Limits of halt polling to measure, in nanoseconds. Each limit gets a VM of its own; `None`
    /// means the value of KVM's parameter.
    pub halt_poll_ns: Vec<Option<u32>>,
    /// Number of measurements with each limit.
    pub rounds: u32,
    /// Duration of one measurement with one limit, in TSC cycles.
    pub turn_tsc: u64,
    /// Frequency of the TSC, in Hz.
    pub tsc_hz: u64,
    /// Policy of the vCPU's thread; `None` to inherit the policy of this process.
    pub policy: Option<Policy>,
}

/// Result of one measurement with one limit of halt polling. Times are in TSC cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerTurn {
    /// Index of the limit in [`LapicTimerConfig::halt_poll_ns`].
    pub setting: usize,
    /// Histogram of the lateness of all timers, ascending. Each entry is the longest lateness of a
    /// bucket (exact to one part in 2048) and the number of timers. Timers that came early count as
    /// 0.
    pub late_tsc: Vec<(u64, u64)>,
    /// Summary of the lateness of all timers.
    pub spread_tsc: Spread,
    /// Number of timers that came before they were due.
    pub early: u64,
    /// Largest time by which a timer came too early, in TSC cycles.
    pub earliest_tsc: u64,
    /// Times of the vCPU's thread according to the scheduler.
    pub times: Times,
    /// Halts of the vCPU according to KVM.
    pub halts: Halts,
}

/// Results of all measurements, and facts that are known only at the end.
#[derive(Debug)]
pub struct LapicTimerResult {
    /// Results of the measurements, in the order of time.
    pub turns: Vec<TimerTurn>,
    /// Time by which KVM intentionally fires the timers of the first limit's vCPU too early, in
    /// nanoseconds. It comes from debugfs; `None` if it cannot be read.
    pub advance_ns: Option<u64>,
}

/// Returns whether this machine's KVM accepts a limit of halt polling for each VM.
///
/// # Errors
/// If this machine cannot create a VM. The error contains the remedy.
pub fn can_limit_halt_poll(cpu: u32) -> Result<bool, Error> {
    Ok(MicrovmMemory::create(&[cpu], None)?.has_halt_poll_limit())
}

/// Guests that are set up and wait for the start.
#[derive(Debug)]
pub struct PreparedLapicTimer {
    workers: Workers<GuestState>,
    turns: mpsc::Receiver<TimerTurn>,
    /// Number of finished measurements.
    over: Arc<AtomicU64>,
    advance: Option<File>,
    config: LapicTimerConfig,
}

/// Sets up one guest for each limit of halt polling.
///
/// # Errors
/// If this machine cannot run the guests. The error contains the remedy.
pub fn prepare(config: &LapicTimerConfig) -> Result<PreparedLapicTimer, Error> {
    let cpu = config.cpu;
    let mut vms = Vec::new();
    for &limit_ns in &config.halt_poll_ns {
        let mut vm = MicrovmMemory::create(&[cpu], None)?;
        vm.add_lapics()?;
        if let Some(limit_ns) = limit_ns {
            vm.limit_halt_poll(limit_ns)?;
        }
        vms.push(Arc::new(vm));
    }
    let first = vms.first().ok_or(crate::thread::Error::NoCpu)?;
    let advance = format!(
        "/sys/kernel/debug/kvm/{}-{}/vcpu0/lapic_timer_advance_ns",
        std::process::id(),
        first.fd.as_raw_fd()
    );
    let (done, turns) = mpsc::channel();
    let over = Arc::<AtomicU64>::default();
    let workers = Workers::set_up("vcpu", &[cpu], config.policy, None, |_, cpu| {
        let (vms, done, over) = (vms.clone(), done.clone(), Arc::clone(&over));
        let config = config.clone();
        move || {
            let mut guests = Vec::new();
            for vm in vms {
                let vcpu = GuestVcpu::create(&vm, 0, cpu)?;
                vcpu.let_take_interrupts()?;
                let witness = Witness::new(&vcpu, cpu);
                guests.push(Guest { vm, vcpu, witness });
            }
            let first = guests.first().ok_or(crate::thread::Error::NoCpu)?;
            let state = GuestState::new(Arc::clone(&first.vm), &first.vcpu, None);
            let work = move |run: &RunState| take_turns(&mut guests, &config, run, &done, &over);
            Ok((Arc::new(state), work))
        }
    })?;
    Ok(PreparedLapicTimer {
        workers,
        turns,
        over,
        // The file exists from the creation of the vCPU on.
        advance: File::open(advance).ok(),
        config: config.clone(),
    })
}

impl PreparedLapicTimer {
    /// Measures until all measurements are finished or `enough` returns true.
    ///
    /// # Errors
    /// If no timer interrupt came, or if this machine cannot run the guest. The error contains the
    /// remedy.
    pub fn run(self, enough: &dyn Fn() -> bool) -> Result<LapicTimerResult, Error> {
        let PreparedLapicTimer {
            mut workers,
            turns,
            over,
            advance,
            config,
        } = self;
        let turn_tsc = config.turn_tsc + config.interval_tsc;
        let turn = Duration::from_secs_f64(turn_tsc as f64 / config.tsc_hz.max(1) as f64);
        let (mut seen, mut since) = (0, Instant::now());
        // If some threads could not start, `join` returns the reason.
        let started = workers.start(None);
        while started.is_ok() && workers.running() {
            std::thread::sleep(LOOK);
            if enough() {
                workers.stop();
            }
            let now_over = over.load(Ordering::Acquire);
            if now_over != seen {
                (seen, since) = (now_over, Instant::now());
            } else if since.elapsed() > turn + PATIENCE {
                workers.call_away();
            }
        }
        workers.join()?;
        let at_end = advance.and_then(|mut file| {
            // One read returns the current value. debugfs allows no reads at an offset.
            let mut text = [0; 32];
            let len = file.read(&mut text).ok()?;
            str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
        });
        Ok(LapicTimerResult {
            turns: turns.try_iter().collect(),
            advance_ns: at_end,
        })
    }
}

/// The guest for one limit of halt polling.
struct Guest {
    vm: Arc<MicrovmMemory>,
    vcpu: GuestVcpu,
    witness: Witness,
}

fn take_turns(
    guests: &mut [Guest],
    config: &LapicTimerConfig,
    run: &RunState,
    done: &mpsc::Sender<TimerTurn>,
    over: &AtomicU64,
) -> Result<(), Error> {
    let settings = guests.len();
    for round in 0..config.rounds as usize {
        for place in 0..settings {
            if tsc::now() >= run.lease.end_tsc() {
                return Ok(());
            }
            let setting = in_turn(round, place, settings);
            let turn = guests[setting].take_turn(setting, config, run)?;
            // The thread that called [`prepare`] receives the result.
            let _ = done.send(turn);
            over.fetch_add(1, Ordering::Release);
        }
    }
    Ok(())
}

/// Returns the index of the limit to measure at this position of a round. A limit may affect the
/// next measurement (a warm CPU, its frequency). This effect must not always hit the same limit. So
/// the order of the limits changes from round to round, and so does its direction.
fn in_turn(round: usize, place: usize, settings: usize) -> usize {
    let steps: Vec<usize> = (1..settings.max(2))
        .filter(|it| gcd(*it, settings) == 1)
        .collect();
    (round + place * steps[round % steps.len()]) % settings
}

fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

impl Guest {
    fn take_turn(
        &mut self,
        setting: usize,
        config: &LapicTimerConfig,
        run: &RunState,
    ) -> Result<TimerTurn, Error> {
        let memory = &self.vm.memory;
        memory.clear_samples(0, histogram::WRITTEN);
        let control = &memory.mailbox(0).control;
        control
            .interval_tsc
            .store(config.interval_tsc, Ordering::Relaxed);
        let end_tsc = tsc::now().saturating_add(config.turn_tsc);
        memory
            .mailbox(0)
            .set_deadline(self.vcpu.clock.to_guest(end_tsc));
        let before = self.witness.look();
        let came_back = self
            .vcpu
            .obey(GuestCommand::Timers, &|| run.barrier.is_closed())?;
        let after = self.witness.look();
        let no_timer = super::Error::NoTimer {
            cpu: config.cpu,
            waited_s: PATIENCE.as_secs(),
        };
        let words = memory.samples(0);
        let (_, spread, _) = histogram::read(&words);
        match (came_back, spread) {
            (Return::Done, Some(spread_tsc)) => Ok(TimerTurn {
                setting,
                late_tsc: histogram::counts(&words),
                spread_tsc,
                early: histogram::word(&words, Word::Early),
                earliest_tsc: histogram::word(&words, Word::Earliest),
                times: after.times.since(&before.times),
                halts: after.halts.since(&before.halts),
            }),
            _ => Err(no_timer.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_setting_has_one_turn_a_round_and_follows_various_others() {
        for settings in 1..=6 {
            let mut pairs = BTreeSet::new();
            for round in 0..settings * 4 {
                let turns = (0..settings).map(|place| in_turn(round, place, settings));
                let turns: Vec<usize> = turns.collect();
                assert_eq!(BTreeSet::from_iter(&turns).len(), settings, "{turns:?}");
                pairs.extend(turns.windows(2).map(|pair| (pair[0], pair[1])));
            }
            // For numbers of limits that allow few different orders, both neighbours must occur.
            let others = match settings {
                1 => 0,
                2 => 1,
                3 | 4 | 6 => 2,
                of_all => of_all - 1,
            };
            assert_eq!(pairs.len(), settings * others, "{settings}: {pairs:?}");
        }
    }
}

#[cfg(test)]
mod kvm {
    use super::*;

    const MS: u64 = 1_000_000;

    fn measured(settings: &[Option<u32>], interval_ns: u64) -> LapicTimerResult {
        let tsc_hz = tsc::calibrate_hz(Duration::from_millis(20));
        let cycles = |ns: u64| ns * (tsc_hz / 1_000) / MS;
        let config = LapicTimerConfig {
            cpu: 1,
            interval_tsc: cycles(interval_ns),
            halt_poll_ns: settings.to_vec(),
            rounds: 4,
            turn_tsc: cycles(100 * MS),
            tsc_hz,
            policy: None,
        };
        prepare(&config).unwrap().run(&|| false).unwrap()
    }

    /// KVM's own statistics are the reference. KVM polls if the VM's limit allows it, and never if
    /// the limit is 0. Whether a halt ends during the polling depends on the machine: KVM stops
    /// polling when another task wants to run on the CPU.
    #[test]
    fn kvm_polls_where_it_may_and_never_where_it_may_not() {
        let settings = [Some(0), Some(MS as u32)];
        let measured = measured(&settings, MS / 5);
        assert_eq!(measured.turns.len(), 8);
        let mut polls = [0, 0];
        for turn in &measured.turns {
            let (halts, times) = (turn.halts, turn.times);
            let timers: u64 = turn.late_tsc.iter().map(|(_, count)| count).sum();
            // Each timer came to a halted guest, except timers that were due before the guest
            // halted.
            assert!(timers > 0 && halts.halts.unwrap() <= 2 * timers, "{turn:?}");
            assert!(halts.polls_in_time <= halts.polls, "{turn:?}");
            assert!(halts.polls <= halts.halts, "{turn:?}");
            // The time in which a thread sleeps is part of its wall time.
            assert!(halts.slept_ns.unwrap() < times.wall_ns, "{turn:?}");
            polls[turn.setting] += halts.polls.unwrap();
            if settings[turn.setting] == Some(0) {
                assert_eq!(halts.polled_ns, Some(0));
            }
        }
        assert!(polls[0] == 0 && polls[1] > 0, "{polls:?}");
    }

    #[test]
    fn turns_are_taken_in_turn_and_as_long_as_they_were_to_be() {
        let measured = measured(&[None, Some(0), Some(50_000)], MS);
        let order: Vec<usize> = measured.turns.iter().map(|turn| turn.setting).collect();
        assert_eq!(order, [0, 1, 2, 1, 0, 2, 2, 0, 1, 0, 2, 1]);
        for turn in &measured.turns {
            assert!(turn.times.wall_ns >= 99 * MS, "{turn:?}");
            let spread = turn.spread_tsc;
            let latest = turn.late_tsc.last().unwrap().0;
            assert!(spread.max <= latest && spread.min <= spread.p50);
            assert_eq!(turn.early > 0, turn.earliest_tsc > 0);
        }
    }

    #[test]
    fn enough_ends_it_within_a_turn() {
        let begin = Instant::now();
        let tsc_hz = tsc::calibrate_hz(Duration::from_millis(20));
        let config = LapicTimerConfig {
            cpu: 1,
            interval_tsc: tsc_hz / 1000,
            halt_poll_ns: vec![None],
            rounds: 1_000_000,
            turn_tsc: tsc_hz / 10,
            tsc_hz,
            policy: None,
        };
        let over = prepare(&config).unwrap().run(&|| true).unwrap();
        assert!(over.turns.len() <= 1 && begin.elapsed() < PATIENCE);
    }
}
