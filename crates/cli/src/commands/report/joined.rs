//! Joins a guest's recording with its host's for the page.

use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_explain::{ExitBranch, JoinOptions, JoinedRun, Joiner, VcpuPair};
use vmnoise_render::join::{JoinResult, caveats};
use vmnoise_report::{Bar, KernelSide, LONGEST, ReportedRun, RunOutcome};

use super::gatherer::{Gatherer, scenes};
use super::{Read, ended, sentences, with_left_out};
use crate::commands::join::{Both, JoinStep};

/// Joins a guest's recording with its host's.
///
/// # Errors
/// If they cannot be joined, with the reason.
pub fn run(guest_path: &Path, host_path: &Path) -> Result<Read> {
    let pairs = Both::open(guest_path, host_path)?.pair(None)?;
    let mut both = Both::open(guest_path, host_path)?;
    let options = JoinOptions {
        above_ns: both.guest.facts.options.threshold_ns,
        top: LONGEST,
    };
    let joiner = Joiner::new(&both.guest.facts, &both.host.facts, pairs, options);
    let mut joiner = joiner.with_intervals();
    let mut gatherer = Gatherer::default();
    both.play(&mut joiner, &mut |step| {
        match step {
            JoinStep::Guest(event) => gatherer.event(event),
            JoinStep::Host(_) => {}
            JoinStep::Explained(joiner) => {
                for interval in joiner.take_intervals() {
                    gatherer.interval(&interval);
                }
            }
        }
        Ok(())
    })?;
    let Both {
        mut guest,
        mut host,
    } = both;
    let mut notes = Vec::new();
    let whole = ended(guest.ended(), &mut notes) & ended(host.ended(), &mut notes);

    let name = |id| joiner.source_name(id).to_owned();
    let gathering = gatherer.gathering;
    let mut scenes = scenes(guest_path, guest.facts.workload, &gathering, name)?;
    let gathered = gathering.resolve(name);
    let run = Box::new(joiner.finish());
    let lanes = gathered.lanes();
    for ((cpu, start_mono_ns), exit) in exits(&run) {
        let lane = lanes.iter().position(|lane| *lane == cpu);
        let its =
            |(place, begin_ns): &(usize, u64)| Some(*place) == lane && *begin_ns == start_mono_ns;
        if let Some((_, bars)) = scenes.iter_mut().find(|(place, _)| its(place)) {
            bars.extend(below(exit));
        }
    }
    let joined = JoinResult {
        guest: &guest.facts,
        host: &host.facts,
        run: &run,
    };
    let named = |cpu: &u32| match run.pairs.iter().find(|pair| pair.cpu == *cpu) {
        Some(VcpuPair {
            vcpu: Some(vcpu),
            vm,
            ..
        }) => format!("CPU {cpu} (vCPU {vcpu} of {vm})"),
        _ => format!("CPU {cpu}"),
    };
    Ok(Read {
        run: ReportedRun {
            file: format!(
                "{} joined with {}",
                say::name_of(guest_path),
                say::name_of(host_path)
            ),
            lane_names: lanes.iter().map(named).collect(),
            limits: with_left_out(sentences(&caveats::render(&joined)), &gathered),
            outcome: RunOutcome::Joined(run),
            facts: guest.facts,
            gathered,
            scenes,
            left: Vec::new(),
            notes,
        },
        whole,
    })
}

/// Returns the exits in the longest gaps or wake-ups. Each exit comes with the CPU and the start of
/// its gap or wake-up.
fn exits(run: &JoinedRun) -> impl Iterator<Item = ((u32, u64), &ExitBranch)> {
    let latencies = run.latencies.iter().flat_map(|it| &it.trees);
    run.trees.iter().chain(latencies).flat_map(|tree| {
        let place = (tree.of.cpu, tree.of.start_mono_ns);
        let exits = tree.stretches.iter().flat_map(|it| &it.exits);
        exits.map(move |exit| (place, exit))
    })
}

/// Returns a bar for each piece of the host's work during an exit.
fn below(exit: &ExitBranch) -> impl Iterator<Item = Bar> + '_ {
    exit.pieces.iter().map(|piece| Bar {
        side: KernelSide::Host,
        start_mono_ns: piece.start_mono_ns,
        dur_ns: piece.dur_ns(),
        share: piece.share,
        name: piece.name.as_deref().unwrap_or_default().to_owned(),
    })
}
