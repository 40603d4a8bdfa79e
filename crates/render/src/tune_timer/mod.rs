//! Table and JSON of `vmnoise tune-timer` and `vmnoise microvm --timer`. They show the benefit and
//! the cost of settings of halt polling for a guest's timers.

mod agreement;
mod step;
mod text;

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{HostFacts, Policy};
use vmnoise_host::LapicTimerAdvance;
use vmnoise_judge::tuning::{Goal, Keeps, cheapest};
use vmnoise_workload::microvm::lapic_timer::TimerTurn;

use super::{json, write};
use crate::format::Format;
use step::PollingStep;

/// Largest probability of a wrong answer.
const RISK: f64 = 0.01;

/// Options that the user gave.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TuningRequest {
    /// CPU on which the vCPU runs.
    pub cpu: u32,
    /// Duration of all settings together, in nanoseconds.
    pub duration_ns: u64,
    /// Time from the arming of a timer to its expiry, in nanoseconds.
    pub interval_ns: u64,
    /// Goal: the maximum lateness of timers, in nanoseconds.
    pub goal_ns: Option<u64>,
    /// Percentage of the timers that must keep the goal.
    pub percentile: f64,
    /// Scheduling policy of the vCPU's thread.
    pub priority: Option<Policy>,
}

/// Present settings of this host.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Present {
    /// Parameter `halt_poll_ns` of KVM.
    pub halt_poll_ns: Option<u64>,
    /// Parameter `halt_poll_ns_grow_start` of KVM: first polling time of a vCPU, when KVM begins to
    /// increase it.
    pub halt_poll_ns_grow_start: Option<u64>,
    /// Parameter `lapic_timer_advance` of KVM.
    pub lapic_timer_advance: Option<LapicTimerAdvance>,
    /// Timer advance that KVM chose for the vCPU with the present setting, read from debugfs at the
    /// end of the run.
    pub vcpu_advance_ns: Option<u64>,
    /// Whether KVM accepts a limit of halt polling for a single VM.
    pub can_limit_halt_poll: bool,
}

/// JSON document `vmnoise.tune-timer/1`.
#[derive(Debug, Serialize)]
pub struct TuneTimerDocument<'a> {
    schema: &'static str,
    tool_version: &'static str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: String,
    options: TuningRequest,
    tsc_hz: u64,
    present: Present,
    steps: Vec<PollingStep>,
    /// Index in `steps` of the setting that keeps the goal at the least cost.
    setting: Option<usize>,
}

impl<'a> TuneTimerDocument<'a> {
    /// Creates the document from these turns. The first of `settings` is the present setting.
    pub fn new(
        host: &'a HostFacts,
        started_at: String,
        options: TuningRequest,
        present: Present,
        tsc_hz: u64,
        settings: &[Option<u32>],
        turns: &[TimerTurn],
    ) -> TuneTimerDocument<'a> {
        // Bonferroni correction: the tests of all settings share the risk.
        let goal = options.goal_ns.map(|limit_ns| Goal {
            limit_ns,
            above: 1.0 - options.percentile / 100.0,
            risk: RISK / settings.len().max(1) as f64,
        });
        let step = |(place, limit_ns): (usize, &Option<u32>)| {
            let is_present = limit_ns.is_none();
            let halt_poll_ns = limit_ns.map_or(present.halt_poll_ns, |it| Some(u64::from(it)));
            let turns = turns.iter().filter(|turn| turn.setting == place);
            let turns: Vec<&TimerTurn> = turns.collect();
            PollingStep::new(halt_poll_ns, is_present, &turns, &options, goal, tsc_hz)
        };
        let mut steps: Vec<PollingStep> = settings.iter().enumerate().map(step).collect();
        // The choice must precede the sort: the first setting is the present one, and `cheapest`
        // replaces it only by a setting that is certainly cheaper.
        let chosen = choose(&steps).map(|place| (steps[place].halt_poll_ns, steps[place].present));
        steps.sort_by_key(|step| step.halt_poll_ns);
        let setting = chosen.and_then(|it| {
            steps
                .iter()
                .position(|at| (at.halt_poll_ns, at.present) == it)
        });
        TuneTimerDocument {
            schema: "vmnoise.tune-timer/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            kernel: &host.kernel,
            hypervisor: host.hypervisor.as_deref(),
            started_at,
            options,
            tsc_hz,
            present,
            steps,
            setting,
        }
    }

    /// Returns whether a setting keeps the goal; `None` without a goal.
    pub fn keeps_goal(&self) -> Option<Keeps> {
        self.options.goal_ns?;
        let is_known = |keeps| self.steps.iter().all(|it| it.keeps_goal == Some(keeps));
        Some(match self.setting {
            Some(_) => Keeps::Yes,
            None if is_known(Keeps::No) => Keeps::No,
            None => Keeps::Open { needed: None },
        })
    }
}

/// Returns the index of the cheapest setting that keeps the goal.
fn choose(steps: &[PollingStep]) -> Option<usize> {
    let keep = steps.iter().enumerate();
    let keep = keep.filter(|(_, step)| step.keeps_goal == Some(Keeps::Yes));
    let (places, costs): (Vec<usize>, Vec<&[f64]>) =
        keep.map(|(place, step)| (place, step.costs())).unzip();
    cheapest(&costs, RISK).map(|place| places[place])
}

/// Prints the result.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(document: &TuneTimerDocument<'_>, format: Format) -> Result<()> {
    match format {
        Format::Text => write(text::render(document).as_bytes()),
        Format::Json => {
            let mut out = Vec::new();
            json::write(&mut out, document)?;
            write(&out)
        }
    }
}

#[cfg(test)]
mod tests;
