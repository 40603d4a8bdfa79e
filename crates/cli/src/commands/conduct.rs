//! What every measuring command does: refuse what cannot be, set up probes and
//! workload, measure, and hand the result to a view.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_events::{
    ClockFacts, ClockSource, FinishReason, HostFacts, Options, Policy, RunFacts, Rung, Witnesses,
    Workload,
};
use vmnoise_export::Readers;
use vmnoise_tracer::host::{Host, cpu_list};
use vmnoise_tracer::{LoadError, Scope, SmiCounts, Tracer, clock};
use vmnoise_workload::cgroup::Cgroup;
use vmnoise_workload::microvm::GuestClock;
use vmnoise_workload::{thread, tsc};

use super::outputs::{begin_recording, claim, claim_trace, refuse_recording, remove_if_empty};
use crate::actions::Action;
use crate::args::{Shared, TIMERLAT_TRACE_FILE, TRACE_FILE};
use crate::host_feed::{self, FeedFrom};
use crate::measure::{Measured, Measurement};
use crate::output::view::View;
use crate::progress::Timed;
use crate::reaction::{OnThreshold, Reaction, shell_for};
use crate::rights::account::Account;
use crate::rights::{self, Work};
use crate::saving::{GivenUp, Saving};
use crate::say;
use crate::session::{Outcome, Session};
use crate::status::{Status, UsageError};
use crate::{interrupt, recorder, rungs};

/// How long the TSC is compared with CLOCK_MONOTONIC before the run.
pub(super) const TSC_CALIBRATION: Duration = Duration::from_millis(50);

/// As long as anyone could mean by "until Ctrl-C".
pub(super) const FOREVER_NS: u64 = 365 * 86_400 * 1_000_000_000;

/// The machine a command runs on, read once.
#[derive(Debug)]
pub struct Machine {
    here: Host,
    /// What it says of itself.
    pub facts: HostFacts,
}

impl Machine {
    /// Reads it.
    pub fn read() -> Result<Machine> {
        let here = Host::here();
        let facts = here.facts().context("reading the facts of this machine")?;
        Ok(Machine { here, facts })
    }

    /// Its /proc and /sys.
    pub fn here(&self) -> &Host {
        &self.here
    }

    /// A list of CPUs as the user wrote it, checked against what there is and what
    /// this process may use.
    pub fn cpus(&self, list: &str) -> Result<Vec<u32>> {
        self.cpus_among(list, &self.facts.allowed_cpus)
    }

    /// The CPUs to measure: those asked for, or else all that the measuring threads may use
    /// in their control group.
    pub fn cpus_of(&self, arguments: &Shared, cgroup: Option<&Cgroup>) -> Result<Vec<u32>> {
        let allowed = match cgroup.and_then(Cgroup::cpus) {
            Some(list) => cpu_list::parse(&list)?,
            None => self.facts.allowed_cpus.clone(),
        };
        match &arguments.cpus {
            Some(list) => self.cpus_among(list, &allowed),
            None => Ok(allowed),
        }
    }

    /// The same, checked against what a control group may use.
    fn cpus_among(&self, list: &str, allowed: &[u32]) -> Result<Vec<u32>> {
        let cpus = cpu_list::parse(list).map_err(|error| UsageError(error.to_string()))?;
        self.here
            .check_cpus(&cpus, allowed)
            .map_err(|error| UsageError(error.to_string()))?;
        Ok(cpus)
    }
}

/// A workload that is set up and waits.
pub struct Prepared {
    /// The workload.
    pub poller: Box<dyn vmnoise_workload::Workload>,
    /// How its clock lies on the host's, where a guest stamps.
    pub guest_clock: Option<GuestClock>,
    /// Whether it reads a steal clock.
    pub steal_clock: bool,
    /// The rungs it stands on.
    pub rungs: Vec<Rung>,
}

/// One run to be made.
pub struct Plan<'a> {
    /// Who will feel the gaps.
    pub workload: Workload,
    /// What is asked.
    pub options: Options,
    /// Where the tool's own threads go; `None` is every CPU that is not measured.
    pub housekeeping: Option<Vec<u32>>,
    /// How long to measure before the result begins.
    pub warm_up: Duration,
    /// What to do when a limit is hit.
    pub on_threshold: Vec<Action>,
    /// What to do after the result.
    pub on_end: Vec<Action>,
    /// Where the recording goes.
    pub output: Option<PathBuf>,
    /// Where the last lines of the trace go if the run is stopped.
    pub trace_file: Option<PathBuf>,
    /// Whether files of results are written under their names after the run.
    pub saves_results: bool,
    /// Whose rights the run has.
    pub user: Option<Account>,
    /// Where the host of this machine tells what it took.
    pub feed: FeedFrom,
    /// The machine.
    pub machine: &'a Machine,
}

impl Plan<'_> {
    /// What is to be done once the programs are attached.
    fn works(&self) -> Vec<Work> {
        let acts = |is_it: fn(&Action) -> bool| self.actions().any(is_it);
        let saves_trace = acts(|action| matches!(action, Action::Trace(_)));
        let saves = self.saves_results || self.trace_file.is_some() || saves_trace;
        let signals = acts(|action| matches!(action, Action::Signal { .. }));
        let works = [
            (Work::Measure, true),
            (Work::HearHost, matches!(self.feed, FeedFrom::Path(_))),
            (Work::SaveFiles, saves),
            (Work::SendSignals, signals),
        ];
        let asked = works.into_iter().filter(|(_, is_asked)| *is_asked);
        asked.map(|(work, _)| work).collect()
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.on_threshold.iter().chain(&self.on_end)
    }
}

/// Makes the run; `prepare` sets up the workload for this TSC frequency (Hz) and
/// these probes. The view shows it and prints the result.
///
/// # Errors
/// What stands in the way; or, after the result, the fault of the recording.
pub fn conduct(
    plan: Plan<'_>,
    view: &mut dyn View,
    prepare: impl FnOnce(u64, Option<&Tracer>) -> Result<Prepared>,
) -> Result<Status> {
    if let Some(path) = &plan.trace_file {
        refuse_recording(path, plan.output.as_slice())?;
    }
    let recording = plan.output.as_deref();
    let recording = recording.map(|path| claim(path, "recording", Readers::Owner));
    let recording = recording.transpose()?;
    if let Some(path) = &plan.trace_file {
        claim_trace(path, trace_name(plan.workload))?;
    }
    let mut timed = Timed::new(view);
    let outcome = measure(&plan, recording, &mut timed, prepare);
    let given_up = |error: &anyhow::Error| error.is::<GivenUp>();
    let trace_file = match &outcome {
        // To remove it would wait for its disk.
        Err(error) if given_up(error) => &None,
        _ => &plan.trace_file,
    };
    for path in [&plan.output, trace_file].into_iter().flatten() {
        remove_if_empty(path);
    }
    outcome
}

fn measure(
    plan: &Plan<'_>,
    recording: Option<File>,
    view: &mut dyn View,
    prepare: impl FnOnce(u64, Option<&Tracer>) -> Result<Prepared>,
) -> Result<Status> {
    let shell = shell_for(plan.actions())?;
    rights::begin(plan.user.as_ref())?;
    let interrupts = interrupt::catch().context("catching Ctrl-C")?;
    let options = &plan.options;
    let host = &plan.machine.facts;
    let here = plan.machine.here();
    refuse_to_take_all(
        plan.workload,
        options,
        &here.online_cpus()?,
        here.throttling().rt_runtime_us,
    )?;
    let shares_cpu =
        keep_off_measured_cpus(&options.cpus, plan.housekeeping.as_deref(), plan.machine)?;
    if let Some(shell) = &shell {
        shell
            .follow()
            .context("moving the shell off the measured CPUs")?;
    }
    let (mut feed, no_feed) = host_feed::open(&plan.feed, host)?;
    let (mut tracer, mut ladder) = load_tracer(plan)?;
    let tsc_hz = tsc::calibrate_hz(TSC_CALIBRATION);
    let prepared = prepare(tsc_hz, tracer.as_ref())?;
    if let Some(tracer) = &mut tracer {
        for thread in prepared.poller.threads() {
            tracer.watch(thread.cpu, thread.tid)?;
        }
        tracer.attach().context("attaching the BPF programs")?;
        ladder = tracer.rungs();
    }
    ladder.extend(prepared.rungs);
    let smi = SmiCounts::open(&plan.machine.here, &options.cpus);
    let rdtsc_cycles = tsc::rdtsc_cycles();
    ladder.extend([
        smi.rung(),
        clock(plan.machine.here()),
        rungs::of_tsc(rdtsc_cycles, tsc_hz),
    ]);
    if let Some(feed) = &mut feed {
        feed.hold();
    }
    ladder.extend(feed.as_ref().map(host_feed::rung::of_open).or(no_feed));
    let facts = RunFacts {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        workload: plan.workload,
        started_at: jiff::Timestamp::now().to_string().into(),
        options: options.clone(),
        host: host.clone(),
        clock: clock_facts(prepared.guest_clock, host, tsc_hz),
        witnesses: Witnesses {
            steal_clock: prepared.steal_clock,
            ..tracer.as_ref().map(Tracer::witnesses).unwrap_or_default()
        },
        rungs: ladder,
        shares_cpu,
        rdtsc_cycles,
    };
    let writer = match recording {
        Some(file) => {
            begin_recording(&file).context("beginning the recording")?;
            Some(recorder::begin(file, &facts)?)
        }
        None => None,
    };
    rights::keep(&plan.works())?;
    let session = Session::new(&facts, writer, view);
    let measurement = Measurement::new(&facts, prepared.poller, tracer, smi, feed, session);
    let trace_name = trace_name(plan.workload);
    let on_threshold = OnThreshold::new(plan.on_threshold.clone(), trace_name, shell.clone());
    let Measured {
        outcome,
        on_threshold,
        failure,
    } = measurement.run(plan.warm_up, on_threshold, &interrupts)?;
    let Outcome {
        summary,
        trace,
        recorded,
    } = outcome;
    // Before the disk: it may never take the rest of the recording.
    let shown = view.finish(&facts, &summary, &trace);
    let write_error = recorded.wait();
    shown?;
    let acted = on_threshold.end(interrupts.asked_to_finish(), &trace);
    let failure = failure.or(acted.err());
    let stopped = summary.finish_reason == Some(FinishReason::Stop);
    if let Some(path) = &plan.trace_file
        && stopped
    {
        Saving::begin(&trace, path, trace_name)?.wait()?;
        say::say(format_args!(
            "the trace before the stop is in {}",
            path.display()
        ));
    }
    let ended = Reaction::new(plan.on_end.clone(), trace_name, shell).finish(&trace);
    match write_error.or(failure).or(ended.err()) {
        Some(error) => Err(error),
        None if stopped => Ok(Status::Limit),
        // Its reason was told when it happened. A thread that is observed may end when it
        // likes.
        None if summary.finish_reason == Some(FinishReason::Failed)
            && plan.workload != Workload::Observed =>
        {
            Ok(Status::Error)
        }
        None => Ok(Status::Ok),
    }
}

/// What rtla calls a trace that is to be called nothing else.
fn trace_name(workload: Workload) -> &'static str {
    match workload {
        Workload::Timer => TIMERLAT_TRACE_FILE,
        _ => TRACE_FILE,
    }
}

/// Moves the tool's own threads (those started later inherit it) off the measured
/// CPUs, or to those of `housekeeping`. Where there is no other CPU it says so and
/// stays: returns whether it did.
pub(super) fn keep_off_measured_cpus(
    measured: &[u32],
    housekeeping: Option<&[u32]>,
    machine: &Machine,
) -> Result<bool> {
    let is_measured = |cpu: &u32| measured.contains(cpu);
    let allowed = machine.facts.allowed_cpus.iter().copied();
    let others = match housekeeping {
        Some(cpus) => cpus.to_vec(),
        None => allowed.filter(|cpu| !is_measured(cpu)).collect(),
    };
    let shares_cpu = others.is_empty() || others.iter().any(is_measured);
    if shares_cpu {
        say::say(format_args!(
            "no CPU is left for the tool's own threads: they run on measured ones, and are part of the noise"
        ));
    }
    if !others.is_empty() {
        thread::pin(&others).context("moving the tool's own threads off the measured CPUs")?;
    }
    Ok(shares_cpu)
}

/// Refuses to poll every CPU without an end where nothing else would get one: not the user's
/// shell either. Tasks that wake up and sleep again leave the CPUs to others.
fn refuse_to_take_all(
    workload: Workload,
    options: &Options,
    online: &[u32],
    rt_runtime_us: Option<i64>,
) -> Result<()> {
    let polls = matches!(workload, Workload::Spin | Workload::Microvm) && !options.pauses();
    let is_real_time = match options.priority {
        Some(Policy::Fifo(_) | Policy::RoundRobin(_)) => true,
        // The kernel then lets a budget be as long as its period. By default it keeps 5 % for others.
        Some(Policy::Deadline {
            runtime_ns,
            period_ns,
        }) => u128::from(runtime_ns) * 100 > u128::from(period_ns) * 95,
        Some(Policy::Other(_)) | None => false,
    };
    let takes_all = online.iter().all(|cpu| options.cpus.contains(cpu));
    let endless = options.duration_ns >= FOREVER_NS;
    if polls && is_real_time && takes_all && endless && rt_runtime_us == Some(-1) {
        let why = "-P would poll every CPU of this machine without an end, and real-time \
                   throttling is off (kernel.sched_rt_runtime_us=-1): nothing else would run; \
                   name an end with -d, or leave a CPU out with -c";
        return Err(UsageError(why.to_owned()).into());
    }
    Ok(())
}

/// The witnesses, or the rung that says why there are none: without BPF rights
/// gaps are measured all the same.
fn load_tracer(plan: &Plan<'_>) -> Result<(Option<Tracer>, Vec<Rung>)> {
    if !plan.options.trace {
        let rung = rungs::no_witness("none (--no-trace)", "run without --no-trace");
        return Ok((None, vec![rung]));
    }
    let scope = match plan.workload {
        Workload::Microvm | Workload::Vcpus => Scope::Vcpus,
        Workload::Spin => Scope::Threads,
        Workload::Observed => Scope::Observed,
        Workload::Timer => Scope::Timers,
    };
    match Tracer::load(&plan.options.cpus, scope) {
        Ok(tracer) => Ok((Some(tracer), Vec::new())),
        Err(LoadError::Refused { why, remedy }) => {
            say::say(format_args!("no witness, BPF was refused: {why}; {remedy}"));
            Ok((None, vec![rungs::no_witness("none", &remedy)]))
        }
        Err(error) => Err(error).context("loading the BPF programs"),
    }
}

pub(super) fn clock_facts(guest: Option<GuestClock>, host: &HostFacts, tsc_hz: u64) -> ClockFacts {
    let source = match host.clocksource.as_str() {
        "tsc" => ClockSource::Tsc,
        _ => ClockSource::UnstableTsc,
    };
    let own = ClockFacts::own(source, tsc_hz);
    guest.map_or(own, |guest| ClockFacts {
        offset_proof: guest.offset_proof,
        offset_tsc: guest.offset_tsc,
        offset_bound_tsc: guest.offset_bound_tsc,
        bracket_tsc: guest.bracket_tsc,
        ..own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_every_cpu_for_good() {
        let options = Options {
            cpus: vec![0, 1],
            duration_ns: FOREVER_NS,
            period_ns: 1_000,
            priority: Some(Policy::Fifo(99)),
            ..Options::default()
        };
        let refused = |workload, options: &Options, online: &[u32], rt_runtime_us| {
            refuse_to_take_all(workload, options, online, rt_runtime_us).is_err()
        };
        let off = Some(-1);
        assert!(refused(Workload::Spin, &options, &[0, 1], off));
        assert!(refused(Workload::Microvm, &options, &[0, 1], off));
        for (runtime_ns, is_refused) in [(1_000_000, true), (960_000, true), (950_000, false)] {
            let budget = Options {
                priority: Some(Policy::Deadline {
                    runtime_ns,
                    period_ns: 1_000_000,
                }),
                ..options.clone()
            };
            let got = refused(Workload::Spin, &budget, &[0, 1], off);
            assert_eq!(got, is_refused, "{runtime_ns}");
        }
        // A CPU is left, the kernel keeps some of each, or tasks sleep.
        assert!(!refused(Workload::Spin, &options, &[0, 1, 2], off));
        assert!(!refused(Workload::Spin, &options, &[0, 1], Some(950_000)));
        assert!(!refused(Workload::Spin, &options, &[0, 1], None));
        assert!(!refused(Workload::Timer, &options, &[0, 1], off));
        for ends in [
            Options {
                duration_ns: 1_000_000_000,
                ..options.clone()
            },
            Options {
                runtime_ns: Some(500),
                ..options.clone()
            },
            Options {
                priority: Some(Policy::Other(0)),
                ..options.clone()
            },
        ] {
            assert!(!refused(Workload::Spin, &ends, &[0, 1], off), "{ends:?}");
        }
    }
}
