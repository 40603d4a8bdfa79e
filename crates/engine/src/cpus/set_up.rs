//! Sets up a run of gaps or wake-ups: checks the options, loads the probes, prepares the workload,
//! and collects the facts of the result.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_events::{
    ClockFacts, MeasuringCommand, Policy, ProbeStatus, RunFacts, RunOptions, Witnesses,
};
use vmnoise_tracer::{LoadError, Scope, SmiCounts, StopWitness, Tracer, clock};
use vmnoise_workload::microvm::GuestClock;

use super::Cpus;
use super::outer_steal::OuterStealReadings;
use super::posted::PostedInterruptCounts;
use super::probe_status;
use super::warm_up::Baseline;
use crate::FOREVER_NS;
use crate::at_stop::AskedAtStop;
use crate::feed::receiver::{self, FeedFrom};
use crate::loss_news::LossNews;
use crate::machine::{self, LocalMachine};
use crate::reaction::shell::Shell;

/// Options of the run.
#[derive(Debug)]
pub struct MeasurePlan<'a> {
    /// Workload that observes the gaps.
    pub workload: MeasuringCommand,
    /// Options of the user.
    pub options: RunOptions,
    /// CPUs for the tool's own threads; `None` means every CPU that is not measured.
    pub housekeeping: Option<Vec<u32>>,
    /// Time for which the run measures before the result begins.
    pub warm_up: Duration,
    /// Source of the host's feed about this machine.
    pub feed: FeedFrom,
    /// Evidence to keep for a stop.
    pub at_stop: AskedAtStop,
    /// Machine that is measured.
    pub machine: &'a LocalMachine,
}

/// Workload that is set up and waits for its start.
pub struct PreparedWorkload {
    /// The workload.
    pub workload: Box<dyn vmnoise_workload::RunningWorkload>,
    /// Relation of the guest's clock to the host's, if a guest takes the timestamps.
    pub guest_clock: Option<GuestClock>,
    /// Whether the workload reads a steal clock.
    pub steal_clock: bool,
    /// Whether its threads read their run delay.
    pub run_delay: bool,
    /// Statuses of the workload's probes.
    pub probe_statuses: Vec<ProbeStatus>,
}

impl fmt::Debug for PreparedWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedWorkload")
            .field("probe_statuses", &self.probe_statuses)
            .finish_non_exhaustive()
    }
}

/// Sets up the run. `prepare` sets up the workload for this TSC frequency (Hz) and these probes.
/// `shell` is moved off the measured CPUs too.
///
/// # Errors
/// If an option cannot be met, or a probe or the workload cannot be set up.
pub fn set_up(
    plan: MeasurePlan<'_>,
    shell: Option<&Shell>,
    prepare: impl FnOnce(u64, Option<&Tracer>) -> Result<PreparedWorkload>,
) -> Result<(RunFacts, Cpus)> {
    let machine = plan.machine;
    let options = &plan.options;
    let here = machine.here();
    refuse_to_take_all(
        plan.workload,
        options,
        &here.online_cpus()?,
        here.throttling().rt_runtime_us,
    )?;
    let shares_cpu = machine.keep_off(&options.cpus, plan.housekeeping.as_deref())?;
    if let Some(shell) = shell {
        shell
            .follow()
            .context("moving the shell off the measured CPUs")?;
    }
    let (mut feed, no_feed) = receiver::open(&plan.feed, &machine.facts)?;
    let (mut tracer, mut probe_statuses) = load_tracer(&plan)?;
    let tsc_hz = machine::tsc_hz();
    let prepared = prepare(tsc_hz, tracer.as_ref())?;
    if let Some(tracer) = &mut tracer {
        for thread in prepared.workload.threads() {
            tracer.watch(thread.cpu, thread.tid)?;
        }
        tracer.attach().context("attaching the BPF programs")?;
        probe_statuses = tracer.probe_statuses();
    }
    let stop_witness = witness_stops(&plan, &*prepared.workload)?;
    let of_stop = stop_witness.iter();
    probe_statuses.extend(of_stop.map(|_| probe_status::of_stop(plan.at_stop)));
    probe_statuses.extend(prepared.probe_statuses);
    let smi = SmiCounts::open(here, &options.cpus);
    let witnesses = Witnesses {
        steal_clock: prepared.steal_clock,
        run_delay: prepared.run_delay,
        ..tracer.as_ref().map(Tracer::witnesses).unwrap_or_default()
    };
    let mut facts = machine.facts_of_run(
        plan.workload,
        options.clone(),
        tsc_hz,
        witnesses,
        probe_statuses,
    );
    facts.shares_cpu = shares_cpu;
    if let Some(guest) = prepared.guest_clock {
        facts.clock = ClockFacts {
            offset_proof: guest.offset_proof,
            offset_tsc: guest.offset_tsc,
            offset_bound_tsc: guest.offset_bound_tsc,
            bracket_tsc: guest.bracket_tsc,
            ..facts.clock
        };
    }
    facts.probe_statuses.extend([
        smi.probe_status(),
        clock(here),
        probe_status::of_tsc(facts.rdtsc_cycles, tsc_hz),
    ]);
    if let Some(feed) = &mut feed {
        feed.hold();
    }
    let feed_rung = feed
        .as_ref()
        .map(receiver::probe_status::of_open)
        .or(no_feed);
    facts.probe_statuses.extend(feed_rung);
    let cpus = Cpus {
        facts: facts.clone(),
        warm_up: plan.warm_up,
        workload: prepared.workload,
        outer_steal: OuterStealReadings::begin(&options.cpus, tracer.as_ref()),
        posted: PostedInterruptCounts::of(&facts, here),
        tracer,
        stop_witness,
        at_stop: plan.at_stop,
        smi,
        feed,
        feed_is_named: matches!(plan.feed, FeedFrom::Path(_)),
        baseline: Baseline::default(),
        loss_news: LossNews::default(),
        events: Vec::new(),
        next_renewal: Instant::now(),
        own_stop: None,
        end_tsc: u64::MAX,
    };
    Ok((facts, cpus))
}

/// Refuses an endless run that would poll every CPU and leave no CPU time even to the user's shell.
/// Periodic tasks sleep and so leave CPU time to others.
fn refuse_to_take_all(
    workload: MeasuringCommand,
    options: &RunOptions,
    online: &[u32],
    rt_runtime_us: Option<i64>,
) -> Result<()> {
    let polls = matches!(
        workload,
        MeasuringCommand::Osnoise | MeasuringCommand::Microvm
    ) && !options.pauses();
    let is_real_time = match options.priority {
        Some(Policy::Fifo(_) | Policy::RoundRobin(_)) => true,
        // With throttling off, a budget may be as long as its period. By default the kernel keeps
        // 5 % for others.
        Some(Policy::Deadline {
            runtime_ns,
            period_ns,
        }) => u128::from(runtime_ns) * 100 > u128::from(period_ns) * 95,
        Some(Policy::Other(_)) | None => false,
    };
    let takes_all = online.iter().all(|cpu| options.cpus.contains(cpu));
    let endless = options.duration_ns >= FOREVER_NS;
    if polls && is_real_time && takes_all && endless && rt_runtime_us == Some(-1) {
        let why = "-P would poll every CPU of this machine forever, and real-time throttling is \
                   off (kernel.sched_rt_runtime_us=-1): no other task could run; set a duration \
                   with -d, or leave out a CPU with -c";
        return Err(UsageError(why.to_owned()).into());
    }
    Ok(())
}

/// Loads the probes, or returns the status that says why there are none. Without the right to load
/// BPF, gaps are still measured.
fn load_tracer(plan: &MeasurePlan<'_>) -> Result<(Option<Tracer>, Vec<ProbeStatus>)> {
    if !plan.options.trace {
        let probe_status = probe_status::no_witness("none (--no-trace)", "run without --no-trace");
        return Ok((None, vec![probe_status]));
    }
    let scope = match plan.workload {
        MeasuringCommand::Microvm | MeasuringCommand::Exits => Scope::Vcpus,
        MeasuringCommand::Osnoise => Scope::Osnoise,
        MeasuringCommand::Observed => Scope::Observed,
        MeasuringCommand::Timerlat => Scope::Timerlat,
    };
    match Tracer::load(&plan.options.cpus, scope) {
        Ok(tracer) => Ok((Some(tracer), Vec::new())),
        Err(LoadError::Refused { why, remedy }) => {
            say::say(format_args!("no names without BPF: {why}; {remedy}"));
            Ok((None, vec![probe_status::no_witness("none", &remedy)]))
        }
        Err(error) => Err(error).context("loading the BPF programs"),
    }
}

/// Loads the programs that keep the evidence of a stop. If BPF or the rights do not allow this,
/// prints the reason and returns `None`.
fn witness_stops(
    plan: &MeasurePlan<'_>,
    workload: &dyn vmnoise_workload::RunningWorkload,
) -> Result<Option<StopWitness>> {
    let Some(asked) = plan.at_stop.witness() else {
        return Ok(None);
    };
    let mut witness = match StopWitness::load(asked) {
        Ok(witness) => witness,
        Err(LoadError::Refused { why, remedy }) => {
            say::say(format_args!(
                "-s and --dump-tasks cannot show anything: {why}; {remedy}"
            ));
            return Ok(None);
        }
        Err(error) => return Err(error).context("loading the BPF programs for stops"),
    };
    for thread in workload.threads() {
        witness.watch(thread.cpu, thread.tid);
    }
    let attached = witness.attach();
    attached.context("attaching the BPF programs for stops")?;
    Ok(Some(witness))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_every_cpu_for_good() {
        let options = RunOptions {
            cpus: vec![0, 1],
            duration_ns: FOREVER_NS,
            period_ns: 1_000,
            priority: Some(Policy::Fifo(99)),
            ..RunOptions::default()
        };
        let refused = |workload, options: &RunOptions, online: &[u32], rt_runtime_us| {
            refuse_to_take_all(workload, options, online, rt_runtime_us).is_err()
        };
        let off = Some(-1);
        assert!(refused(MeasuringCommand::Osnoise, &options, &[0, 1], off));
        assert!(refused(MeasuringCommand::Microvm, &options, &[0, 1], off));
        for (runtime_ns, is_refused) in [(1_000_000, true), (960_000, true), (950_000, false)] {
            let budget = RunOptions {
                priority: Some(Policy::Deadline {
                    runtime_ns,
                    period_ns: 1_000_000,
                }),
                ..options.clone()
            };
            let got = refused(MeasuringCommand::Osnoise, &budget, &[0, 1], off);
            assert_eq!(got, is_refused, "{runtime_ns}");
        }
        // These runs leave CPU time: a CPU is left over, the kernel keeps a part of each CPU, or
        // the tasks sleep.
        assert!(!refused(
            MeasuringCommand::Osnoise,
            &options,
            &[0, 1, 2],
            off
        ));
        assert!(!refused(
            MeasuringCommand::Osnoise,
            &options,
            &[0, 1],
            Some(950_000)
        ));
        assert!(!refused(MeasuringCommand::Osnoise, &options, &[0, 1], None));
        assert!(!refused(MeasuringCommand::Timerlat, &options, &[0, 1], off));
        for ends in [
            RunOptions {
                duration_ns: 1_000_000_000,
                ..options.clone()
            },
            RunOptions {
                runtime_ns: Some(500),
                ..options.clone()
            },
            RunOptions {
                priority: Some(Policy::Other(0)),
                ..options.clone()
            },
        ] {
            assert!(
                !refused(MeasuringCommand::Osnoise, &ends, &[0, 1], off),
                "{ends:?}"
            );
        }
    }
}
