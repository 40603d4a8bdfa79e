//! `vmnoise exits`: counts every exit of every VM on this host, in the kernel.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::ExitFilter;
use vmnoise_explain::{ExitsSummary, summarize_exits};
use vmnoise_tracer::host::{Host, Vm, cpu_list};
use vmnoise_tracer::{ExitTracer, LoadError, Streaming};

use crate::args::{ExitsArguments, ExitsCommon, ExitsMode, ExitsTopArguments, Format};
use crate::output::exits::{self as output, Layout};
use crate::output::vm_list;
use crate::status::{MachineCannot, Status, UsageError};
use crate::{interrupt, reason_names, rungs};

/// Between two looks at the clock and at Ctrl-C.
const TICK: Duration = Duration::from_millis(20);
/// Between two tables, and two looks for VMs that came.
const PERIOD: Duration = Duration::from_secs(1);
/// Room for vCPUs that come during the run.
const ROOM_TO_GROW: usize = 256;

/// Counts, prints, and says how it ended.
pub fn run(arguments: &ExitsArguments) -> Result<Status> {
    if arguments.list {
        vm_list::print(&Host::here().vms(), arguments.top.common.format)?;
        return Ok(Status::Ok);
    }
    match &arguments.mode {
        None => run_top(&arguments.top),
        Some(ExitsMode::Top(top)) => run_top(top),
        Some(ExitsMode::Hist(hist)) => count(&hist.common, Layout::Hist(hist), false),
    }
}

fn run_top(arguments: &ExitsTopArguments) -> Result<Status> {
    let redraw = !arguments.quiet
        && arguments.common.format == Format::Text
        && std::io::stdout().is_terminal();
    count(&arguments.common, Layout::Top, redraw)
}

fn count(arguments: &ExitsCommon, layout: Layout<'_>, redraw: bool) -> Result<Status> {
    let host = Host::here();
    let filter = filter(arguments, host.kvm_module().as_deref())?;
    let interrupts = interrupt::catch().context("catching Ctrl-C")?;
    let vms = host.vms();
    refuse_unknown_vm(&filter, &vms)?;
    require_kvm()?;
    let vcpus: usize = vms.iter().map(|vm| vm.vcpus.len()).sum();
    let room = u32::try_from(vcpus * 2 + ROOM_TO_GROW).unwrap_or(u32::MAX);
    let mut tracer = ExitTracer::load(room, Streaming::Off).map_err(refusal)?;
    tracer.expect(vms).context("naming the vCPUs to BPF")?;
    let facts = host.facts().context("reading the facts of this machine")?;
    let started_at = jiff::Timestamp::now().to_string();
    tracer.attach().context("attaching the BPF programs")?;

    let start = Instant::now();
    let end = arguments
        .duration
        .map(|ns| start + Duration::from_nanos(ns));
    let mut next_period = start + PERIOD;
    while !interrupts.asked_to_finish() && end.is_none_or(|end| Instant::now() < end) {
        std::thread::sleep(TICK);
        if Instant::now() >= next_period {
            next_period += PERIOD;
            tracer.learn(host.vms());
            if redraw {
                let summary = summary(&tracer, &filter)?;
                output::redraw(start.elapsed(), &summary);
            }
        }
    }
    tracer.detach();
    let measured = start.elapsed();
    tracer.learn(host.vms());
    let summary = summary(&tracer, &filter)?;
    let result = output::Exits {
        tool_version: env!("CARGO_PKG_VERSION"),
        facts: &facts,
        started_at: &started_at,
        measured_ns: u64::try_from(measured.as_nanos()).unwrap_or(u64::MAX),
        summary: &summary,
        lost_events: tracer.missed_events()?,
        lost_vcpus: tracer.lost_vcpus()?,
        rungs: vec![rungs::of_exits(tracer.kvm_run_only())],
    };
    output::print(&result, layout, arguments.format)?;
    tell_if_empty(&summary);
    Ok(Status::Ok)
}

fn filter(arguments: &ExitsCommon, kvm_module: Option<&str>) -> Result<ExitFilter> {
    reason_names::check(&arguments.reason, kvm_module).map_err(UsageError)?;
    let vcpus = arguments.vcpu.as_deref().map(cpu_list::parse).transpose();
    Ok(ExitFilter {
        vm: (arguments.vm != "all").then(|| arguments.vm.clone()),
        vcpus: vcpus.map_err(|error| UsageError(format!("--vcpu: {error}")))?,
        reasons: arguments.reason.clone(),
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
    if vms
        .iter()
        .any(|vm| vm.name == *wanted || wanted.parse() == Ok(vm.pid))
    {
        return Ok(());
    }
    Err(UsageError(format!(
        "no VM is called `{wanted}`; `vmnoise exits --list` shows those of this host"
    ))
    .into())
}

fn summary(tracer: &ExitTracer, filter: &ExitFilter) -> std::io::Result<ExitsSummary> {
    let counted = tracer.read()?;
    let vcpus = counted.iter().map(|(vcpu, totals)| (vcpu, totals));
    Ok(summarize_exits(vcpus, filter))
}

fn refusal(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Refused { .. } => MachineCannot(error.to_string()).into(),
        LoadError::Broken(_) => error.into(),
    }
}

fn tell_if_empty(summary: &ExitsSummary) {
    if summary.vms.is_empty() {
        eprintln!(
            "vmnoise: no VM of this host left its guest meanwhile; `vmnoise exits --list` shows the VMs there are"
        );
    }
}
