//! How late the timers of a guest are: one vCPU arms the timer of its interrupt controller, halts,
//! and reads the clock when the interrupt comes, as kvm-unit-tests' `tscdeadline_latency` does.
//!
//! Each setting of halt polling has a VM of its own, and all of them are run on one thread, in
//! turn: what else changes on the machine changes for all of them. KVM's parameters stay as they are.

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

use super::guest::Command;
use super::histogram::{self, Spread, Word};
use super::state::VcpuState;
use super::vcpu::{Return, Vcpu};
use super::vm::Vm;
use crate::worker::RunState;
use crate::workers::Workers;
use crate::{Error, Workload, tsc};
use witness::Witness;

pub use witness::{Halts, Times};

/// How often the caller is asked whether it has had enough.
const LOOK: Duration = Duration::from_millis(20);
/// How long after a timer is due nobody has to worry.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// The host CPU that the vCPU runs on.
    pub cpu: u32,
    /// How far ahead each timer is armed, in cycles.
    pub interval_tsc: u64,
    /// Limits of halt polling in ns, one VM each; `None` is what KVM's parameter says.
    pub halt_poll_ns: Vec<Option<u32>>,
    /// How often each of them has its turn.
    pub rounds: u32,
    /// How long a turn is, in cycles.
    pub turn_tsc: u64,
    /// The TSC's frequency in Hz.
    pub tsc_hz: u64,
    /// Policy of the vCPU's thread; `None` is as inherited.
    pub policy: Option<Policy>,
}

/// What one turn of a setting saw. Lengths are in cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which of [`Config::halt_poll_ns`].
    pub setting: usize,
    /// How late timers were, ascending: the greatest length of a bucket (exact to one part in
    /// 2048), and how many. Those that came early are not late.
    pub late_tsc: Vec<(u64, u64)>,
    /// The same, summed up.
    pub spread_tsc: Spread,
    /// How many came before they were due.
    pub early: u64,
    /// How early at most.
    pub earliest_tsc: u64,
    /// What the scheduler says of the vCPU's thread.
    pub times: Times,
    /// What KVM says of the vCPU's halts.
    pub halts: Halts,
}

/// All turns, and what is known at the end.
#[derive(Debug)]
pub struct Measured {
    /// In the order of time.
    pub turns: Vec<Turn>,
    /// By how much KVM fires timers of the first setting's vCPU ahead of time, in ns, which it
    /// tells in debugfs; `None` where that cannot be read.
    pub advance_ns: Option<u64>,
}

/// Whether this machine's KVM lets one VM have a limit of its own for halt polling.
///
/// # Errors
/// What this machine lacks, with the remedy.
pub fn can_limit_halt_poll(cpu: u32) -> Result<bool, Error> {
    Ok(Vm::create(&[cpu], None)?.has_halt_poll_limit())
}

/// A guest that is set up and waits.
#[derive(Debug)]
pub struct Prepared {
    workers: Workers<VcpuState>,
    turns: mpsc::Receiver<Turn>,
    /// How many turns are over.
    over: Arc<AtomicU64>,
    advance: Option<File>,
    config: Config,
}

/// Sets up the guests.
///
/// # Errors
/// What this machine lacks, with the remedy.
pub fn prepare(config: &Config) -> Result<Prepared, Error> {
    let cpu = config.cpu;
    let mut vms = Vec::new();
    for &limit_ns in &config.halt_poll_ns {
        let mut vm = Vm::create(&[cpu], None)?;
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
                let vcpu = Vcpu::create(&vm, 0, cpu)?;
                vcpu.let_take_interrupts()?;
                let witness = Witness::new(&vcpu, cpu);
                guests.push(Guest { vm, vcpu, witness });
            }
            let first = guests.first().ok_or(crate::thread::Error::NoCpu)?;
            let state = VcpuState::new(Arc::clone(&first.vm), &first.vcpu, None);
            let work = move |run: &RunState| take_turns(&mut guests, &config, run, &done, &over);
            Ok((Arc::new(state), work))
        }
    })?;
    Ok(Prepared {
        workers,
        turns,
        over,
        // There since the vCPU was made.
        advance: File::open(advance).ok(),
        config: config.clone(),
    })
}

impl Prepared {
    /// Measures until all turns are over or `enough` says so.
    ///
    /// # Errors
    /// That no timer came; or how this machine refused to run the guest, with the remedy.
    pub fn run(self, enough: &dyn Fn() -> bool) -> Result<Measured, Error> {
        let Prepared {
            mut workers,
            turns,
            over,
            advance,
            config,
        } = self;
        let turn_tsc = config.turn_tsc + config.interval_tsc;
        let turn = Duration::from_secs_f64(turn_tsc as f64 / config.tsc_hz.max(1) as f64);
        let (mut seen, mut since) = (0, Instant::now());
        // Why threads did not start is said when they are joined.
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
            // What is read first is what holds then; debugfs lets nobody read at a position.
            let mut text = [0; 32];
            let len = file.read(&mut text).ok()?;
            str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
        });
        Ok(Measured {
            turns: turns.try_iter().collect(),
            advance_ns: at_end,
        })
    }
}

/// The guest of one setting.
struct Guest {
    vm: Arc<Vm>,
    vcpu: Vcpu,
    witness: Witness,
}

fn take_turns(
    guests: &mut [Guest],
    config: &Config,
    run: &RunState,
    done: &mpsc::Sender<Turn>,
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
            // Whoever prepared this thread waits for it.
            let _ = done.send(turn);
            over.fetch_add(1, Ordering::Release);
        }
    }
    Ok(())
}

/// Which of so many settings has this place of a round. What one leaves behind (a warm CPU, its frequency) is not to
/// fall on the same one each time: the steps from one to the next change from round to round, and the direction too.
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
        config: &Config,
        run: &RunState,
    ) -> Result<Turn, Error> {
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
            .obey(Command::Timers, &|| run.barrier.is_closed())?;
        let after = self.witness.look();
        let no_timer = super::Error::NoTimer {
            cpu: config.cpu,
            waited_s: PATIENCE.as_secs(),
        };
        let words = memory.samples(0);
        let (_, spread, _) = histogram::read(&words);
        match (came_back, spread) {
            (Return::Done, Some(spread_tsc)) => Ok(Turn {
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
            // Of a number that has few steps without a common part, both neighbours.
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

    fn measured(settings: &[Option<u32>], interval_ns: u64) -> Measured {
        let tsc_hz = tsc::calibrate_hz(Duration::from_millis(20));
        let cycles = |ns: u64| ns * (tsc_hz / 1_000) / MS;
        let config = Config {
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

    /// KVM's own statistics are the oracle: it polls where the VM's limit lets it, and never where
    /// that is 0. Whether a halt ends meanwhile is the machine's affair: KVM gives up as soon as
    /// its CPU has another task to run.
    #[test]
    fn kvm_polls_where_it_may_and_never_where_it_may_not() {
        let settings = [Some(0), Some(MS as u32)];
        let measured = measured(&settings, MS / 5);
        assert_eq!(measured.turns.len(), 8);
        let mut polls = [0, 0];
        for turn in &measured.turns {
            let (halts, times) = (turn.halts, turn.times);
            let timers: u64 = turn.late_tsc.iter().map(|(_, count)| count).sum();
            // Each timer came to a guest that had halted, but for those that were due before.
            assert!(timers > 0 && halts.halts.unwrap() <= 2 * timers, "{turn:?}");
            assert!(halts.polls_in_time <= halts.polls, "{turn:?}");
            assert!(halts.polls <= halts.halts, "{turn:?}");
            // A thread sleeps in its wall time.
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
        let config = Config {
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
