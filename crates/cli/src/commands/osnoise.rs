//! `vmnoise osnoise`: measures the time taken from a polling thread on each CPU, or from existing
//! threads.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use vmnoise_console::status::{ExitStatus, MachineCannot, UsageError};
use vmnoise_console::units::to_tsc;
use vmnoise_engine::at_stop::AskedAtStop;
use vmnoise_engine::cpus::observed::ObservedThreads;
use vmnoise_engine::cpus::probe_status;
use vmnoise_engine::cpus::set_up::{MeasurePlan, PreparedWorkload, set_up};
use vmnoise_engine::{FOREVER_NS, LocalMachine, RunRequest, run_measurement};
use vmnoise_events::{MeasuringCommand, ObservedThread, RunOptions};
use vmnoise_host::Thread;
use vmnoise_render::frame::{self, NoiseView};
use vmnoise_render::json_lines::JsonLines;
use vmnoise_render::osnoise_hist::NoiseHist;
use vmnoise_render::osnoise_top::Top;
use vmnoise_render::trace::Trace;
use vmnoise_tracer::Tracer;
use vmnoise_views::{FrameStart, ResultView};
use vmnoise_workload::cgroup::Cgroup;
use vmnoise_workload::spin::{InterferenceCounter, ReadSteal, Spin, SpinConfig};

use super::{polling_group, steal, target};
use crate::args::{OsnoiseArguments, OsnoiseCommon, OsnoiseMode, OsnoiseTopArguments, TRACE_FILE};

/// Measures, prints the result, and returns the status.
pub fn run(arguments: &OsnoiseArguments) -> Result<ExitStatus> {
    match &arguments.mode {
        None => run_top(&arguments.top),
        Some(OsnoiseMode::Top(top)) => run_top(top),
        Some(OsnoiseMode::Hist(hist)) => {
            let mut view = NoiseHist::new(&hist.buckets, hist.common.keeps_trace());
            run_with(&hist.common, &mut view, None)
        }
        Some(OsnoiseMode::Trace(trace)) => {
            run_with(&trace.common, &mut Trace::of_gaps(trace.quiet), None)
        }
    }
}

fn run_top(arguments: &OsnoiseTopArguments) -> Result<ExitStatus> {
    let keeps_trace = arguments.common.keeps_trace();
    if arguments.json_lines {
        return run_with(&arguments.common, &mut JsonLines::new(keeps_trace), None);
    }
    let mut top = Top::new(arguments.format, arguments.quiet, keeps_trace);
    let frame = frame::of::<NoiseView>(top.draws());
    if frame.is_some() {
        top.be_silent();
    }
    run_with(&arguments.common, &mut top, frame)
}

fn run_with(
    arguments: &OsnoiseCommon,
    view: &mut dyn ResultView,
    frame: Option<FrameStart>,
) -> Result<ExitStatus> {
    let shared = &arguments.shared;
    shared.unsupported.refuse()?;
    let cgroup = polling_group::enter(shared)?;
    let machine = LocalMachine::read()?;
    let threads = target::threads(arguments)?;
    let options = options(arguments, &machine, threads.as_deref(), cgroup.as_ref())?;
    let housekeeping = shared.house_keeping.as_deref();
    let plan = MeasurePlan {
        workload: match threads {
            Some(_) => MeasuringCommand::Observed,
            None => MeasuringCommand::Osnoise,
        },
        options: options.clone(),
        housekeeping: housekeeping.map(|list| machine.cpus(list)).transpose()?,
        warm_up: Duration::from_nanos(shared.warm_up),
        feed: arguments.feed.clone(),
        at_stop: AskedAtStop::default(),
        machine: &machine,
    };
    let run = RunRequest {
        trace_file: trace_file(arguments),
        trace_name: TRACE_FILE,
        ..shared.run()
    };
    run_measurement(&run, view, frame, |shell| {
        set_up(plan, shell, |tsc_hz, tracer| match threads {
            Some(threads) => observe(threads, tsc_hz, tracer),
            None => poll(&options, cgroup, tsc_hz, tracer),
        })
    })
}

/// Returns the file for the saved trace. `--auto` implies `--trace`, as in rtla.
fn trace_file(arguments: &OsnoiseCommon) -> Option<PathBuf> {
    let of_auto = arguments.auto.map(|_| TRACE_FILE.into());
    arguments.trace.clone().or(of_auto)
}

fn observe(threads: Vec<Thread>, tsc_hz: u64, tracer: Option<&Tracer>) -> Result<PreparedWorkload> {
    let Some(tracer) = tracer.filter(|tracer| tracer.witnesses().sched) else {
        let why = "--pid and --comm need the tracepoint sched_switch, which shows when a thread has a CPU";
        return Err(MachineCannot(why.into()).into());
    };
    Ok(PreparedWorkload {
        guest_clock: None,
        steal_clock: false,
        run_delay: false,
        probe_statuses: vec![probe_status::of_observed()],
        workload: Box::new(ObservedThreads::new(threads, tsc_hz, tracer.observer())),
    })
}

fn poll(
    options: &RunOptions,
    cgroup: Option<Cgroup>,
    tsc_hz: u64,
    tracer: Option<&Tracer>,
) -> Result<PreparedWorkload> {
    let spin = Spin::prepare(SpinConfig {
        cpus: options.cpus.clone(),
        threshold_tsc: to_tsc(options.threshold_ns, tsc_hz),
        policy: options.priority,
        cgroup,
        period_tsc: to_tsc(options.period_ns, tsc_hz),
        runtime_tsc: to_tsc(options.runtime_ns.unwrap_or(options.period_ns), tsc_hz),
        steal_readers: tracer
            .and_then(|tracer| steal_readers(options, tracer))
            .unwrap_or_default(),
        interference_counters: tracer
            .map(|tracer| interference_counters(options, tracer))
            .unwrap_or_default(),
        reads_run_delay: !tracer.is_some_and(|tracer| tracer.witnesses().sched),
    })
    .map_err(|error| MachineCannot(error.to_string()))?;
    let run_delay = spin.counts_run_delay();
    let mut probe_statuses = vec![
        probe_status::of_gap_steal(spin.has_steal_clock()),
        probe_status::of_interference(spin.counts_interference()),
    ];
    probe_statuses.extend(run_delay.then(probe_status::of_run_delay));
    Ok(PreparedWorkload {
        guest_clock: None,
        steal_clock: spin.has_steal_clock(),
        run_delay,
        probe_statuses,
        workload: Box::new(spin),
    })
}

/// Returns readers of the CPUs' steal clocks; `None` if one of the CPUs has no reader.
fn steal_readers(options: &RunOptions, tracer: &Tracer) -> Option<HashMap<u32, ReadSteal>> {
    let reader = |&cpu: &u32| Some((cpu, steal::reader(tracer.steal_reader(cpu)?)));
    options.cpus.iter().map(reader).collect()
}

fn interference_counters(
    options: &RunOptions,
    tracer: &Tracer,
) -> HashMap<u32, InterferenceCounter> {
    let counter = |&cpu| {
        let counter: InterferenceCounter = Arc::new(tracer.interference_counter(cpu)?);
        Some((cpu, counter))
    };
    options.cpus.iter().filter_map(counter).collect()
}

/// Returns the options of the run, after checks against this machine.
fn options(
    arguments: &OsnoiseCommon,
    machine: &LocalMachine,
    threads: Option<&[Thread]>,
    cgroup: Option<&Cgroup>,
) -> Result<RunOptions> {
    let threads = threads.unwrap_or_default();
    let mut of_threads: Vec<u32> = threads
        .iter()
        .flat_map(|thread| thread.allowed_cpus.iter().copied())
        .collect();
    of_threads.sort_unstable();
    let cpus = match threads.is_empty() {
        true => machine.cpus_of(arguments.shared.cpus.as_deref(), cgroup)?,
        false => of_threads,
    };
    let stop_ns = arguments.stop.or(arguments.auto);
    if !arguments.shared.on_threshold.is_empty() && stop_ns.or(arguments.stop_total).is_none() {
        let error = "--on-threshold needs a limit: set one with -s, -S or -a";
        return Err(UsageError(error.into()).into());
    }
    if arguments
        .runtime
        .is_some_and(|runtime| runtime > arguments.period)
    {
        return Err(UsageError("the runtime (-r) is longer than its period (-p)".into()).into());
    }
    Ok(RunOptions {
        cpus,
        duration_ns: arguments.shared.duration.unwrap_or(FOREVER_NS),
        threshold_ns: arguments.threshold,
        period_ns: arguments.period,
        priority: arguments.priority,
        top: 1,
        stop_ns,
        stop_total_ns: arguments.stop_total,
        runtime_ns: arguments.runtime,
        trace: true,
        observed: threads
            .iter()
            .map(|thread| ObservedThread {
                tid: thread.tid,
                comm: thread.comm.clone(),
            })
            .collect(),
        ..RunOptions::default()
    })
}
