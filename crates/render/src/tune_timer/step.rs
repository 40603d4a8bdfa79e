//! Result of one setting: the lateness of timers, the cost, and whether the setting keeps the goal.

use serde::Serialize;
use vmnoise_console::units::to_ns;
use vmnoise_events::MeasuringCommand;
use vmnoise_events::coverage::Coverage;
use vmnoise_judge::tuning::{Goal, Keeps, Lateness};
use vmnoise_workload::microvm::lapic_timer::{Halts, TimerTurn, Times};

use super::TuningRequest;
use super::agreement::agree;

/// Result of one setting of halt polling.
#[derive(Debug, Serialize)]
pub struct PollingStep {
    /// Limit of KVM's polling, in nanoseconds.
    pub halt_poll_ns: Option<u64>,
    /// Whether this is the host's present setting.
    pub present: bool,
    /// Number of turns with this setting.
    pub turns: u64,
    /// Number of timers.
    pub timers: u64,
    /// Number of timers that fired too early.
    pub early: u64,
    /// Earliness of the earliest timer, in nanoseconds; `None` if no timer was early.
    pub earliest_ns: Option<u64>,
    /// Lateness of the timers. An early timer counts as not late.
    pub late_ns: Option<TimerLateness>,
    /// Whether the setting keeps the goal; `None` without a goal.
    pub keeps_goal: Option<Keeps>,
    /// Times of the vCPU's thread, as the scheduler counts them.
    pub thread: Times,
    /// Halts of the vCPU, as KVM counts them.
    pub kvm: Halts,
    /// Run time of the vCPU's thread, in percent of the wall time. This is the cost of the setting,
    /// including the guest's own work.
    pub busy_percent: Option<f64>,
    /// Polling time of KVM, in percent of the wall time.
    pub polled_percent: Option<f64>,
    /// Whether the times of the scheduler and of KVM can both be true; `None` if unknown.
    pub witnesses_agree: Option<bool>,
    /// Coverage of the run.
    pub blind_spots: Coverage,
    #[serde(skip)]
    costs: Vec<f64>,
}

/// Lateness of all timers of a setting, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimerLateness {
    pub min: u64,
    pub mean: u64,
    pub p50: u64,
    pub p99: u64,
    /// Lateness at the percentile that the user asked for.
    pub percentile: u64,
    pub max: u64,
}

impl PollingStep {
    pub fn new(
        halt_poll_ns: Option<u64>,
        present: bool,
        turns: &[&TimerTurn],
        asked: &TuningRequest,
        goal: Option<Goal>,
        tsc_hz: u64,
    ) -> PollingStep {
        let ns = |cycles| to_ns(cycles, tsc_hz);
        let mut lateness = Lateness::default();
        for turn in turns {
            let late = turn.late_tsc.iter();
            let late = late.map(|&(late_tsc, count)| (ns(late_tsc), count));
            lateness.push(turn.times.wall_ns, late.collect());
        }
        let thread = turns.iter().map(|turn| turn.times).reduce(add_times);
        let thread = thread.unwrap_or_default();
        let kvm = turns.iter().map(|turn| turn.halts).reduce(add_halts);
        let kvm = kvm.unwrap_or_default();
        let of_wall = |ns: u64, wall_ns: u64| ns as f64 / wall_ns as f64 * 100.0;
        let costs = turns
            .iter()
            .map(|turn| of_wall(turn.times.ran_ns, turn.times.wall_ns));
        let earliest_tsc = turns.iter().map(|turn| turn.earliest_tsc).max();
        let count = turns.len() as u64;
        let witnesses_agree = agree(&thread, &kvm, count);
        let mut coverage = Coverage::of_workload(MeasuringCommand::Timerlat);
        coverage.more_taken_than_measured = witnesses_agree == Some(false);
        PollingStep {
            halt_poll_ns,
            present,
            turns: count,
            timers: lateness.count(),
            early: turns.iter().map(|turn| turn.early).sum(),
            earliest_ns: earliest_tsc.filter(|it| *it > 0).map(ns),
            late_ns: late(&lateness, turns, asked, tsc_hz),
            keeps_goal: goal.map(|goal| lateness.keeps(&goal, &coverage)),
            busy_percent: (thread.wall_ns > 0).then(|| of_wall(thread.ran_ns, thread.wall_ns)),
            polled_percent: kvm.polled_ns.map(|it| of_wall(it, thread.wall_ns)),
            witnesses_agree,
            blind_spots: coverage,
            costs: costs.collect(),
            thread,
            kvm,
        }
    }

    /// Returns the run time of each turn, in percent of the wall time, in the order of the turns.
    pub fn costs(&self) -> &[f64] {
        &self.costs
    }
}

fn late(
    lateness: &Lateness,
    turns: &[&TimerTurn],
    asked: &TuningRequest,
    tsc_hz: u64,
) -> Option<TimerLateness> {
    let ns = |cycles| to_ns(cycles, tsc_hz);
    let spreads = turns.iter().map(|turn| turn.spread_tsc);
    let total_tsc: u64 = spreads.clone().map(|it| it.total).sum();
    let (min, max) = (
        ns(spreads.clone().map(|it| it.min).min()?),
        ns(spreads.map(|it| it.max).max()?),
    );
    // `Lateness` keeps three digits of each value. The minimum and the maximum are exact.
    let at = |part: f64| Some(lateness.at(part)?.clamp(min, max));
    Some(TimerLateness {
        min,
        mean: ns(total_tsc) / lateness.count().max(1),
        p50: at(0.5)?,
        p99: at(0.99)?,
        percentile: at(asked.percentile / 100.0)?,
        max,
    })
}

fn add_times(one: Times, other: Times) -> Times {
    Times {
        wall_ns: one.wall_ns + other.wall_ns,
        ran_ns: one.ran_ns + other.ran_ns,
        delayed_ns: sum(one.delayed_ns, other.delayed_ns),
        stolen_ns: sum(one.stolen_ns, other.stolen_ns),
    }
}

fn add_halts(one: Halts, other: Halts) -> Halts {
    Halts {
        halts: sum(one.halts, other.halts),
        polls: sum(one.polls, other.polls),
        polls_in_time: sum(one.polls_in_time, other.polls_in_time),
        polled_ns: sum(one.polled_ns, other.polled_ns),
        slept_ns: sum(one.slept_ns, other.slept_ns),
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}
