//! Subtracts the host's exits from a gap. The guest's activities stood still while the host had the
//! CPU, so their time excludes the exits.

use vmnoise_events::{Activity, Share};

use super::{HostExit, Overlap, has_cpu};
use crate::part::{Part, add_up};
use crate::piece::Piece;
use crate::steal::{waits_of, witnessed_waiting_ns};
use crate::sweep::Sweep;

/// Scratch memory, reused for each gap.
#[derive(Debug, Default)]
pub(crate) struct Subtraction {
    /// Slices of the gap: index of the guest's activity that owns the slice, start, and end. The
    /// index is `None` for a slice without an owner.
    slices: Vec<(Option<usize>, u64, u64)>,
    net_ns: Vec<u64>,
    overlaps: Vec<Overlap>,
    /// Times in which the vCPU waited in exits with a named owner.
    waits: Waits,
    /// Times in which the vCPU waited in exits too short for the clock error. Activities of the
    /// guest lose this time as well.
    unsure_waits: Waits,
    /// Pieces of the current exit: a part, and the start of the activity that used its time.
    pieces: Vec<(Part, u64)>,
}

impl Subtraction {
    /// Divides the gap `start_ns..end_ns` among the guest's `activities`, and subtracts the `exits`
    /// that overlap the gap. The time of an exit that overlaps the gap by at most `blur_ns` gets no
    /// owner. Returns the nanoseconds without an owner.
    pub(crate) fn run(
        &mut self,
        sweep: &mut Sweep,
        (start_ns, end_ns): (u64, u64),
        activities: &[Activity],
        exits: &mut [HostExit],
        blur_ns: u64,
    ) -> u64 {
        self.clear();
        let slices = &mut self.slices;
        let mut residual_ns = sweep.slice(start_ns, end_ns, activities, |owner, from, to| {
            slices.push((owner, from, to));
        });
        self.net_ns.extend_from_slice(sweep.net_ns());
        let mut reached = 0;
        for exit in exits {
            self.pieces.clear();
            let has_ns = exit.end_mono_ns.min(end_ns) - exit.start_mono_ns.max(start_ns);
            let is_sure = has_ns > blur_ns;
            let mut unsure_ns = 0;
            for piece in &exit.pieces {
                let from_ns = piece.start_mono_ns.max(start_ns);
                let to_ns = piece.end_mono_ns.min(end_ns);
                if from_ns >= to_ns {
                    continue;
                }
                while self.slices[reached].2 <= from_ns {
                    reached += 1;
                }
                let mut had_ns = 0;
                for &(owner, from, to) in &self.slices[reached..] {
                    if from >= to_ns {
                        break;
                    }
                    let ns = to.min(to_ns) - from.max(from_ns);
                    match owner {
                        // The guest's kernel asked for this sleep during this activity, which keeps
                        // the time.
                        Some(_) if piece.share == Share::Halted => continue,
                        Some(owner) => self.net_ns[owner] -= ns,
                        None => residual_ns -= ns,
                    }
                    had_ns += ns;
                }
                if piece.waits {
                    match is_sure {
                        true => self.waits.add(from_ns, to_ns),
                        false => self.unsure_waits.add(from_ns, to_ns),
                    }
                }
                if !is_sure {
                    residual_ns += had_ns;
                    unsure_ns += had_ns;
                    continue;
                }
                if had_ns > 0 {
                    self.pieces.push((part(piece, had_ns), piece.since_ns));
                }
            }
            self.overlaps.push(Overlap {
                first: !std::mem::replace(&mut exit.is_met, true),
                parts: add_up_turns(&mut self.pieces),
                unsure_ns,
            });
        }
        residual_ns
    }

    /// Resets the result to that of a gap without exits.
    pub(crate) fn clear(&mut self) {
        self.slices.clear();
        self.net_ns.clear();
        self.overlaps.clear();
        self.waits.0.clear();
        self.unsure_waits.0.clear();
    }

    /// Returns the net time of each activity of the last run in nanoseconds, in the order of the
    /// activities.
    pub(crate) fn net_ns(&self) -> &[u64] {
        &self.net_ns
    }

    /// Returns the overlap of each exit of the last run, in the order of the exits.
    pub(crate) fn take_overlaps(&mut self) -> Vec<Overlap> {
        std::mem::take(&mut self.overlaps)
    }

    /// Copies `activities` to `left`. Subtracts from the steal of each activity the time in which
    /// the vCPU is known to have waited.
    pub(crate) fn place_steal(&self, activities: &[Activity], left: &mut Vec<Activity>) {
        left.clear();
        left.extend(activities.iter().map(|activity| {
            let (from_ns, to_ns) = (activity.start_mono_ns, activity.end_mono_ns);
            let unsure_ns = self.unsure_waits.between_ns(from_ns, to_ns);
            let placed_ns = self.waits.between_ns(from_ns, to_ns) + unsure_ns;
            Activity {
                steal_ns: activity.steal_ns.saturating_sub(placed_ns),
                ..*activity
            }
        }));
    }

    /// Returns how long the vCPU of a microVM waited, in nanoseconds, according to these exits and
    /// to the host's activities in the microVM's own recording.
    pub(crate) fn waited_beside_ns(
        &self,
        start_ns: u64,
        end_ns: u64,
        activities: &[Activity],
    ) -> u64 {
        if self.waits.0.is_empty() {
            return witnessed_waiting_ns(start_ns, end_ns, waits_of(activities));
        }
        let below = self.waits.0.iter();
        let below = below.map(|&(from_ns, to_ns, _)| (from_ns, to_ns));
        let mut waits: Vec<(u64, u64)> = below.chain(waits_of(activities)).collect();
        waits.sort_unstable();
        witnessed_waiting_ns(start_ns, end_ns, waits)
    }

    /// Returns how long the vCPU waited between these times, in nanoseconds, in exits with a named
    /// owner.
    pub(crate) fn waited_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.waits.between_ns(from_ns, to_ns)
    }
}

/// Waits, ascending and disjoint: start, end, and total time of all earlier waits, in nanoseconds.
#[derive(Debug, Default)]
struct Waits(Vec<(u64, u64, u64)>);

impl Waits {
    fn add(&mut self, from_ns: u64, to_ns: u64) {
        let before_ns = self.by_ns(from_ns);
        self.0.push((from_ns, to_ns, before_ns));
    }

    fn between_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.by_ns(to_ns).saturating_sub(self.by_ns(from_ns))
    }

    fn by_ns(&self, at_ns: u64) -> u64 {
        let begun = self.0.partition_point(|&(from_ns, ..)| from_ns < at_ns);
        self.0[..begun]
            .last()
            .map_or(0, |&(from_ns, to_ns, before_ns)| {
                before_ns + (to_ns.min(at_ns) - from_ns)
            })
    }
}

fn part(piece: &Piece, ns: u64) -> Part {
    Part {
        phase: None,
        share: piece.share,
        source: piece.source,
        host_cpu: has_cpu(piece.share).then_some(piece.cpu),
        ns,
        count: u32::from(piece.source.is_some()),
    }
}

/// Adds up the pieces of each source. Several pieces of one activity count as one.
fn add_up_turns(pieces: &mut [(Part, u64)]) -> Vec<Part> {
    pieces.sort_unstable_by_key(|(part, turn)| (part.who(), *turn));
    let turns = pieces.chunk_by_mut(|(a, turn), (b, other)| (a.who(), turn) == (b.who(), other));
    for turn in turns {
        turn[1..].iter_mut().for_each(|(part, _)| part.count = 0);
    }
    let mut parts: Vec<Part> = pieces.iter().map(|(part, _)| *part).collect();
    add_up(&mut parts);
    parts
}
