//! A guest's recording and its host's, joined for the page.

use std::path::Path;

use anyhow::Result;
use vmnoise_explain::{GapTree, JoinOptions, Joiner, Pair};
use vmnoise_report::{Bar, Gathering, LONGEST, Outcome, Run, Scenes, Side};

use super::gaps::moment;
use super::{Read, ended, scenes, sentences};
use crate::commands::join::{Recording, Step, pair, play};
use crate::output::join::{Joined, limits};

/// Joins them.
///
/// # Errors
/// Why they cannot be joined.
pub fn run(guest_path: &Path, host_path: &Path) -> Result<Read> {
    let (mut guest, mut host) = (Recording::open(guest_path)?, Recording::open(host_path)?);
    let pairs = pair(None, &mut guest, &mut host)?;
    let (mut guest, mut host) = (Recording::open(guest_path)?, Recording::open(host_path)?);
    let options = JoinOptions {
        above_ns: guest.facts.options.threshold_ns,
        top: LONGEST,
    };
    let mut joiner = Joiner::new(&guest.facts, &host.facts, pairs, options).with_gaps();
    let mut gathering = Gathering::default();
    play(&mut joiner, &mut guest, &mut host, &mut |step| {
        if let Step::Explained(joiner) = step {
            for budget in joiner.take_gaps() {
                gathering.see(&moment(&budget));
            }
        }
        Ok(())
    })?;
    let mut notes = Vec::new();
    let whole = ended(guest.ended(), &mut notes) & ended(host.ended(), &mut notes);

    let longest = gathering.longest();
    let lane = |place| gathering.lane_number(place);
    let mut seen = Scenes::new(guest.facts.workload, &longest, |spike| lane(spike.lane));
    scenes(guest_path, &mut seen)?;
    let seen = seen.finish(|id| joiner.source_name(id).to_owned());
    let places = longest
        .iter()
        .map(|spike| (spike.lane, spike.start_mono_ns));
    let mut scenes: Vec<((usize, u64), Vec<Bar>)> = places.zip(seen).collect();
    let gathered = gathering.resolve(|id| joiner.source_name(id).to_owned());
    let run = Box::new(joiner.finish());
    let lanes = gathered.lanes();
    for tree in &run.trees {
        let lane = lanes.iter().position(|cpu| *cpu == tree.gap.cpu);
        let its = |(place, start_ns): &(usize, u64)| {
            Some(*place) == lane && *start_ns == tree.gap.start_mono_ns
        };
        if let Some((_, bars)) = scenes.iter_mut().find(|(place, _)| its(place)) {
            bars.extend(below(tree));
        }
    }
    let joined = Joined {
        guest: &guest.facts,
        host: &host.facts,
        run: &run,
    };
    let named = |cpu: &u32| match run.pairs.iter().find(|pair| pair.cpu == *cpu) {
        Some(Pair {
            vcpu: Some(vcpu),
            vm,
            ..
        }) => format!("CPU {cpu} (vCPU {vcpu} of {vm})"),
        _ => format!("CPU {cpu}"),
    };
    Ok(Read {
        run: Run {
            file: format!(
                "{} joined with {}",
                guest_path.display(),
                host_path.display()
            ),
            lane_names: lanes.iter().map(named).collect(),
            limits: sentences(&limits::render(&joined)),
            outcome: Outcome::Joined(run),
            facts: guest.facts,
            gathered,
            scenes,
            notes,
        },
        whole,
    })
}

/// What the host did in a gap.
fn below(tree: &GapTree) -> impl Iterator<Item = Bar> + '_ {
    let pieces = tree.exits.iter().flat_map(|exit| &exit.pieces);
    pieces.map(|piece| Bar {
        side: Side::Host,
        start_mono_ns: tree.gap.start_mono_ns + piece.after_ns,
        dur_ns: piece.dur_ns,
        share: piece.share,
        name: piece.name.clone().unwrap_or_default(),
    })
}
