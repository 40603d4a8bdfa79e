//! `vmnoise osnoise`: what is taken from a polling thread on each CPU, which feels it, or
//! from threads that are there already.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use vmnoise_events::{ObservedThread, Options, Workload};
use vmnoise_tracer::Tracer;
use vmnoise_tracer::host::Thread;
use vmnoise_workload::cgroup::Cgroup;
use vmnoise_workload::spin::{Config, InterferenceCounter, Spin, StealReader};

use super::{polling_group, shared_run, steal, target};
use crate::args::{OsnoiseArguments, OsnoiseCommon, OsnoiseMode, OsnoiseTopArguments, TRACE_FILE};
use crate::frame::{self, Noise, term_caps};
use crate::output::json_lines::JsonLines;
use crate::output::osnoise_hist::Hist;
use crate::output::osnoise_top::Top;
use crate::output::trace::Trace;
use crate::run::cpus::observed::Observed;
use crate::run::cpus::probe_status;
use crate::run::cpus::set_up::{Plan, Prepared, set_up};
use crate::run::machine::Machine;
use crate::run::view::{Frame, View};
use crate::run::{FOREVER_NS, Run, run_measurement};
use crate::status::{MachineCannot, Status, UsageError};
use crate::units::to_tsc;

/// Measures, prints, and says how it ended.
pub fn run(arguments: &OsnoiseArguments) -> Result<Status> {
    match &arguments.mode {
        None => run_top(&arguments.top),
        Some(OsnoiseMode::Top(top)) => run_top(top),
        Some(OsnoiseMode::Hist(hist)) => run_with(&hist.common, &mut Hist::new(hist), None),
        Some(OsnoiseMode::Trace(trace)) => {
            run_with(&trace.common, &mut Trace::of_gaps(trace.quiet), None)
        }
    }
}

fn run_top(arguments: &OsnoiseTopArguments) -> Result<Status> {
    if arguments.json_lines {
        let mut lines = JsonLines::new(arguments.common.keeps_trace());
        return run_with(&arguments.common, &mut lines, None);
    }
    let mut top = Top::new(arguments);
    let framed = top.draws() && term_caps::can_show();
    if framed {
        top.be_silent();
    }
    let frame: Option<Frame> = framed.then_some(frame::begin::<Noise>);
    run_with(&arguments.common, &mut top, frame)
}

fn run_with(
    arguments: &OsnoiseCommon,
    view: &mut dyn View,
    frame: Option<Frame>,
) -> Result<Status> {
    let shared = &arguments.shared;
    shared.foreign.refuse()?;
    let cgroup = polling_group::enter(shared)?;
    let machine = Machine::read()?;
    let threads = target::threads(arguments)?;
    let options = options(arguments, &machine, threads.as_deref(), cgroup.as_ref())?;
    let housekeeping = shared.house_keeping.as_deref();
    let plan = Plan {
        workload: match threads {
            Some(_) => Workload::Observed,
            None => Workload::Spin,
        },
        options: options.clone(),
        housekeeping: housekeeping.map(|list| machine.cpus(list)).transpose()?,
        warm_up: Duration::from_nanos(shared.warm_up),
        feed: arguments.feed.clone(),
        machine: &machine,
    };
    let run = Run {
        trace_file: trace_file(arguments),
        trace_name: TRACE_FILE,
        ..shared_run::of(shared, &arguments.feed)
    };
    run_measurement(&run, view, frame, |shell| {
        set_up(plan, shell, |tsc_hz, tracer| match threads {
            Some(threads) => observe(threads, tsc_hz, tracer),
            None => poll(&options, cgroup, tsc_hz, tracer),
        })
    })
}

/// `--auto` implies `--trace`, as in rtla.
fn trace_file(arguments: &OsnoiseCommon) -> Option<PathBuf> {
    let of_auto = arguments.auto.map(|_| TRACE_FILE.into());
    arguments.trace.clone().or(of_auto)
}

fn observe(threads: Vec<Thread>, tsc_hz: u64, tracer: Option<&Tracer>) -> Result<Prepared> {
    let Some(tracer) = tracer.filter(|tracer| tracer.witnesses().sched) else {
        let why = "without sched_switch nobody knows when a thread has a CPU (--pid, --comm)";
        return Err(MachineCannot(why.into()).into());
    };
    Ok(Prepared {
        guest_clock: None,
        steal_clock: false,
        rungs: vec![probe_status::of_observed()],
        poller: Box::new(Observed::new(threads, tsc_hz, tracer.observer())),
    })
}

fn poll(
    options: &Options,
    cgroup: Option<Cgroup>,
    tsc_hz: u64,
    tracer: Option<&Tracer>,
) -> Result<Prepared> {
    let spin = Spin::prepare(Config {
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
    })
    .map_err(|error| MachineCannot(error.to_string()))?;
    Ok(Prepared {
        guest_clock: None,
        steal_clock: spin.has_steal_clock(),
        rungs: vec![
            probe_status::of_gap_steal(spin.has_steal_clock()),
            probe_status::of_interference(spin.counts_interference()),
        ],
        poller: Box::new(spin),
    })
}

/// The readers of the CPUs' steal clocks; `None` unless all can have one.
fn steal_readers(options: &Options, tracer: &Tracer) -> Option<HashMap<u32, StealReader>> {
    let reader = |&cpu: &u32| Some((cpu, steal::reader(tracer.steal_reader(cpu)?)));
    options.cpus.iter().map(reader).collect()
}

fn interference_counters(options: &Options, tracer: &Tracer) -> HashMap<u32, InterferenceCounter> {
    let counter = |&cpu| {
        let counter: InterferenceCounter = Arc::new(tracer.interference_counter(cpu)?);
        Some((cpu, counter))
    };
    options.cpus.iter().filter_map(counter).collect()
}

/// What is asked, checked against what there is.
fn options(
    arguments: &OsnoiseCommon,
    machine: &Machine,
    threads: Option<&[Thread]>,
    cgroup: Option<&Cgroup>,
) -> Result<Options> {
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
        let error = "--on-threshold waits for a limit: name one with -s, -S or -a";
        return Err(UsageError(error.into()).into());
    }
    if arguments
        .runtime
        .is_some_and(|runtime| runtime > arguments.period)
    {
        return Err(UsageError("the runtime (-r) is longer than its period (-p)".into()).into());
    }
    Ok(Options {
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
        ..Options::default()
    })
}
