//! `vmnoise timerlat`: measures how late a periodic task on each CPU wakes up, and finds the cause.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::{ExitStatus, MachineCannot, UsageError};
use vmnoise_engine::cpus::probe_status;
use vmnoise_engine::cpus::set_up::{MeasurePlan, PreparedWorkload, set_up};
use vmnoise_engine::files::ResultFiles;
use vmnoise_engine::{FOREVER_NS, LocalMachine, RunRequest, run_measurement};
use vmnoise_events::{MeasuringCommand, ProbeStatus, RunOptions, TimerOptions};
use vmnoise_render::frame::{self, WakeupsView};
use vmnoise_render::timerlat::exports::Exports;
use vmnoise_render::timerlat::hist::LatencyHist;
use vmnoise_render::timerlat::top::{LatencyTop, TopOptions};
use vmnoise_render::trace::Trace;
use vmnoise_tracer::{Tracer, timers};
use vmnoise_views::{FrameStart, ResultView};
use vmnoise_workload::cgroup::Cgroup;
use vmnoise_workload::idle;
use vmnoise_workload::timer::{Probes, Timer, TimerConfig, TimerSteps};

use super::{polling_group, steal};
use crate::args::{
    CyclictestArguments, DmaLatencyLimit, TIMERLAT_TRACE_FILE, TimerlatArguments, TimerlatCommon,
    TimerlatMode, TimerlatTopArguments,
};

/// Number of wake-ups that are listed, largest latency first.
const WORST: usize = 10;
/// Time between two tables.
const SHOWN_EACH_NS: u64 = 1_000_000_000;

/// Limits that end the run, and the file for its trace.
#[derive(Debug, Default)]
struct Stops {
    irq_ns: Option<u64>,
    thread_ns: Option<u64>,
    trace_file: Option<PathBuf>,
}

/// Measures, prints the result, and returns the status.
pub fn run(arguments: &TimerlatArguments) -> Result<ExitStatus> {
    match &arguments.mode {
        None => run_top(&arguments.top, arguments.top.asked()),
        Some(TimerlatMode::Top(top)) => run_top(top, top.asked()),
        Some(TimerlatMode::Hist(hist)) => {
            let stops = stops(&hist.common);
            let claimed = claim(&hist.buckets.exports, &hist.common)?;
            let (keeps_trace, stacks) = (hist.common.keeps_trace(), hist.common.stacks());
            let mut view = LatencyHist::new(&hist.buckets, hist.common.nano, keeps_trace, stacks);
            run_with(&hist.common, stops, &claimed, &mut view, None)
        }
        Some(TimerlatMode::Trace(trace)) => {
            let stops = stops(&trace.common);
            let mut view = Trace::of_wakeups(trace.quiet, trace.common.stacks());
            run_with(
                &trace.common,
                stops,
                &ResultFiles::default(),
                &mut view,
                None,
            )
        }
    }
}

/// Measures as cyclictest does. Unlike in [`run`], the status is 0 if a latency ends the run.
pub fn run_as_cyclictest(arguments: &CyclictestArguments) -> Result<ExitStatus> {
    let asked = TopOptions {
        cyclictest: Some(arguments.words),
        ..arguments.top.asked()
    };
    Ok(match run_top(&arguments.top, asked)? {
        ExitStatus::Limit => ExitStatus::Ok,
        status => status,
    })
}

fn run_top(arguments: &TimerlatTopArguments, asked: TopOptions) -> Result<ExitStatus> {
    let stops = match arguments.aa_only {
        Some(limit_ns) => Stops {
            irq_ns: Some(limit_ns),
            thread_ns: Some(limit_ns),
            trace_file: arguments.common.trace.clone(),
        },
        None => stops(&arguments.common),
    };
    let claimed = claim(&arguments.exports, &arguments.common)?;
    let mut top = LatencyTop::new(asked, &arguments.exports);
    let frame = frame::of::<WakeupsView>(top.draws());
    if frame.is_some() {
        top.be_silent();
    }
    run_with(&arguments.common, stops, &claimed, &mut top, frame)
}

/// Claims the files that the command writes after the run.
fn claim(exports: &Exports, common: &TimerlatCommon) -> Result<ResultFiles> {
    let files = [
        ("histogram", &exports.histfile),
        ("JSON", &exports.json),
        ("distribution", &exports.cdf),
    ];
    let files = files
        .into_iter()
        .filter_map(|(what, path)| Some((what, path.as_ref()?)));
    ResultFiles::results(files, common.shared.output.as_slice())
}

/// Returns the limits of the run. `--auto` implies `--trace`, as in rtla.
fn stops(arguments: &TimerlatCommon) -> Stops {
    let of_auto = arguments.auto.map(|_| TIMERLAT_TRACE_FILE.into());
    Stops {
        irq_ns: arguments.irq.or(arguments.auto),
        thread_ns: arguments.thread.or(arguments.auto),
        trace_file: arguments.trace.clone().or(of_auto),
    }
}

fn run_with(
    arguments: &TimerlatCommon,
    stops: Stops,
    claimed: &ResultFiles,
    view: &mut dyn ResultView,
    frame: Option<FrameStart>,
) -> Result<ExitStatus> {
    let shared = &arguments.shared;
    shared.unsupported.refuse()?;
    arguments.unsupported.refuse()?;
    if !shared.on_threshold.is_empty() && stops.irq_ns.or(stops.thread_ns).is_none() {
        let error = "--on-threshold needs a limit: set one with -i, -T or -a";
        return Err(UsageError(error.into()).into());
    }
    let cgroup = polling_group::enter(shared)?;
    let machine = LocalMachine::read()?;
    let cpus = machine.cpus_of(shared.cpus.as_deref(), cgroup.as_ref())?;
    let (dma_latency, held) = hold(arguments.dma_latency);
    let states = arguments.deepest_idle_state;
    let _states = states
        .map(|deepest| idle::IdleStates::limit(&cpus, deepest))
        .transpose()
        .map_err(|error| MachineCannot(error.to_string()))?;
    let timer = TimerOptions {
        period_ns: arguments.period,
        aligned_ns: arguments.aligned,
        stop_irq_ns: stops.irq_ns,
        stop_thread_ns: stops.thread_ns,
        dma_latency_us: dma_latency.as_ref().and(wanted_us(arguments.dma_latency)),
    };
    let housekeeping = shared.house_keeping.as_deref();
    let plan = MeasurePlan {
        workload: MeasuringCommand::Timerlat,
        options: RunOptions {
            cpus,
            duration_ns: shared.duration.unwrap_or(FOREVER_NS),
            period_ns: SHOWN_EACH_NS,
            priority: Some(arguments.priority),
            top: WORST,
            trace: !arguments.no_trace,
            timer: Some(timer.clone()),
            ..RunOptions::default()
        },
        housekeeping: housekeeping.map(|list| machine.cpus(list)).transpose()?,
        warm_up: Duration::from_nanos(shared.warm_up),
        feed: arguments.feed.clone(),
        at_stop: arguments.at_stop(),
        machine: &machine,
    };
    let options = plan.options.clone();
    let run = RunRequest {
        trace_file: stops.trace_file,
        trace_name: TIMERLAT_TRACE_FILE,
        saves_results: !claimed.is_empty(),
        ..shared.run()
    };
    run_measurement(&run, view, frame, |shell| {
        set_up(plan, shell, |_, tracer| {
            let probe_statuses = vec![held, timers(machine.here())];
            prepare(&options, &timer, cgroup, probe_statuses, tracer)
        })
    })
}

fn wanted_us(latency: DmaLatencyLimit) -> Option<i32> {
    match latency {
        DmaLatencyLimit::Off => None,
        DmaLatencyLimit::Us(us) => Some(us),
    }
}

/// Limits the wake-up latency of idle CPUs until the returned hold is dropped. The probe status
/// says whether this worked.
fn hold(latency: DmaLatencyLimit) -> (Option<idle::DmaLatencyRequest>, ProbeStatus) {
    let Some(us) = wanted_us(latency) else {
        return (None, probe_status::of_idle(None, "--dma-latency=off"));
    };
    match idle::DmaLatencyRequest::hold(us) {
        Ok(held) => (Some(held), probe_status::of_idle(Some(us), "")),
        Err(error) => {
            say::say(format_args!(
                "the wake-up latency of idle CPUs is not limited: {error}"
            ));
            (None, probe_status::of_idle(None, &error.to_string()))
        }
    }
}

fn prepare(
    options: &RunOptions,
    timer: &TimerOptions,
    cgroup: Option<Cgroup>,
    probe_statuses: Vec<ProbeStatus>,
    tracer: Option<&Tracer>,
) -> Result<PreparedWorkload> {
    let probes_of = |&cpu: &u32| {
        let steps = tracer.and_then(|tracer| tracer.timer_steps(cpu));
        let steps = steps.map(|steps| Arc::new(steps) as TimerSteps);
        let steal = tracer.and_then(|tracer| tracer.steal_reader(cpu));
        Probes {
            steps,
            steal_reader: steal.map(steal::reader),
        }
    };
    let workload = Timer::prepare(TimerConfig {
        cpus: options.cpus.clone(),
        policy: options.priority,
        cgroup,
        period_ns: timer.period_ns,
        aligned_ns: timer.aligned_ns,
        probes: options.cpus.iter().map(probes_of).collect(),
    })
    .map_err(|error| MachineCannot(error.to_string()))?;
    Ok(PreparedWorkload {
        guest_clock: None,
        steal_clock: tracer.is_some_and(|tracer| tracer.witnesses().activity_steal),
        run_delay: false,
        probe_statuses,
        workload: Box::new(workload),
    })
}
