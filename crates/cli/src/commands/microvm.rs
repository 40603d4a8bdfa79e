//! `vmnoise microvm`: settles what is asked, sets up probes and guest, measures,
//! prints. Everything that can be refused is refused before anything is started.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_events::{
    ClockFacts, ClockSource, HostFacts, Options, RunFacts, Rung, Witnesses, Workload,
};
use vmnoise_recording::Writer;
use vmnoise_tracer::host::{Host, cpu_list};
use vmnoise_tracer::{LoadError, Tracer};
use vmnoise_workload::microvm::{Config, Microvm, SharedPages};
use vmnoise_workload::{thread, tsc};

use crate::args::MicrovmArguments;
use crate::measure::Measurement;
use crate::session::Session;
use crate::status::{MachineCannot, Status, UsageError};
use crate::{interrupt, output, rungs};

/// How long the TSC is compared with CLOCK_MONOTONIC before the run.
const TSC_CALIBRATION: Duration = Duration::from_millis(50);

/// Measures, prints, and says how it ended.
pub fn run(arguments: &MicrovmArguments) -> Result<Status> {
    let interrupts = interrupt::catch().context("catching Ctrl-C")?;
    let here = Host::here();
    let host = here.facts().context("reading the facts of this machine")?;
    let options = options(arguments, &here, &host)?;
    let output = arguments.output.as_deref().map(create).transpose()?;
    let measured = run_with(&options, &host, output, &interrupts);
    if measured.is_err()
        && let Some(path) = &arguments.output
    {
        remove_if_empty(path);
    }
    let (facts, summary, write_error) = measured?;
    output::print(&facts, &summary, arguments.format)?;
    match write_error {
        Some(error) => Err(error),
        None if summary.stopped_by.is_some() => Ok(Status::Limit),
        None => Ok(Status::Ok),
    }
}

type Measured = (RunFacts, vmnoise_explain::Summary, Option<anyhow::Error>);

fn run_with(
    options: &Options,
    host: &HostFacts,
    output: Option<File>,
    interrupts: &interrupt::Interrupts,
) -> Result<Measured> {
    let shares_cpu = keep_off_measured_cpus(options, host)?;
    let (mut tracer, mut ladder) = load_tracer(options)?;
    let tsc_hz = tsc::calibrate_hz(TSC_CALIBRATION);
    let microvm = Microvm::prepare(Config {
        cpus: options.cpus.clone(),
        threshold_tsc: to_tsc(options.threshold_ns, tsc_hz),
        policy: options.priority,
        exit_counts: tracer.as_ref().map(share_exit_counts).transpose()?,
    })
    .map_err(|error| MachineCannot(error.to_string()))?;
    if let Some(tracer) = &mut tracer {
        for vcpu in microvm.threads() {
            tracer.watch(vcpu.cpu, vcpu.tid)?;
        }
        tracer.attach().context("attaching the BPF programs")?;
        ladder = tracer.rungs();
    }
    ladder.extend(rungs::of_guest(microvm.has_steal_clock(), &microvm.clock()));
    let facts = RunFacts {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        workload: Workload::Microvm,
        started_at: jiff::Timestamp::now().to_string(),
        options: options.clone(),
        host: host.clone(),
        clock: clock_facts(&microvm, host, tsc_hz),
        witnesses: Witnesses {
            steal_clock: microvm.has_steal_clock(),
            ..tracer.as_ref().map(Tracer::witnesses).unwrap_or_default()
        },
        rungs: ladder,
        shares_cpu,
        rdtsc_cycles: tsc::rdtsc_cycles(),
    };
    let writer = output.map(|file| Writer::new(file, &facts)).transpose()?;
    let session = Session::new(&facts, writer);
    let (summary, write_error) =
        Measurement::new(&facts, microvm, tracer, session).run(interrupts)?;
    Ok((facts, summary, write_error))
}

/// What is asked, checked against what there is.
fn options(arguments: &MicrovmArguments, here: &Host, host: &HostFacts) -> Result<Options> {
    let cpus = match &arguments.cpus {
        Some(list) => cpu_list::parse(list).map_err(|error| UsageError(error.to_string()))?,
        None => host.allowed_cpus.last().copied().into_iter().collect(),
    };
    here.check_cpus(&cpus)
        .map_err(|error| UsageError(error.to_string()))?;
    Ok(Options {
        cpus,
        duration_ns: arguments.duration,
        threshold_ns: arguments.threshold,
        period_ns: arguments.period,
        priority: arguments.priority,
        top: arguments.top,
        stop_ns: arguments.stop,
        stop_total_ns: None,
        runtime_ns: None,
        trace: !arguments.no_trace,
    })
}

/// Creates the recording, so that a path that cannot be written is refused before the run.
fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| {
        format!(
            "cannot write the recording {}; name a file in a folder you may write to",
            path.display()
        )
    })
}

/// A run that never began leaves no empty recording behind.
fn remove_if_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        // The error of the run is the one to tell.
        let _ = std::fs::remove_file(path);
    }
}

/// Moves the tool's own threads (those started later inherit it) off the measured
/// CPUs. Where there is no other CPU it says so and stays: returns whether it did.
fn keep_off_measured_cpus(options: &Options, host: &HostFacts) -> Result<bool> {
    let others: Vec<u32> = host
        .allowed_cpus
        .iter()
        .copied()
        .filter(|cpu| !options.cpus.contains(cpu))
        .collect();
    if others.is_empty() {
        eprintln!(
            "vmnoise: every allowed CPU is measured: the tool's own threads run there too, and are part of the noise"
        );
        return Ok(true);
    }
    thread::pin(&others).context("moving the tool's own threads off the measured CPUs")?;
    Ok(false)
}

/// The witnesses, or the rung that says why there are none: without BPF rights
/// the microVM still measures.
fn load_tracer(options: &Options) -> Result<(Option<Tracer>, Vec<Rung>)> {
    if !options.trace {
        let rung = rungs::no_witness("none (--no-trace)", "run without --no-trace");
        return Ok((None, vec![rung]));
    }
    match Tracer::load(&options.cpus) {
        Ok(tracer) => Ok((Some(tracer), Vec::new())),
        Err(LoadError::Refused { why, remedy }) => {
            eprintln!("vmnoise: no witness, BPF was refused: {why}; {remedy}");
            Ok((None, vec![rungs::no_witness("none", &remedy)]))
        }
        Err(error) => Err(error).context("loading the BPF programs"),
    }
}

/// The live exit counters that BPF writes, for the guest to read.
fn share_exit_counts(tracer: &Tracer) -> Result<SharedPages> {
    let (file, len) = tracer.exit_counts().context("sharing the exit counters")?;
    SharedPages::map(file.as_fd(), len).context("sharing the exit counters")
}

fn clock_facts(microvm: &Microvm, host: &HostFacts, tsc_hz: u64) -> ClockFacts {
    let guest = microvm.clock();
    ClockFacts {
        source: if host.clocksource == "tsc" {
            ClockSource::Tsc
        } else {
            ClockSource::UnstableTsc
        },
        tsc_hz,
        offset_proof: guest.offset_proof,
        offset_tsc: guest.offset_tsc,
        offset_bound_tsc: guest.offset_bound_tsc,
        bracket_tsc: guest.bracket_tsc,
    }
}

fn to_tsc(ns: u64, tsc_hz: u64) -> u64 {
    let cycles = u128::from(ns) * u128::from(tsc_hz) / 1_000_000_000;
    u64::try_from(cycles).unwrap_or(u64::MAX)
}
