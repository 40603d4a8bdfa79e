//! `vmnoise microvm`: a guest of vmnoise's own measures this host as any VM would.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_console::status::{ExitStatus, MachineCannot};
use vmnoise_console::units::to_tsc;
use vmnoise_engine::at_stop::AskedAtStop;
use vmnoise_engine::cpus::probe_status;
use vmnoise_engine::cpus::set_up::{MeasurePlan, PreparedWorkload, set_up};
use vmnoise_engine::feed::receiver::FeedFrom;
use vmnoise_engine::{LocalMachine, run_measurement};
use vmnoise_events::{MeasuringCommand, RunOptions};
use vmnoise_render::format::Format;
use vmnoise_render::frame::{self, NoiseView};
use vmnoise_render::summary_view::{Final, Lines};
use vmnoise_render::tune_timer::TuningRequest;
use vmnoise_tracer::Tracer;
use vmnoise_views::ResultView;
use vmnoise_workload::microvm::{self, Microvm, MicrovmConfig, SharedPages};

use super::{exercise, tune_timer};
use crate::args::{MicrovmArguments, request};

/// Measures, prints the result, and returns the status.
pub fn run(arguments: &MicrovmArguments) -> Result<ExitStatus> {
    let machine = LocalMachine::read()?;
    if let Some(exit) = arguments.exercise {
        let cpus = cpus(arguments, &machine)?;
        return exercise::run(exit, cpus, arguments, &machine);
    }
    if let Some(interval_ns) = arguments.timer {
        let asked = TuningRequest {
            cpu: tune_timer::one_cpu(&cpus(arguments, &machine)?)?,
            duration_ns: arguments.duration,
            interval_ns,
            goal_ns: None,
            percentile: 99.9,
            priority: arguments.priority,
        };
        return tune_timer::measure(asked, false, &machine, arguments.format);
    }
    let options = options(arguments, &machine)?;
    check_kvm(&options)?;
    let plan = MeasurePlan {
        workload: MeasuringCommand::Microvm,
        options: options.clone(),
        housekeeping: None,
        warm_up: Duration::ZERO,
        feed: FeedFrom::Nowhere,
        at_stop: AskedAtStop::default(),
        machine: &machine,
    };
    let format = arguments.format;
    let frame = frame::of::<NoiseView>(format == Format::Text && std::io::stderr().is_terminal());
    let mut view: Box<dyn ResultView> = match frame.is_some() {
        true => Box::new(Final { format }),
        false => Box::new(Lines { format }),
    };
    let run = request(arguments.output.clone(), arguments.user.clone());
    run_measurement(&run, &mut *view, frame, |shell| {
        let prepare = |tsc_hz, tracer: Option<&Tracer>| prepare(&options, tsc_hz, tracer);
        set_up(plan, shell, prepare)
    })
}

/// Refuses a machine on which no guest can run, before anything is loaded. The error names a
/// command that needs no guest.
fn check_kvm(options: &RunOptions) -> Result<()> {
    microvm::check().map_err(|error| {
        let instead = options.cpus.first().map_or_else(String::new, |cpu| {
            format!(
                "; without KVM, `vmnoise osnoise -c {cpu} -d 10s` measures this machine from inside"
            )
        });
        MachineCannot(format!("{error}{instead}")).into()
    })
}

fn prepare(options: &RunOptions, tsc_hz: u64, tracer: Option<&Tracer>) -> Result<PreparedWorkload> {
    let microvm = Microvm::prepare(MicrovmConfig {
        cpus: options.cpus.clone(),
        threshold_tsc: to_tsc(options.threshold_ns, tsc_hz),
        policy: options.priority,
        exit_counts: tracer.map(share_exit_counts).transpose()?,
    })
    .map_err(|error| MachineCannot(error.to_string()))?;
    Ok(PreparedWorkload {
        guest_clock: Some(microvm.clock()),
        steal_clock: microvm.has_steal_clock(),
        run_delay: false,
        probe_statuses: probe_status::of_guest(microvm.has_steal_clock(), &microvm.clock()),
        workload: Box::new(microvm),
    })
}

/// Returns the options of the run, after checks against this machine.
fn options(arguments: &MicrovmArguments, machine: &LocalMachine) -> Result<RunOptions> {
    Ok(RunOptions {
        cpus: cpus(arguments, machine)?,
        duration_ns: arguments.duration,
        threshold_ns: arguments.threshold,
        period_ns: arguments.period,
        priority: arguments.priority,
        top: arguments.top,
        stop_ns: arguments.stop,
        trace: !arguments.no_trace,
        ..RunOptions::default()
    })
}

fn cpus(arguments: &MicrovmArguments, machine: &LocalMachine) -> Result<Vec<u32>> {
    match &arguments.cpus {
        Some(list) => machine.cpus(list),
        None => Ok(Vec::from_iter(machine.facts.allowed_cpus.last().copied())),
    }
}

/// Maps the live exit counters that BPF writes, for the guest to read.
fn share_exit_counts(tracer: &Tracer) -> Result<SharedPages> {
    let (file, len) = tracer.exit_counts().context("sharing the exit counters")?;
    SharedPages::map(file.as_fd(), len).context("sharing the exit counters")
}
