//! A gap or a wake-up as a tree that names both sides.

use std::cmp::Reverse;

use serde::{Serialize, Serializer};
use vmnoise_events::Share;

use super::branch::ExitBranch;
use crate::interval::Detail;
use crate::named::{NamedInterval, NamedPart};
use crate::phase::Phase;

/// One gap or wake-up, and both sides of what happened in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The gap or wake-up; its parts add up to its length.
    pub of: NamedInterval,
    /// In the order of time; they add up to it too. A gap is one stretch.
    pub stretches: Vec<Stretch>,
    /// Under which share the residuals are booked.
    pub residual: Share,
    /// Whether the host recorded all of it, on a known clock.
    pub witnessed: bool,
}

/// A gap, or one phase of a wake-up: guest's parts, exits, steal and residual add up to its length.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stretch {
    /// `None` of a gap, and where a step was not seen that would tell.
    pub phase: Option<Phase>,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// What the guest's own kernel had, net of what its host took meanwhile, largest first.
    pub guest: Vec<NamedPart>,
    /// The exits in it, in the order of time. One that lies in two phases is in both, each time
    /// with what it had of that.
    pub exits: Vec<ExitBranch>,
    /// `steal` that no witness of the host places, in nanoseconds.
    pub steal_ns: u64,
    /// What no witness explains outside of exits, in nanoseconds.
    pub residual_ns: u64,
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (&self.of.detail, &self.stretches[..]) {
            (Detail::Gap(_), [whole]) => OfGap {
                gap: &self.of,
                guest: &whole.guest,
                exits: &whole.exits,
                steal_ns: whole.steal_ns,
                residual_ns: whole.residual_ns,
                residual: self.residual,
                witnessed: self.witnessed,
            }
            .serialize(to),
            (_, phases) => OfWakeup {
                wakeup: &self.of,
                phases,
                residual: self.residual,
                witnessed: self.witnessed,
            }
            .serialize(to),
        }
    }
}

/// The tree of a gap in a document.
#[derive(Serialize)]
struct OfGap<'a> {
    gap: &'a NamedInterval,
    guest: &'a [NamedPart],
    exits: &'a [ExitBranch],
    steal_ns: u64,
    residual_ns: u64,
    residual: Share,
    witnessed: bool,
}

/// The tree of a wake-up in a document.
#[derive(Serialize)]
struct OfWakeup<'a> {
    wakeup: &'a NamedInterval,
    phases: &'a [Stretch],
    residual: Share,
    witnessed: bool,
}

/// A line of a tree, and what it divides into; those add up to it.
#[derive(Debug)]
pub struct Branch<'a> {
    /// Nanoseconds.
    pub ns: u64,
    /// Who or what had them.
    pub what: What<'a>,
    /// What it divides into.
    pub parts: Vec<Branch<'a>>,
}

/// What a branch is.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// A phase of a wake-up.
    Phase(Option<Phase>),
    /// What somebody took; a part of an exit has the host's CPU.
    Guest(&'a NamedPart),
    /// An exit.
    Exit(&'a ExitBranch),
    /// What somebody took of the exit above.
    Host(&'a NamedPart),
    /// Steal by the clock alone, or the residual.
    Rest(Share),
    /// So many exits that were shorter.
    ShorterExits(usize),
    /// So many parts that were smaller.
    SmallerParts(usize),
}

impl What<'_> {
    /// Under which it is booked; `None` of what has parts, and of many together.
    pub fn share(&self) -> Option<Share> {
        match self {
            What::Guest(part) | What::Host(part) => Some(part.share),
            What::Rest(share) => Some(*share),
            What::Phase(_) | What::Exit(_) | What::ShorterExits(_) | What::SmallerParts(_) => None,
        }
    }
}

/// How many branches stand by themselves; the rest of their level is one.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// Exits of a phase or gap.
    pub exits: usize,
    /// Parts of an exit, or of the guest.
    pub parts: usize,
    /// Whether one more stands by itself where it would be all of the rest, and exits of one
    /// length are treated alike.
    pub evenly: bool,
}

impl Most {
    fn of(&self, most: usize, all: usize) -> usize {
        match self.evenly && all == most + 1 {
            true => all,
            false => most.min(all),
        }
    }
}

impl Tree {
    /// What it divides into.
    pub fn branches(&self, most: Most) -> Vec<Branch<'_>> {
        let stretches = self.stretches.iter();
        let inside = |stretch| branches(stretch, self.residual, most);
        match self.of.detail {
            Detail::Gap(_) => stretches.flat_map(inside).collect(),
            Detail::Wakeup(_) => stretches
                .map(|stretch| Branch {
                    ns: stretch.dur_ns,
                    what: What::Phase(stretch.phase),
                    parts: inside(stretch),
                })
                .collect(),
        }
    }
}

impl NamedInterval {
    /// The phases of a wake-up, and their parts.
    pub fn phases(&self) -> Vec<Branch<'_>> {
        let phases = self.parts.chunk_by(|a, b| a.phase == b.phase);
        let phases = phases.map(|parts| Branch {
            ns: parts.iter().map(|part| part.ns).sum(),
            what: What::Phase(parts[0].phase),
            parts: parts
                .iter()
                .map(|part| leaf(part.ns, What::Guest(part)))
                .collect(),
        });
        phases.collect()
    }
}

/// The guest's own, the exits, steal and what is left.
fn branches(stretch: &Stretch, residual: Share, most: Most) -> Vec<Branch<'_>> {
    let mut all = few(&stretch.guest, most, What::Guest);
    all.extend(exits(&stretch.exits, most));
    let rest = [
        (Share::Steal, stretch.steal_ns),
        (residual, stretch.residual_ns),
    ];
    let rest = rest.into_iter().filter(|(_, ns)| *ns > 0);
    all.extend(rest.map(|(share, ns)| leaf(ns, What::Rest(share))));
    all
}

/// In the order of time, the shortest of many as one.
fn exits(exits: &[ExitBranch], most: Most) -> Vec<Branch<'_>> {
    let mut longest: Vec<usize> = (0..exits.len()).collect();
    longest.sort_by_key(|place| Reverse(exits[*place].dur_ns));
    let room = most.of(most.exits, exits.len());
    let too_short = longest.get(room).map(|place| exits[*place].dur_ns);
    longest.truncate(room);
    if let Some(ns) = too_short.filter(|_| most.evenly) {
        longest.retain(|place| exits[*place].dur_ns > ns);
    }
    longest.sort_unstable();
    let shown = longest.iter().map(|place| &exits[*place]);
    let mut all: Vec<Branch<'_>> = shown
        .map(|exit| Branch {
            ns: exit.dur_ns,
            what: What::Exit(exit),
            parts: few(&exit.parts, most, What::Host),
        })
        .collect();
    let others = exits.len() - all.len();
    if others > 0 {
        let all_ns: u64 = exits.iter().map(|exit| exit.dur_ns).sum();
        let shown_ns: u64 = all.iter().map(|exit| exit.ns).sum();
        all.push(leaf(all_ns - shown_ns, What::ShorterExits(others)));
    }
    all
}

/// Parts, which are sorted; the smallest of many as one.
fn few<'a>(
    parts: &'a [NamedPart],
    most: Most,
    what: fn(&'a NamedPart) -> What<'a>,
) -> Vec<Branch<'a>> {
    let (shown, others) = parts.split_at(most.of(most.parts, parts.len()));
    let shown = shown.iter().map(|part| leaf(part.ns, what(part)));
    let mut all: Vec<Branch<'_>> = shown.collect();
    if !others.is_empty() {
        let ns = others.iter().map(|part| part.ns).sum();
        all.push(leaf(ns, What::SmallerParts(others.len())));
    }
    all
}

fn leaf(ns: u64, what: What<'_>) -> Branch<'_> {
    Branch {
        ns,
        what,
        parts: Vec::new(),
    }
}
