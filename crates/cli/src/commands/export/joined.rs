//! A guest's recording and its host's, joined as `vmnoise explain` joins them.

use anyhow::{Context, Result};
use vmnoise_explain::{JoinOptions, Joiner};

use super::super::join::{Recording, Step, pair, play};
use super::input::Input;
use super::periods::Periods;
use super::target::{self, Ended, Target};
use super::{single, worse};
use crate::args::ExportArguments;
use crate::status::Status;

/// Exports the guest with what its host had of each gap, and the host by itself.
pub fn export(arguments: &ExportArguments, guest: &Input, host: &Input) -> Result<Status> {
    let mut first_guest = Recording::open(&guest.path)?;
    let mut first_host = Recording::open(&host.path)?;
    let pairs = pair(arguments.vm.as_deref(), &mut first_guest, &mut first_host)
        .context("if the two do not belong together, export each by itself")?;
    let options = JoinOptions {
        above_ns: 0,
        top: 0,
    };
    let mut joiner = Joiner::new(&guest.facts, &host.facts, pairs, options).with_gaps();
    let mut targets = target::of(arguments, guest)?;
    let mut periods = Periods::default();
    let mut ended_ns = None;
    play(
        &mut joiner,
        &mut Recording::open(&guest.path)?,
        &mut Recording::open(&host.path)?,
        &mut |step| match step {
            Step::Guest(event) => {
                ended_ns = periods.see(event);
                targets.iter_mut().try_for_each(|target| target.see(event))
            }
            Step::Explained(joiner) => pass_on(joiner, ended_ns.take(), &mut targets),
        },
    )?;
    pass_on(&mut joiner, Some(periods.rest()), &mut targets)?;
    let run = joiner.finish();
    for target in targets {
        target.end(&Ended::Gaps(&run.summary))?;
    }
    let told = worse(first_guest.tell(), first_host.tell());
    // Its fault was told above.
    let _ = single::export(host, target::of(arguments, host)?)?;
    Ok(told)
}

/// Hands on what has become certain.
fn pass_on(
    joiner: &mut Joiner,
    ended_ns: Option<(u64, u64)>,
    targets: &mut [Box<dyn Target>],
) -> Result<()> {
    let gaps = joiner.take_gaps();
    let names = |id| joiner.source_name(id);
    for target in &mut *targets {
        for gap in &gaps {
            target.gap(gap, &names)?;
        }
    }
    if let Some(span_ns) = ended_ns {
        let lines = joiner.take_period();
        for target in targets {
            target.period(&lines, span_ns)?;
        }
    }
    Ok(())
}
