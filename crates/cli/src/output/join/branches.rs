//! Branches of a tree that names both sides: each level adds up to the line above.

use vmnoise_events::Share;
use vmnoise_explain::{ExitBranch, NamedPart};

use crate::output::exits::cpus;
use crate::output::text;
use crate::units::us;

/// Of many more branches on one level the shortest are put together.
const BRANCHES: usize = 12;

/// A line and what it divides into.
pub struct Branch {
    pub ns: u64,
    pub words: String,
    pub parts: Vec<Branch>,
}

/// What a gap, or a phase of a latency, is made of.
#[derive(Debug, Clone, Copy)]
pub struct Cause<'a> {
    pub guest: &'a [NamedPart],
    /// Behind the names of these.
    pub side: &'a str,
    pub exits: &'a [ExitBranch],
    /// After what the exits began.
    pub since: &'a str,
    pub steal_ns: u64,
    pub residual_ns: u64,
    pub residual: Share,
}

impl Cause<'_> {
    /// The guest's own, the exits, steal and what is left.
    pub fn branches(&self) -> Vec<Branch> {
        let leaf = |ns, share: Share, who: &str| Branch {
            ns,
            words: format!("{share:<12} {who}"),
            parts: Vec::new(),
        };
        let own = |part: &NamedPart| {
            let who = format!("{}{}", text::who(part), self.side);
            leaf(part.ns, part.share, &who)
        };
        let (shown, others) = self.guest.split_at(lines_for(self.guest.len()));
        let mut all: Vec<Branch> = shown.iter().map(own).collect();
        all.extend(together(others.iter().map(|part| part.ns), "smaller parts"));
        all.extend(exits(self.exits, self.since));
        if self.steal_ns > 0 {
            all.push(leaf(self.steal_ns, Share::Steal, "(steal clock alone)"));
        }
        if self.residual_ns > 0 {
            all.push(leaf(self.residual_ns, self.residual, "(residual)"));
        }
        all
    }
}

/// In the order of time; the shortest of many as one.
fn exits(exits: &[ExitBranch], since: &str) -> Vec<Branch> {
    let mut lengths: Vec<u64> = exits.iter().map(|exit| exit.dur_ns).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let too_short = lengths.get(lines_for(exits.len()));
    let least_ns = too_short.map_or(0, |too_short| too_short + 1);
    let (shown, others): (Vec<&ExitBranch>, Vec<&ExitBranch>) =
        exits.iter().partition(|exit| exit.dur_ns >= least_ns);
    let shown = shown.into_iter();
    let mut branches: Vec<Branch> = shown.map(|one| exit(one, since)).collect();
    branches.extend(together(
        others.iter().map(|exit| exit.dur_ns),
        "shorter exits",
    ));
    branches
}

fn exit(exit: &ExitBranch, since: &str) -> Branch {
    let weight = if exit.heavy { "HW" } else { "LW" };
    let (shown, others) = exit.parts.split_at(lines_for(exit.parts.len()));
    let part = |part: &NamedPart| Branch {
        ns: part.ns,
        words: format!("{:<12} {}", part.share, who(part)),
        parts: Vec::new(),
    };
    let mut parts: Vec<Branch> = shown.iter().map(part).collect();
    parts.extend(together(others.iter().map(|part| part.ns), "smaller parts"));
    Branch {
        ns: exit.dur_ns,
        words: format!(
            "exit {}, {weight}, host {}, {} after {since}",
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

fn who(part: &NamedPart) -> String {
    let times = match part.count {
        0 | 1 => String::new(),
        count => format!(" x{count}"),
    };
    let cpu = part.host_cpu.map(|cpu| format!("host CPU {cpu}"));
    if matches!(part.share, Share::Kvm | Share::Vmm) {
        return String::new();
    }
    match (&part.source, cpu) {
        (Some(name), Some(cpu)) => format!("{name}{times}, {cpu}"),
        (Some(name), None) => format!("{name}{times}"),
        (None, _) if part.share.is_residual() => "(residual)".into(),
        (None, cpu) => cpu.unwrap_or_default(),
    }
}

/// One line for each, what it divides into below it.
pub fn draw(branches: &[Branch], indent: &str, out: &mut String) {
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
