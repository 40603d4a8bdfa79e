//! Takes out of a gap what the host had of it: what a guest's kernel was about meanwhile
//! stood still, and is net of it.

use vmnoise_events::{Activity, Share};

use super::{BelowExit, BelowPiece, Met, MetPart, has_cpu};
use crate::steal::{waits_of, witnessed_waiting_ns};
use crate::sweep::Sweep;

/// Scratch, reused from gap to gap.
#[derive(Debug, Default)]
pub(crate) struct Take {
    /// The gap by its owners in the guest.
    slices: Vec<(Option<usize>, u64, u64)>,
    net_ns: Vec<u64>,
    met: Vec<Met>,
    /// Begin, end, and the sum of all before, of the stretches in which the vCPU waited.
    waits: Vec<(u64, u64, u64)>,
    /// Of the exit at hand: what each piece had, with its turn.
    pieces: Vec<(MetPart, u64)>,
}

impl Take {
    /// Sweeps the gap `start_ns..end_ns` for the guest's `activities`, and takes the time
    /// of `exits`, which overlap it, away from them; one that has no more than `blur_ns` of it
    /// leaves that to nobody. Returns what is left to nobody.
    pub(crate) fn run(
        &mut self,
        sweep: &mut Sweep,
        (start_ns, end_ns): (u64, u64),
        activities: &[Activity],
        exits: &mut [BelowExit],
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
                        // The guest's kernel had asked for the sleep, on behalf of whom it
                        // was busy with.
                        Some(_) if piece.share == Share::Halted => continue,
                        Some(owner) => self.net_ns[owner] -= ns,
                        None => residual_ns -= ns,
                    }
                    had_ns += ns;
                }
                if !is_sure {
                    residual_ns += had_ns;
                    unsure_ns += had_ns;
                    continue;
                }
                if piece.waits {
                    self.wait(from_ns, to_ns);
                }
                if had_ns > 0 {
                    self.pieces.push((part(piece, had_ns), piece.turn));
                }
            }
            self.met.push(Met {
                first: !std::mem::replace(&mut exit.met, true),
                parts: add_up(&mut self.pieces),
                unsure_ns,
            });
        }
        residual_ns
    }

    /// As after a gap that met no exit.
    pub(crate) fn clear(&mut self) {
        self.slices.clear();
        self.net_ns.clear();
        self.met.clear();
        self.waits.clear();
    }

    /// What each activity of the last run owns, in their order.
    pub(crate) fn net_ns(&self) -> &[u64] {
        &self.net_ns
    }

    /// What each exit of the last run had, in their order.
    pub(crate) fn met(&self) -> &[Met] {
        &self.met
    }

    /// Names the share under which this gap's residual is booked.
    pub(crate) fn name_residual(&mut self, residual: Share) {
        let parts = self.met.iter_mut().flat_map(|met| &mut met.parts);
        for part in parts.filter(|part| part.share.is_residual()) {
            part.share = residual;
        }
    }

    /// Tells `activities` without the steal inside for which the vCPU is known to have
    /// waited.
    pub(crate) fn place_steal(&self, activities: &[Activity], left: &mut Vec<Activity>) {
        left.clear();
        left.extend(activities.iter().map(|activity| {
            let placed_ns = self.waited_ns(activity.start_mono_ns, activity.end_mono_ns);
            Activity {
                steal_ns: activity.steal_ns.saturating_sub(placed_ns),
                ..*activity
            }
        }));
    }

    /// How long the vCPU of a microVM waited by these exits or by the host's activities in
    /// its own recording, in nanoseconds.
    pub(crate) fn waited_beside_ns(
        &self,
        start_ns: u64,
        end_ns: u64,
        activities: &[Activity],
    ) -> u64 {
        if self.waits.is_empty() {
            return witnessed_waiting_ns(start_ns, end_ns, waits_of(activities));
        }
        let below = self
            .waits
            .iter()
            .map(|&(from_ns, to_ns, _)| (from_ns, to_ns));
        let mut waits: Vec<(u64, u64)> = below.chain(waits_of(activities)).collect();
        waits.sort_unstable();
        witnessed_waiting_ns(start_ns, end_ns, waits)
    }

    /// How long the vCPU waited between these, in nanoseconds, as far as the gap reaches.
    pub(crate) fn waited_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.waited_by_ns(to_ns)
            .saturating_sub(self.waited_by_ns(from_ns))
    }

    fn waited_by_ns(&self, at_ns: u64) -> u64 {
        let begun = self.waits.partition_point(|&(from_ns, ..)| from_ns < at_ns);
        self.waits[..begun]
            .last()
            .map_or(0, |&(from_ns, to_ns, before_ns)| {
                before_ns + (to_ns.min(at_ns) - from_ns)
            })
    }

    fn wait(&mut self, from_ns: u64, to_ns: u64) {
        let before_ns = self.waited_by_ns(from_ns);
        self.waits.push((from_ns, to_ns, before_ns));
    }
}

fn part(piece: &BelowPiece, ns: u64) -> MetPart {
    MetPart {
        share: piece.share,
        source: piece.source,
        cpu: has_cpu(piece.share).then_some(piece.cpu),
        ns,
        count: u32::from(piece.source.is_some()),
    }
}

/// Adds the pieces of each source up; of one turn, only the first counts.
fn add_up(pieces: &mut [(MetPart, u64)]) -> Vec<MetPart> {
    let who = |part: &MetPart| (part.share, part.source, part.cpu);
    pieces.sort_unstable_by_key(|(part, turn)| (who(part), *turn));
    let mut parts: Vec<MetPart> = Vec::new();
    let mut last_turn = None;
    for (piece, turn) in pieces {
        match parts.last_mut() {
            Some(sum) if who(sum) == who(piece) => {
                sum.ns += piece.ns;
                if last_turn != Some(*turn) {
                    sum.count = sum.count.saturating_add(piece.count);
                }
            }
            _ => parts.push(*piece),
        }
        last_turn = Some(*turn);
    }
    parts
}
