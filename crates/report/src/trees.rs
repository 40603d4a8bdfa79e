//! The longest moments as trees: phase by phase, side by side, exit by exit; each level adds up
//! to the line above.

use std::cmp::Reverse;
use std::collections::HashMap;

use vmnoise_events::{Share, Workload};
use vmnoise_explain::{ExitBranch, GapTree, LatencyTree, NamedPart, PhaseBranch, WorstWakeup};

use crate::figures::{duration, times};
use crate::phases;
use crate::run::{Outcome, Run};
use crate::shares::label;

/// Behind what the guest's own kernel did.
const GUEST: &str = ", guest";

/// A moment, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) lines: Vec<Line>,
    /// What has to be known before it is believed; may be empty.
    pub(crate) flaw: String,
}

/// One line of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// 0 for the branches of the moment itself.
    pub(crate) depth: u8,
    /// `None` of a phase or an exit.
    pub(crate) share: Option<Share>,
    pub(crate) words: String,
    pub(crate) ns: u64,
}

/// How much is drawn one by one; the rest is one line each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Exits of a phase or gap.
    pub(crate) exits: usize,
    /// Parts of an exit, or of the guest.
    pub(crate) parts: usize,
}

/// Those of a run, by the number of their lane and their begin; none where parts have no parts.
pub(crate) fn trees(run: &Run, most: Most) -> HashMap<(u32, u64), Tree> {
    let gaps = match &run.outcome {
        Outcome::Joined(joined) => joined.trees.as_slice(),
        _ => &[],
    };
    // A microVM has no kernel: what was witnessed beside its gaps is its host's.
    let side = match run.facts.workload {
        Workload::Microvm => "",
        _ => GUEST,
    };
    let gaps = gaps.iter().map(|tree| {
        let mut flaw = unwitnessed(tree.witnessed);
        if let Some(lost @ 1..) = tree.gap.lost_activities {
            flaw += &format!("{lost} of the guest’s activities were lost. ");
        }
        let lines = of_gap(tree, side, most);
        ((tree.gap.cpu, tree.gap.start_mono_ns), Tree { lines, flaw })
    });
    let joined = run.latencies().map(|it| it.trees.as_slice());
    let wakeups = match joined {
        Some(_) => &[],
        None => run.wakeups().map_or(&[][..], |it| &it.worst),
    };
    let alone = wakeups.iter().map(|late| {
        let lines = of_wakeup(late);
        let flaw = String::new();
        (at(late), Tree { lines, flaw })
    });
    let joined = joined.into_iter().flatten().map(|tree| {
        let lines = of_latency(tree, most);
        let flaw = unwitnessed(tree.witnessed);
        (at(&tree.wakeup), Tree { lines, flaw })
    });
    gaps.chain(alone).chain(joined).collect()
}

fn unwitnessed(is_witnessed: bool) -> String {
    match is_witnessed {
        true => String::new(),
        false => "The host did not witness it. ".into(),
    }
}

fn at(wakeup: &WorstWakeup) -> (u32, u64) {
    (wakeup.cpu, wakeup.expiry_mono_ns)
}

/// Phases of a task whose machine was measured by itself.
fn of_wakeup(late: &WorstWakeup) -> Vec<Line> {
    let mut lines = Vec::new();
    for parts in late.parts.chunk_by(|a, b| a.phase == b.phase) {
        let ns = parts.iter().map(|part| part.ns).sum();
        lines.push(branch(0, phases::label(parts[0].phase).to_owned(), ns));
        lines.extend(parts.iter().map(|part: &NamedPart| Line {
            depth: 1,
            share: Some(part.share),
            words: who(part.share, part.source.as_deref()),
            ns: part.ns,
        }));
    }
    lines
}

fn of_latency(tree: &LatencyTree, most: Most) -> Vec<Line> {
    let mut lines = Vec::new();
    for phase in &tree.phases {
        let PhaseBranch {
            guest,
            exits,
            steal_ns,
            residual_ns,
            ..
        } = phase;
        let words = phases::label(phase.phase).to_owned();
        lines.push(branch(0, words, phase.dur_ns));
        let of_guest = (guest.as_slice(), GUEST);
        both_sides(1, of_guest, (exits, "the expiry"), most, &mut lines);
        rest(1, *steal_ns, (tree.residual, *residual_ns), &mut lines);
    }
    lines
}

fn of_gap(tree: &GapTree, side: &str, most: Most) -> Vec<Line> {
    let mut lines = Vec::new();
    let of_guest = (tree.guest.as_slice(), side);
    let exits = (tree.exits.as_slice(), "the gap’s begin");
    both_sides(0, of_guest, exits, most, &mut lines);
    rest(
        0,
        tree.steal_ns,
        (tree.residual, tree.residual_ns),
        &mut lines,
    );
    lines
}

/// What the guest's kernel had, and then the longest exits in the order of time.
fn both_sides(
    depth: u8,
    (guest, side): (&[NamedPart], &str),
    (exits, since): (&[ExitBranch], &str),
    most: Most,
    lines: &mut Vec<Line>,
) {
    let of_guest = guest.iter().map(|part| Line {
        depth,
        share: Some(part.share),
        words: who(part.share, part.source.as_deref()) + side,
        ns: part.ns,
    });
    few(depth, of_guest.collect(), most.parts, lines);
    let mut longest: Vec<&ExitBranch> = exits.iter().filter(|exit| exit.dur_ns > 0).collect();
    longest.sort_by_key(|exit| Reverse(exit.dur_ns));
    let others = longest.split_off(most.exits.min(longest.len()));
    longest.sort_by_key(|exit| exit.after_ns);
    for exit in longest {
        let to = if exit.heavy { " to the VMM" } else { "" };
        let words = format!(
            "exit {}{to}, host CPU {}, {} after {since}",
            exit.reason,
            exit.exit_cpu,
            duration(exit.after_ns)
        );
        lines.push(branch(depth, words, exit.dur_ns));
        let parts = exit.parts.iter().map(|part| of_host(depth + 1, part));
        few(depth + 1, parts.collect(), most.parts, lines);
    }
    if !others.is_empty() {
        let words = times(others.len() as u64, "shorter exit", "shorter exits");
        let ns = others.iter().map(|exit| exit.dur_ns).sum();
        lines.push(branch(depth, words, ns));
    }
}

/// What neither had.
fn rest(depth: u8, steal_ns: u64, residual: (Share, u64), lines: &mut Vec<Line>) {
    let rest = [
        (Share::Steal, steal_ns, " by the steal clock alone"),
        (residual.0, residual.1, ""),
    ];
    let rest = rest.into_iter().filter(|(_, ns, _)| *ns > 0);
    lines.extend(rest.map(|(share, ns, more)| Line {
        depth,
        share: Some(share),
        words: format!("{}{more}", label(share)),
        ns,
    }));
}

fn of_host(depth: u8, part: &NamedPart) -> Line {
    let place = part
        .host_cpu
        .map_or_else(String::new, |cpu| format!(", host CPU {cpu}"));
    Line {
        depth,
        share: Some(part.share),
        words: who(part.share, part.source.as_deref()) + &place,
        ns: part.ns,
    }
}

/// As many lines as may be, which are sorted, and the rest as one.
fn few(depth: u8, mut all: Vec<Line>, most: usize, lines: &mut Vec<Line>) {
    let others = all.split_off(most.min(all.len()));
    lines.append(&mut all);
    if !others.is_empty() {
        let words = times(others.len() as u64, "smaller part", "smaller parts");
        let ns = others.iter().map(|line| line.ns).sum();
        lines.push(branch(depth, words, ns));
    }
}

fn branch(depth: u8, words: String, ns: u64) -> Line {
    Line {
        depth,
        share: None,
        words,
        ns,
    }
}

fn who(share: Share, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{} {name}", label(share)),
        None => label(share).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(after_ns: u64, parts: &[(Share, &str, u64)]) -> ExitBranch {
        let parts = parts.iter().map(|(share, name, ns)| NamedPart {
            phase: None,
            share: *share,
            source: Some((*name).into()),
            host_cpu: (*share == Share::Preempted).then_some(3),
            ns: *ns,
            count: 1,
        });
        let parts: Vec<NamedPart> = parts.collect();
        ExitBranch {
            reason: "hlt".into(),
            heavy: false,
            exit_cpu: 3,
            entry_cpu: 3,
            after_ns,
            dur_ns: parts.iter().map(|part| part.ns).sum(),
            parts,
            pieces: Vec::new(),
        }
    }

    #[test]
    fn every_level_adds_up_however_little_is_drawn() {
        let exits = [
            exit(
                10,
                &[(Share::Preempted, "rcuc/3:30", 70), (Share::Kvm, "hlt", 20)],
            ),
            exit(200, &[(Share::Kvm, "hlt", 5)]),
            exit(300, &[(Share::Kvm, "hlt", 400)]),
        ];
        for most in [
            Most { exits: 2, parts: 1 },
            Most { exits: 0, parts: 0 },
            Most { exits: 9, parts: 9 },
        ] {
            let mut lines = Vec::new();
            both_sides(
                1,
                (&[], ", guest"),
                (&exits, "the expiry"),
                most,
                &mut lines,
            );
            rest(1, 7, (Share::Unexplained, 3), &mut lines);
            let sum = |depth| -> u64 {
                let of_depth = lines.iter().filter(|line| line.depth == depth);
                of_depth.map(|line| line.ns).sum()
            };
            assert_eq!(sum(1), 90 + 5 + 400 + 7 + 3, "{lines:?}");
            let drawn = lines.iter().filter(|line| line.words.starts_with("exit "));
            assert_eq!(sum(2), drawn.map(|line| line.ns).sum::<u64>(), "{lines:?}");
        }
    }

    #[test]
    fn who_it_was_is_told_with_its_place() {
        let mut lines = Vec::new();
        let exits = [exit(500, &[(Share::Preempted, "rcuc/3:30", 70)])];
        let most = Most { exits: 1, parts: 1 };
        both_sides(
            1,
            (&[], ", guest"),
            (&exits, "the expiry"),
            most,
            &mut lines,
        );
        let words: Vec<&str> = lines.iter().map(|line| &*line.words).collect();
        assert_eq!(
            words,
            [
                "exit hlt, host CPU 3, 500\u{a0}ns after the expiry",
                "preempted by a host task rcuc/3:30, host CPU 3"
            ]
        );
    }
}
