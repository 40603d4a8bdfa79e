//! A guest's recording and its host's, joined as `vmnoise explain` joins them.

use anyhow::{Context, Result};
use vmnoise_explain::{JoinOptions, Joiner};

use super::super::join::{Recording, Step, pair, play};
use super::chosen;
use super::input::Input;
use super::joined_timeline::JoinedTimeline;
use super::periods::Periods;
use super::target::{Ended, Target};
use super::{single, worse};
use crate::args::ExportArguments;
use crate::progress;
use crate::status::Status;

/// Exports the guest with what its host had of each gap or wake-up, and the host by itself; a timeline
/// has both.
pub fn export(arguments: &ExportArguments, guest: &Input, host: &Input) -> Result<Status> {
    for input in [guest, host] {
        progress::expect(&input.path, 2);
    }
    let mut first_guest = Recording::open(&guest.path)?;
    let mut first_host = Recording::open(&host.path)?;
    let pairs = pair(arguments.vm.as_deref(), &mut first_guest, &mut first_host)
        .context("if the two do not belong together, export each by itself")?;
    let options = JoinOptions {
        above_ns: 0,
        top: 0,
    };
    let mut joiner = Joiner::new(&guest.facts, &host.facts, pairs, options).with_intervals();
    let mut targets = chosen::tables(arguments, guest)?;
    let mut timeline = match &arguments.perfetto {
        Some(path) => Some(JoinedTimeline::create(path, &guest.facts, &host.facts)?),
        None => None,
    };
    let mut periods = Periods::default();
    let mut ended_ns = None;
    play(
        &mut joiner,
        &mut Recording::open(&guest.path)?,
        &mut Recording::open(&host.path)?,
        &mut |step| match step {
            Step::Guest(event, joiner) => {
                ended_ns = periods.see(event);
                if let Some(timeline) = &mut timeline {
                    timeline.see_guest(event, joiner.pairs())?;
                }
                targets.iter_mut().try_for_each(|target| target.see(event))
            }
            Step::Host(event) => match &mut timeline {
                Some(timeline) => timeline.see_host(event),
                None => Ok(()),
            },
            Step::Explained(joiner) => {
                pass_on(joiner, ended_ns.take(), &mut targets, timeline.as_mut())
            }
        },
    )?;
    pass_on(
        &mut joiner,
        Some(periods.rest()),
        &mut targets,
        timeline.as_mut(),
    )?;
    let run = joiner.finish();
    for target in targets {
        target.end(&Ended::Gaps(&run.summary))?;
    }
    if let Some(timeline) = timeline {
        timeline.finish()?;
    }
    let told = worse(first_guest.tell(), first_host.tell());
    let of_host = chosen::tables(arguments, host)?;
    if !of_host.is_empty() {
        // How its reading ends was told above.
        let _ = single::export(host, of_host)?;
    }
    Ok(told)
}

/// Hands on what has become certain.
fn pass_on(
    joiner: &mut Joiner,
    ended_ns: Option<(u64, u64)>,
    targets: &mut [Box<dyn Target>],
    timeline: Option<&mut JoinedTimeline>,
) -> Result<()> {
    let intervals = joiner.take_intervals();
    let lines = ended_ns.map(|span_ns| (joiner.take_period(), span_ns));
    let names = |id| joiner.source_name(id);
    for target in targets {
        for interval in &intervals {
            target.interval(interval, &names)?;
        }
        if let Some((lines, span_ns)) = &lines {
            target.period(lines, *span_ns)?;
        }
    }
    if let Some(timeline) = timeline {
        for interval in &intervals {
            timeline.interval(interval, joiner.pairs(), &names)?;
        }
        if let Some((lines, span_ns)) = &lines {
            timeline.period(lines, *span_ns, joiner.pairs())?;
        }
    }
    Ok(())
}
