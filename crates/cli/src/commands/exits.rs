//! `vmnoise exits`: every exit of every VM on this host, counted in the kernel, and told
//! one by one where that is asked.

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_events::{ExitFilter, Options, RunFacts, Workload};
use vmnoise_export::Readers;
use vmnoise_tracer::host::{Host, Vm, cpu_list};
use vmnoise_tracer::{ExitTracer, LoadError, Streaming};
use vmnoise_workload::tsc;

use super::conduct::{self, FOREVER_NS, Machine};
use crate::args::reason_names;
use crate::args::{ExitsArguments, ExitsCommon, ExitsMode, ExitsTopArguments};
use crate::frame::term_caps;
use crate::output::exits::{ExitsView, Layout, WhileRunning};
use crate::output::format::Format;
use crate::output::vm_list;
use crate::rights::{self, Work};
use crate::run::exits_session::{ExitsOutcome, ExitsSession};
use crate::run::files;
use crate::run::vcpus::{ExitsMeasurement, is_called};
use crate::run::{interrupt, recorder};
use crate::rungs;
use crate::say;
use crate::status::{MachineCannot, Status, UsageError};

/// Room for vCPUs that come during the run.
const ROOM_TO_GROW: usize = 256;

/// Counts, prints, and says how it ended.
pub fn run(arguments: &ExitsArguments) -> Result<Status> {
    if arguments.list {
        // What it reads is named by tenants.
        rights::begin(None)?;
        rights::keep(&[Work::CountExits])?;
        vm_list::print(&Host::here().vms(), arguments.top.format)?;
        return Ok(Status::Ok);
    }
    match &arguments.mode {
        None => run_top(&arguments.top),
        Some(ExitsMode::Top(top)) => run_top(top),
        Some(ExitsMode::Hist(hist)) => {
            let view = ExitsView::new(Layout::Hist(hist), hist.format);
            count(&hist.common, view)
        }
        Some(ExitsMode::Trace(trace)) => {
            let view = ExitsView::new(Layout::Trace, Format::Text);
            count(&trace.common, view)
        }
    }
}

fn run_top(arguments: &ExitsTopArguments) -> Result<Status> {
    let draws = arguments.format == Format::Text && std::io::stdout().is_terminal();
    let live = match draws {
        _ if arguments.quiet => WhileRunning::Silent,
        true if term_caps::can_show() => WhileRunning::Framed,
        true => WhileRunning::Redrawn,
        false => WhileRunning::Timed,
    };
    let view = ExitsView::new(Layout::Top { live }, arguments.format);
    count(&arguments.common, view)
}

fn count(arguments: &ExitsCommon, view: ExitsView<'_>) -> Result<Status> {
    let machine = Machine::read()?;
    let filter = filter(arguments, machine.facts.kvm_module.as_deref())?;
    let streaming = streaming(arguments, &view)?;
    let vms = machine.here().vms();
    refuse_unknown_vm(&filter, &vms)?;
    require_kvm()?;
    if !arguments.feed.is_empty() {
        rights::check_feed()?;
    }
    let recording = arguments.output.as_deref();
    let file = recording.map(|path| files::claim(path, "recording", Readers::Owner));
    let outcome = measure(
        arguments,
        filter,
        streaming,
        view,
        &machine,
        vms,
        file.transpose()?,
    );
    if let Some(path) = recording {
        files::remove_if_empty(path);
    }
    outcome
}

fn measure(
    arguments: &ExitsCommon,
    filter: ExitFilter,
    streaming: Streaming,
    mut view: ExitsView<'_>,
    machine: &Machine,
    vms: Vec<Vm>,
    recording: Option<File>,
) -> Result<Status> {
    rights::begin(arguments.user.as_ref())?;
    let interrupts = interrupt::catch().context("catching Ctrl-C")?;
    let vcpus: usize = vms.iter().map(|vm| vm.vcpus.len()).sum();
    let room = u32::try_from(vcpus * 2 + ROOM_TO_GROW).unwrap_or(u32::MAX);
    let mut tracer = ExitTracer::load(room, streaming).map_err(refusal)?;
    tracer
        .expect(vms.clone())
        .context("naming the vCPUs to BPF")?;
    tracer.attach().context("attaching the BPF programs")?;
    let facts = facts(arguments, filter, streaming, machine, &tracer);
    let writer = match recording {
        Some(file) => {
            files::begin_recording(&file).context("beginning the recording")?;
            Some(recorder::begin(file, &facts)?)
        }
        None => None,
    };
    let works: &[Work] = match arguments.feed.is_empty() {
        true => &[Work::CountExits],
        false => &[Work::CountExits, Work::ServeGuests],
    };
    rights::keep(works)?;
    let session = ExitsSession::new(&facts, writer, &mut view);
    let measurement = ExitsMeasurement::new(machine.here(), &facts, tracer, session, vms);
    let ExitsOutcome {
        run,
        measured,
        recorded,
        feeds,
    } = measurement.run(&interrupts, &arguments.feed, arguments.feed_detail)?;
    // Before the disk: it may never take the rest of the recording.
    let shown = view.finish(&facts, measured, &run, &feeds);
    let write_error = recorded.wait();
    shown?;
    if run.exits.vms.is_empty() {
        say::say(format_args!(
            "no VM of this host left its guest meanwhile; `vmnoise exits --list` shows the VMs there are"
        ));
    }
    match write_error {
        Some(error) => Err(error),
        None => Ok(Status::Ok),
    }
}

fn facts(
    arguments: &ExitsCommon,
    filter: ExitFilter,
    streaming: Streaming,
    machine: &Machine,
    tracer: &ExitTracer,
) -> RunFacts {
    let tsc_hz = tsc::calibrate_hz(conduct::TSC_CALIBRATION);
    let mut rungs = rungs::of_exits(tracer);
    if arguments.output.is_some() {
        rungs.push(rungs::of_clocks(tracer));
    }
    RunFacts {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        workload: Workload::Vcpus,
        started_at: jiff::Timestamp::now().to_string().into(),
        options: Options {
            cpus: Vec::new(),
            duration_ns: arguments.duration.unwrap_or(FOREVER_NS),
            threshold_ns: arguments.threshold.unwrap_or(0),
            period_ns: 1_000_000_000,
            priority: None,
            top: arguments.timeline.unwrap_or(0),
            stop_ns: None,
            stop_total_ns: None,
            runtime_ns: None,
            trace: streaming != Streaming::Off,
            observed: Vec::new(),
            exits: Some(filter),
            timer: None,
        },
        host: machine.facts.clone(),
        clock: conduct::clock_facts(None, &machine.facts, tsc_hz),
        witnesses: tracer.witnesses(),
        rungs,
        shares_cpu: false,
        rdtsc_cycles: tsc::rdtsc_cycles(),
    }
}

/// What has to be told one by one.
fn streaming(arguments: &ExitsCommon, view: &ExitsView<'_>) -> Result<Streaming> {
    if view.wants_trace() || arguments.tells_exits() {
        return Ok(Streaming::Exits {
            threshold_ns: arguments.threshold.unwrap_or(0),
        });
    }
    match arguments.threshold {
        None => Ok(Streaming::Off),
        Some(_) => Err(UsageError(
            "--threshold chooses exits that are told one by one: add --timeline or -o, or use \
             `vmnoise exits trace`"
                .into(),
        )
        .into()),
    }
}

fn filter(arguments: &ExitsCommon, kvm_module: Option<&str>) -> Result<ExitFilter> {
    reason_names::check(&arguments.reason, kvm_module).map_err(UsageError)?;
    let vcpus = arguments.vcpu.as_deref().map(cpu_list::parse).transpose();
    Ok(ExitFilter {
        vm: (arguments.vm != "all").then(|| arguments.vm.as_str().into()),
        vcpus: vcpus.map_err(|error| UsageError(format!("--vcpu: {error}")))?,
        reasons: arguments
            .reason
            .iter()
            .map(|name| name.as_str().into())
            .collect(),
    })
}

/// Without KVM there are no exits, and the BPF programs find no events to attach to.
fn require_kvm() -> Result<()> {
    if Path::new("/dev/kvm").exists() {
        return Ok(());
    }
    let why = "there is no KVM on this machine (no /dev/kvm): load kvm_intel or kvm_amd";
    Err(MachineCannot(why.into()).into())
}

/// A VM that is named must be there: a wrong name would measure nothing for long.
fn refuse_unknown_vm(filter: &ExitFilter, vms: &[Vm]) -> Result<()> {
    let Some(wanted) = &filter.vm else {
        return Ok(());
    };
    if vms.iter().any(|vm| is_called(vm, wanted)) {
        return Ok(());
    }
    Err(UsageError(format!(
        "no VM is called `{wanted}`; `vmnoise exits --list` shows those of this host"
    ))
    .into())
}

fn refusal(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Refused { .. } => MachineCannot(error.to_string()).into(),
        LoadError::Broken(_) => error.into(),
    }
}
