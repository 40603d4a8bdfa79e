//! The longest gaps as trees that name both sides and add up.

use vmnoise_events::{Share, Workload};
use vmnoise_explain::{ExitBranch, GapTree, HostPart, NamedPart};

use super::{Joined, called};
use crate::output::exits::cpus;
use crate::output::text;
use crate::units::{seconds, us};

/// Of many more branches on one level the shortest are put together.
const BRANCHES: usize = 12;

/// A line and what it divides into.
struct Branch {
    ns: u64,
    words: String,
    parts: Vec<Branch>,
}

/// All of them, longest first.
pub fn render(joined: &Joined<'_>) -> String {
    let run = joined.run;
    // A microVM has no kernel: what was witnessed beside its gaps is its host's.
    let side = match joined.guest.workload {
        Workload::Microvm => "",
        _ => ", guest",
    };
    let mut out = match run.trees.len() {
        0 => return String::new(),
        1 => "\nThe longest gap, in us\n".to_owned(),
        count => format!("\nThe {count} longest gaps, in us\n"),
    };
    for tree in &run.trees {
        out += &format!(
            "{:>12}  {} at {}{}\n",
            us(tree.gap.dur_ns),
            called(tree.gap.cpu, &run.pairs),
            seconds(tree.gap.at_ns),
            flaws(tree),
        );
        draw(&branches(tree, side), "", &mut out);
    }
    out
}

/// What must be known before a tree is believed.
fn flaws(tree: &GapTree) -> String {
    let mut flaws = String::new();
    if !tree.witnessed {
        flaws += "; the host did not witness it";
    }
    match tree.gap.lost_activities {
        None | Some(0) => {}
        Some(lost) => flaws += &format!("; {lost} of the guest's activities lost"),
    }
    flaws
}

fn branches(tree: &GapTree, side: &str) -> Vec<Branch> {
    let leaf = |ns, share: Share, who: &str| Branch {
        ns,
        words: format!("{share:<12} {who}"),
        parts: Vec::new(),
    };
    let own = |part: &NamedPart| {
        let who = format!("{}{side}", text::who(part));
        leaf(part.ns, part.share, &who)
    };
    let (shown, others) = tree.guest.split_at(lines_for(tree.guest.len()));
    let mut all: Vec<Branch> = shown.iter().map(own).collect();
    all.extend(together(others.iter().map(|part| part.ns), "smaller parts"));
    all.extend(exits(&tree.exits));
    if tree.steal_ns > 0 {
        all.push(leaf(tree.steal_ns, Share::Steal, "(steal clock alone)"));
    }
    if tree.residual_ns > 0 {
        all.push(leaf(tree.residual_ns, tree.residual, "(residual)"));
    }
    all
}

/// In the order of time; the shortest of many as one.
fn exits(exits: &[ExitBranch]) -> Vec<Branch> {
    let mut lengths: Vec<u64> = exits.iter().map(|exit| exit.dur_ns).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let too_short = lengths.get(lines_for(exits.len()));
    let least_ns = too_short.map_or(0, |too_short| too_short + 1);
    let (shown, others): (Vec<&ExitBranch>, Vec<&ExitBranch>) =
        exits.iter().partition(|exit| exit.dur_ns >= least_ns);
    let mut branches: Vec<Branch> = shown.into_iter().map(exit).collect();
    branches.extend(together(
        others.iter().map(|exit| exit.dur_ns),
        "shorter exits",
    ));
    branches
}

fn exit(exit: &ExitBranch) -> Branch {
    let weight = if exit.heavy { "HW" } else { "LW" };
    let (shown, others) = exit.parts.split_at(lines_for(exit.parts.len()));
    let part = |part: &HostPart| Branch {
        ns: part.ns,
        words: format!("{:<12} {}", part.share, who(part)),
        parts: Vec::new(),
    };
    let mut parts: Vec<Branch> = shown.iter().map(part).collect();
    parts.extend(together(others.iter().map(|part| part.ns), "smaller parts"));
    Branch {
        ns: exit.dur_ns,
        words: format!(
            "exit {}, {weight}, host {}, {} after the gap's begin",
            exit.reason,
            cpus(exit.exit_cpu, exit.entry_cpu),
            us(exit.after_ns),
        ),
        parts,
    }
}

/// How many of so many branches have lines of their own: a line for one alone saves none.
fn lines_for(branches: usize) -> usize {
    if branches > BRANCHES + 1 {
        BRANCHES
    } else {
        branches
    }
}

/// What did not find a line of its own.
fn together(lengths: impl ExactSizeIterator<Item = u64>, what: &str) -> Option<Branch> {
    (lengths.len() > 0).then(|| Branch {
        words: format!("in {} {what}", lengths.len()),
        ns: lengths.sum(),
        parts: Vec::new(),
    })
}

fn who(part: &HostPart) -> String {
    let times = match part.count {
        0 | 1 => String::new(),
        count => format!(" x{count}"),
    };
    let cpu = part.cpu.map(|cpu| format!("host CPU {cpu}"));
    if matches!(part.share, Share::Kvm | Share::Vmm) {
        return String::new();
    }
    match (&part.name, cpu) {
        (Some(name), Some(cpu)) => format!("{name}{times}, {cpu}"),
        (Some(name), None) => format!("{name}{times}"),
        (None, _) if part.share.is_residual() => "(residual)".into(),
        (None, cpu) => cpu.unwrap_or_default(),
    }
}

fn draw(branches: &[Branch], indent: &str, out: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        let last = index + 1 == branches.len();
        let fork = if last { "`-" } else { "|-" };
        let line = format!("   {indent}{fork} {:>10}  {}", us(branch.ns), branch.words);
        *out += line.trim_end();
        *out += "\n";
        let stem = if last { "    " } else { "|   " };
        draw(&branch.parts, &format!("{indent}{stem}"), out);
    }
}
