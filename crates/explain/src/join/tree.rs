//! Tree of a gap or wake-up that names the parts of the guest and of the host.

use std::cmp::Reverse;

use serde::{Serialize, Serializer};
use vmnoise_events::Share;

use super::branch::ExitBranch;
use crate::interval::Detail;
use crate::named::{NamedInterval, NamedPart};
use crate::phase::Phase;

/// One gap or wake-up, with the events of guest and host in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTree {
    /// The gap or wake-up, with parts that add up to its length.
    pub of: NamedInterval,
    /// Segments in time order. Their lengths add up to the length of the interval. A gap is one
    /// segment.
    pub stretches: Vec<Stretch>,
    /// Share to which the residual of each segment belongs.
    pub residual: Share,
    /// Whether the host recorded the whole interval, on a known clock.
    pub witnessed: bool,
}

/// A gap, or one phase of a wake-up. The guest's parts, the exits, steal and the residual add up to
/// `dur_ns`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stretch {
    /// Phase of the wake-up; `None` for a gap, or if an event that delimits the phase is missing.
    pub phase: Option<Phase>,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Parts of the guest's own kernel, without the time that the host took during them, largest
    /// first.
    pub guest: Vec<NamedPart>,
    /// Exits in the segment, in time order. An exit in two phases is listed in both, each time with
    /// its part of that phase.
    pub exits: Vec<ExitBranch>,
    /// Time that the steal clock reports and no probe of the host locates, in nanoseconds.
    pub steal_ns: u64,
    /// Time outside of exits that no probe explains, in nanoseconds.
    pub residual_ns: u64,
}

impl Serialize for JoinTree {
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

/// JSON document of a gap's tree.
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

/// JSON document of a wake-up's tree.
#[derive(Serialize)]
struct OfWakeup<'a> {
    wakeup: &'a NamedInterval,
    phases: &'a [Stretch],
    residual: Share,
    witnessed: bool,
}

/// A branch of a tree. Its parts add up to the length of the branch.
#[derive(Debug)]
pub struct TreeBranch<'a> {
    /// Length in nanoseconds.
    pub ns: u64,
    /// Content of the branch.
    pub what: What<'a>,
    /// Branches below this branch.
    pub parts: Vec<TreeBranch<'a>>,
}

/// Content of a branch.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// A phase of a wake-up.
    Phase(Option<Phase>),
    /// A part of the gap or phase. A part that belongs to an exit has a host CPU.
    Guest(&'a NamedPart),
    /// An exit.
    Exit(&'a ExitBranch),
    /// A part of the exit above this branch.
    Host(&'a NamedPart),
    /// Steal that only the steal clock reports, or the residual.
    Rest(Share),
    /// All shorter exits together, with their number.
    ShorterExits(usize),
    /// All smaller parts together, with their number.
    SmallerParts(usize),
}

impl What<'_> {
    /// Returns the share of the branch; `None` for a branch with parts, or for several exits or
    /// parts together.
    pub fn share(&self) -> Option<Share> {
        match self {
            What::Guest(part) | What::Host(part) => Some(part.share),
            What::Rest(share) => Some(*share),
            What::Phase(_) | What::Exit(_) | What::ShorterExits(_) | What::SmallerParts(_) => None,
        }
    }
}

/// Maximum number of separate branches per level. All further branches become one branch.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// Maximum number of exits of a phase or gap.
    pub exits: usize,
    /// Maximum number of parts of an exit, or of the guest.
    pub parts: usize,
    /// Whether a rest of only one branch is shown as this branch. If true, exits of equal length
    /// are also either all shown or all combined.
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

impl JoinTree {
    /// Returns the branches of the tree.
    pub fn branches(&self, most: Most) -> Vec<TreeBranch<'_>> {
        let stretches = self.stretches.iter();
        let inside = |stretch| branches(stretch, self.residual, most);
        match self.of.detail {
            Detail::Gap(_) => stretches.flat_map(inside).collect(),
            Detail::Wakeup(_) => stretches
                .map(|stretch| TreeBranch {
                    ns: stretch.dur_ns,
                    what: What::Phase(stretch.phase),
                    parts: inside(stretch),
                })
                .collect(),
        }
    }
}

impl NamedInterval {
    /// Returns the phases of a wake-up as branches, with their parts below.
    pub fn phases(&self) -> Vec<TreeBranch<'_>> {
        let phases = self.parts.chunk_by(|a, b| a.phase == b.phase);
        let phases = phases.map(|parts| TreeBranch {
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

/// Returns the branches of a segment: the guest's parts, the exits, steal and the residual.
fn branches(stretch: &Stretch, residual: Share, most: Most) -> Vec<TreeBranch<'_>> {
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

/// Returns the longest exits in time order, followed by one branch for all shorter exits.
fn exits(exits: &[ExitBranch], most: Most) -> Vec<TreeBranch<'_>> {
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
    let mut all: Vec<TreeBranch<'_>> = shown
        .map(|exit| TreeBranch {
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

/// Returns the largest parts, followed by one branch for all smaller parts. `parts` is sorted,
/// largest first.
fn few<'a>(
    parts: &'a [NamedPart],
    most: Most,
    what: fn(&'a NamedPart) -> What<'a>,
) -> Vec<TreeBranch<'a>> {
    let (shown, others) = parts.split_at(most.of(most.parts, parts.len()));
    let shown = shown.iter().map(|part| leaf(part.ns, what(part)));
    let mut all: Vec<TreeBranch<'_>> = shown.collect();
    if !others.is_empty() {
        let ns = others.iter().map(|part| part.ns).sum();
        all.push(leaf(ns, What::SmallerParts(others.len())));
    }
    all
}

fn leaf(ns: u64, what: What<'_>) -> TreeBranch<'_> {
    TreeBranch {
        ns,
        what,
        parts: Vec::new(),
    }
}
