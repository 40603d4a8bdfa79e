//! `vmnoise tune-timer`: measures how late the timers of a guest are, for each halt polling
//! setting. `vmnoise microvm --timer` measures only the present setting. vmnoise sets only the
//! limits of its own VMs, and needs no BPF.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_console::progress::TimeLine;
use vmnoise_console::status::{ExitStatus, MachineCannot, UsageError};
use vmnoise_console::units::to_tsc;
use vmnoise_console::{interrupt, rights};
use vmnoise_engine::{LocalMachine, machine};
use vmnoise_judge::tuning::Keeps;
use vmnoise_render::format::Format;
use vmnoise_render::tune_timer::{Present, TuneTimerDocument, TuningRequest, print};
use vmnoise_workload::microvm::lapic_timer::{self, LapicTimerConfig};

use crate::args::TuneTimerArguments;

/// Limits of halt polling to try in addition to the present limit, in ns. They are: no polling, the
/// first step when KVM grows its polling, a long round trip, and the default on x86.
const LIMITS_NS: [u32; 4] = [0, 10_000, 50_000, 200_000];
/// Longest turn. Turns are short, so that changes of the machine affect all settings alike.
const LONGEST_TURN_NS: u64 = 1_000_000_000;
/// Least number of turns of a setting.
const FEWEST_TURNS: u64 = 10;
/// Least number of timers in a turn.
const FEWEST_TIMERS: u64 = 10;

/// Measures, prints the result, and returns whether a setting keeps the goal.
pub fn run(arguments: &TuneTimerArguments) -> Result<ExitStatus> {
    let machine = LocalMachine::read()?;
    let cpu = match arguments.cpu {
        Some(cpu) => machine.cpus(&cpu.to_string())?,
        None => Vec::from_iter(machine.facts.allowed_cpus.last().copied()),
    };
    let asked = TuningRequest {
        cpu: one_cpu(&cpu)?,
        duration_ns: arguments.duration,
        interval_ns: arguments.interval,
        goal_ns: arguments.goal,
        percentile: arguments.percentile,
        priority: arguments.priority,
    };
    measure(asked, true, &machine, arguments.format)
}

/// Returns the only CPU of a list.
///
/// # Errors
/// If the list does not have exactly one CPU.
pub fn one_cpu(cpus: &[u32]) -> Result<u32> {
    match cpus {
        [cpu] => Ok(*cpu),
        _ => Err(UsageError("timers are measured on one CPU: name one with -c".into()).into()),
    }
}

/// Measures the present setting, or all settings, and prints the result.
///
/// # Errors
/// If this machine cannot measure, with the reason.
pub fn measure(
    asked: TuningRequest,
    all_settings: bool,
    machine: &LocalMachine,
    format: Format,
) -> Result<ExitStatus> {
    vmnoise_rights::begin(None)?;
    interrupt::catch().context("catching Ctrl-C")?;
    machine.keep_off(&[asked.cpu], None)?;
    let cannot = |error: vmnoise_workload::Error| MachineCannot(error.to_string());
    let mut present = Present {
        halt_poll_ns: machine.here().halt_poll_ns(),
        halt_poll_ns_grow_start: machine.here().halt_poll_ns_grow_start(),
        lapic_timer_advance: machine.here().lapic_timer_advance(),
        vcpu_advance_ns: None,
        can_limit_halt_poll: lapic_timer::can_limit_halt_poll(asked.cpu).map_err(cannot)?,
    };
    let others = all_settings && present.can_limit_halt_poll;
    let settings = settings(&present, others, asked.interval_ns);
    let plan = Plan::of(&asked, settings.len() as u64)?;
    let started_at = jiff::Timestamp::now().to_string();
    let tsc_hz = machine::tsc_hz();
    let config = LapicTimerConfig {
        cpu: asked.cpu,
        interval_tsc: to_tsc(asked.interval_ns, tsc_hz),
        halt_poll_ns: settings.clone(),
        rounds: plan.rounds,
        turn_tsc: to_tsc(plan.turn_ns, tsc_hz),
        tsc_hz,
        policy: asked.priority,
    };
    let guests = lapic_timer::prepare(&config).map_err(cannot)?;
    rights::keep(&[])?;
    let duration = Duration::from_nanos(asked.duration_ns);
    let line = RefCell::new(TimeLine::begin("measured", Some(duration)));
    let is_enough = || {
        line.borrow_mut().iter_mut().for_each(TimeLine::turn);
        interrupt::was_asked()
    };
    let measured = guests.run(&is_enough);
    drop(line);
    let measured = measured.map_err(cannot)?;
    present.vcpu_advance_ns = measured.advance_ns;
    let document = TuneTimerDocument::new(
        &machine.facts,
        started_at,
        asked,
        present,
        tsc_hz,
        &settings,
        &measured.turns,
    );
    print(&document, format)?;
    Ok(match document.keeps_goal() {
        None | Some(Keeps::Yes) => ExitStatus::Ok,
        Some(Keeps::No) => ExitStatus::Limit,
        Some(Keeps::Open { .. }) => ExitStatus::MachineCannot,
    })
}

/// Returns the present setting. If `others`, the other settings follow in ascending order, and the
/// last of them polls through every halt.
fn settings(present: &Present, others: bool, interval_ns: u64) -> Vec<Option<u32>> {
    let whole_halt = u32::try_from(2 * interval_ns).unwrap_or(u32::MAX);
    let limits = LIMITS_NS.into_iter().chain([whole_halt]);
    let mut limits: Vec<u32> = limits
        .filter(|limit| others && Some(u64::from(*limit)) != present.halt_poll_ns)
        .collect();
    limits.sort_unstable();
    limits.dedup();
    let limits = limits.into_iter().map(Some);
    [None].into_iter().chain(limits).collect()
}

/// Division of the time into turns.
struct Plan {
    rounds: u32,
    turn_ns: u64,
}

impl Plan {
    fn of(asked: &TuningRequest, settings: u64) -> Result<Plan> {
        let of_each_ns = asked.duration_ns / settings;
        let rounds = of_each_ns.div_ceil(LONGEST_TURN_NS).max(FEWEST_TURNS);
        let turn_ns = of_each_ns / rounds;
        let least_ns = FEWEST_TIMERS * asked.interval_ns;
        if turn_ns < least_ns {
            let needed_ns = least_ns * FEWEST_TURNS * settings;
            let needed_ms = needed_ns.div_ceil(1_000_000);
            return Err(UsageError(format!(
                "{settings} settings need {FEWEST_TURNS} turns each, of at least {FEWEST_TIMERS} timers: measure for {needed_ms}ms or longer (-d), or with a shorter interval (-i)"
            ))
            .into());
        }
        Ok(Plan {
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            turn_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: TuningRequest = TuningRequest {
        cpu: 1,
        duration_ns: 60_000_000_000,
        interval_ns: 1_000_000,
        goal_ns: None,
        percentile: 99.9,
        priority: None,
    };

    fn present(halt_poll_ns: Option<u64>) -> Present {
        Present {
            halt_poll_ns,
            halt_poll_ns_grow_start: None,
            lapic_timer_advance: None,
            vcpu_advance_ns: None,
            can_limit_halt_poll: true,
        }
    }

    #[test]
    fn the_present_setting_is_measured_first_and_once() {
        let all = settings(&present(Some(200_000)), true, 1_000_000);
        let others = [0, 10_000, 50_000, 2_000_000].map(Some);
        assert_eq!(all, [&[None], &others[..]].concat());
        let short = settings(&present(None), true, 25_000);
        let others = [0, 10_000, 50_000, 200_000].map(Some);
        assert_eq!(short, [&[None], &others[..]].concat());
        assert_eq!(settings(&present(Some(0)), false, 1_000_000), [None]);
    }

    #[test]
    fn turns_are_short_many_and_as_long_as_was_asked_in_all() {
        for (duration_ns, settings) in [
            (60_000_000_000, 6),
            (3_600_000_000_000, 5),
            (500_000_000, 5),
        ] {
            let asked = TuningRequest {
                duration_ns,
                ..ASKED
            };
            let plan = Plan::of(&asked, settings).unwrap();
            assert!(u64::from(plan.rounds) >= FEWEST_TURNS && plan.turn_ns <= LONGEST_TURN_NS);
            let whole_ns = u64::from(plan.rounds) * settings * plan.turn_ns;
            // The time is divided twice, and rounded down each time.
            let least_ns = duration_ns - settings - u64::from(plan.rounds) * settings;
            assert!((least_ns..=duration_ns).contains(&whole_ns), "{whole_ns}");
        }
        let asked = TuningRequest {
            duration_ns: 499_000_000,
            ..ASKED
        };
        let refused = Plan::of(&asked, 5).err().unwrap().to_string();
        assert!(refused.contains("500ms"), "{refused}");
    }
}
