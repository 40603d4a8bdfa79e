//! Exports a guest's recording and its host's, joined as in `vmnoise explain`.

use anyhow::{Context, Result};
use vmnoise_console::status::ExitStatus;
use vmnoise_engine::ExplainedRun;
use vmnoise_explain::{JoinOptions, Joiner};

use super::super::join::{Both, JoinStep};
use super::input::ExportInput;
use super::joined_timeline::JoinedTimeline;
use super::periods::Periods;
use super::single;
use super::targets::Targets;
use crate::args::ExportArguments;
use crate::progress;

/// Exports the guest's recording with the host's share of each gap or wake-up, and then the tables
/// of the host alone. A timeline shows both machines.
pub fn export(
    arguments: &ExportArguments,
    guest: &ExportInput,
    host: &ExportInput,
) -> Result<ExitStatus> {
    for input in [guest, host] {
        progress::expect(&input.path, 2);
    }
    let mut first = Both::open(&guest.path, &host.path)?;
    let pairs = first
        .pair(arguments.vm.as_deref())
        .context("if the two do not belong together, export each by itself")?;
    let mut targets = Targets::tables(arguments, guest)?;
    targets.push_logs(arguments, guest)?;
    if let Some(path) = &arguments.perfetto {
        let (guest, host) = (&guest.facts, &host.facts);
        targets.push(JoinedTimeline::create(path, guest, host, pairs.clone())?);
    }
    let options = JoinOptions {
        above_ns: 0,
        top: 0,
    };
    let mut joiner = Joiner::new(&guest.facts, &host.facts, pairs, options).with_intervals();
    let mut periods = Periods::default();
    let mut ended_ns = None;
    let mut second = Both::open(&guest.path, &host.path)?;
    second.play(&mut joiner, &mut |step| match step {
        JoinStep::Guest(event) => {
            ended_ns = periods.see(event);
            targets.each(|target| target.see(event))
        }
        JoinStep::Host(event) => targets.each(|target| target.see_host(event)),
        JoinStep::Explained(joiner) => pass_on(joiner, ended_ns.take(), &mut targets),
    })?;
    pass_on(&mut joiner, Some(periods.rest()), &mut targets)?;
    let summary = Box::new(joiner.finish().summary);
    targets.end(&ExplainedRun::Cpus(summary))?;
    let reported = first.report();
    let of_host = Targets::tables(arguments, host)?;
    if !of_host.is_empty() {
        // `first.report` has reported how reading the host ended.
        single::export(host, of_host)?;
    }
    Ok(reported)
}

/// Passes on the gaps and wake-ups that have become certain.
fn pass_on(joiner: &mut Joiner, ended_ns: Option<(u64, u64)>, targets: &mut Targets) -> Result<()> {
    targets.certain = joiner.take_intervals();
    let lines = ended_ns.map(|span_ns| (joiner.take_period(), span_ns));
    targets.settle(&|id| joiner.source_name(id))?;
    match lines {
        Some((lines, span_ns)) => targets.each(|target| target.period(&lines, span_ns)),
        None => Ok(()),
    }
}
