//! `vmnoise exits`: counts every exit of every VM on this host in the kernel, and lists single
//! exits on request.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_console::status::{ExitStatus, MachineCannot, UsageError};
use vmnoise_console::{rights, say};
use vmnoise_engine::vcpus::{ExitProbes, is_called, probe_status};
use vmnoise_engine::{FOREVER_NS, LocalMachine, machine, run_measurement};
use vmnoise_events::{ExitFilter, MeasuringCommand, RunFacts, RunOptions};
use vmnoise_host::{VmProcess, cpu_list};
use vmnoise_render::exits::{ExitsView, Layout};
use vmnoise_render::format::Format;
use vmnoise_render::{frame, vm_list};
use vmnoise_rights::AttachedWork;
use vmnoise_tracer::{ExitTracer, LoadError, Streaming, VmSearch};
use vmnoise_views::{FrameStart, Meanwhile, ResultView};

use crate::args::{
    ExitsArguments, ExitsCommon, ExitsMode, ExitsTopArguments, reason_names, request,
};

/// Room for vCPUs that start during the run.
const ROOM_TO_GROW: usize = 256;

/// Counts exits, prints the result, and returns the status.
pub fn run(arguments: &ExitsArguments) -> Result<ExitStatus> {
    if arguments.list {
        // Tenants choose the names of VMs, so rights are given up before the names are read.
        vmnoise_rights::begin(None)?;
        let search = VmSearch::here();
        rights::keep(&[AttachedWork::FindVms])?;
        vm_list::print(&search.vms(), arguments.top.format)?;
        return Ok(ExitStatus::Ok);
    }
    match &arguments.mode {
        None => run_top(&arguments.top),
        Some(ExitsMode::Top(top)) => run_top(top),
        Some(ExitsMode::Hist(hist)) => {
            let view = ExitsView::new(Layout::Hist(hist.histogram), hist.format);
            count(&hist.common, view, None)
        }
        Some(ExitsMode::Trace(trace)) => {
            let view = ExitsView::new(Layout::Trace, Format::Text);
            count(&trace.common, view, None)
        }
    }
}

fn run_top(arguments: &ExitsTopArguments) -> Result<ExitStatus> {
    let draws = arguments.format == Format::Text && std::io::stdout().is_terminal();
    let frame = frame::of::<frame::VcpusView>(draws && !arguments.quiet);
    let meanwhile = match draws {
        _ if arguments.quiet || frame.is_some() => Meanwhile::Nothing,
        true => Meanwhile::Own,
        false => Meanwhile::Time,
    };
    let view = ExitsView::new(Layout::Top(meanwhile), arguments.format);
    count(&arguments.common, view, frame)
}

fn count(
    arguments: &ExitsCommon,
    mut view: ExitsView,
    frame: Option<FrameStart>,
) -> Result<ExitStatus> {
    let machine = LocalMachine::read()?;
    let filter = filter(arguments, machine.facts.kvm_module.as_deref())?;
    let streaming = streaming(arguments, &view)?;
    let search = VmSearch::here();
    let vms = search.vms();
    refuse_unknown_vm(&filter, &vms)?;
    require_kvm()?;
    if !arguments.feed.is_empty() {
        vmnoise_rights::check_feed()?;
    }
    let run = request(arguments.output.clone(), arguments.user.clone());
    let status = run_measurement(&run, &mut view, frame, |_| {
        set_up(arguments, filter, streaming, &machine, search, vms)
    });
    if view.is_empty() {
        say::say(format_args!(
            "no vCPU of this host left its guest during the run; `vmnoise exits --list` shows the VMs"
        ));
    }
    status
}

/// Attaches the BPF programs, and returns the facts of the run and its source.
fn set_up(
    arguments: &ExitsCommon,
    filter: ExitFilter,
    streaming: Streaming,
    machine: &LocalMachine,
    search: VmSearch,
    vms: Vec<VmProcess>,
) -> Result<(RunFacts, ExitProbes)> {
    let vcpus: usize = vms.iter().map(|vm| vm.vcpus.len()).sum();
    let room = u32::try_from(vcpus * 2 + ROOM_TO_GROW).unwrap_or(u32::MAX);
    let mut tracer = ExitTracer::load(room, streaming).map_err(refusal)?;
    tracer
        .expect(vms.clone())
        .context("naming the vCPUs to BPF")?;
    tracer.attach().context("attaching the BPF programs")?;
    let mut probe_statuses = tracer.exit_statuses();
    probe_statuses.push(search.probe_status());
    if arguments.output.is_some() {
        probe_statuses.push(probe_status::of_clocks(&tracer, &search));
    }
    let options = RunOptions {
        duration_ns: arguments.duration.unwrap_or(FOREVER_NS),
        threshold_ns: arguments.threshold.unwrap_or(0),
        period_ns: 1_000_000_000,
        top: arguments.timeline.unwrap_or(0),
        trace: streaming != Streaming::Off,
        exits: Some(filter),
        ..RunOptions::default()
    };
    let (tsc_hz, witnesses) = (machine::tsc_hz(), tracer.witnesses());
    let facts = machine.facts_of_run(
        MeasuringCommand::Exits,
        options,
        tsc_hz,
        witnesses,
        probe_statuses,
    );
    let (feeds, detail) = (&arguments.feed, arguments.feed_detail);
    let source = ExitProbes::new(machine.here(), &facts, tracer, search, vms, feeds, detail)?;
    Ok((facts, source))
}

/// Returns the exits that the kernel must report one by one.
fn streaming(arguments: &ExitsCommon, view: &ExitsView) -> Result<Streaming> {
    if view.plan().keeps_trace || arguments.reports_exits() {
        return Ok(Streaming::Exits {
            threshold_ns: arguments.threshold.unwrap_or(0),
        });
    }
    match arguments.threshold {
        None => Ok(Streaming::Off),
        Some(_) => Err(UsageError(
            "--threshold selects exits that are listed one by one: add --timeline or -o, or use \
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

/// Refuses a machine without KVM, which has neither exits nor the events for the BPF programs.
fn require_kvm() -> Result<()> {
    if Path::new("/dev/kvm").exists() {
        return Ok(());
    }
    let why = "there is no KVM on this machine (no /dev/kvm): load kvm_intel or kvm_amd";
    Err(MachineCannot(why.into()).into())
}

/// Refuses the name of an unknown VM, because the run would measure nothing.
fn refuse_unknown_vm(filter: &ExitFilter, vms: &[VmProcess]) -> Result<()> {
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
