//! Cuts one wake-up into phases, and each phase among who had the CPU meanwhile.

use vmnoise_events::{Activation, Activity, ActivityKind, Share, SourceId};

use super::explained::{CutStretch, ExplainedWakeup};
use super::wakeup::Wakeup;
use crate::below::take::Take;
use crate::below::{BelowExit, Met};
use crate::names::Names;
use crate::own_steal::OwnSteal;
use crate::part::{self, Part};
use crate::phase::{Phase, Stretch, stretches};
use crate::sight::{Sight, Testimony};
use crate::sweep::Sweep;

/// Cuts one wake-up after another; the memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    sweep: Sweep,
    take: Take,
    own_steal: OwnSteal,
    /// Scratch: those activities that can hold a stretch up, and the same without the steal
    /// that their host places.
    holding: Vec<Activity>,
    robbed: Vec<Activity>,
    /// Of the wake-up at hand; empty without a host's recording.
    stretches: Vec<CutStretch>,
    /// What a sleep of the vCPU is called that went on when its guest's timer was due.
    overslept: Option<SourceId>,
}

/// What a wake-up is cut by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) sight: &'a Sight,
    pub(crate) names: &'a Names,
    /// What the host says of this wake-up.
    pub(crate) testimony: Testimony,
    /// As [`crate::below::BelowLine::blur_ns`].
    pub(crate) blur_ns: u64,
}

impl Ground<'_> {
    fn is_witnessed(&self) -> bool {
        matches!(self.testimony, Testimony::Host { .. })
    }

    /// The host's own books tell when the vCPU waited, and the guest's clock cannot say more.
    fn has_steal(&self) -> bool {
        let is_told = self.is_witnessed() && self.sight.host_sees_kvm();
        self.sight.has_activity_steal() && !is_told
    }

    /// What nobody was seen to take. It is never the hardware's alone: idle states, sections
    /// with interrupts off and the scheduler's own way fire no event.
    fn residual(&self) -> Share {
        let is_blind = match self.is_witnessed() {
            true => self.sight.is_blind_itself(),
            false => self.sight.is_blind(),
        };
        match is_blind {
            true => Share::HvOrHw,
            false => Share::Unexplained,
        }
    }

    /// Whether the vCPU was in its guest wherever no exit is told.
    fn tells_exits(&self) -> bool {
        let is_whole = matches!(self.testimony, Testimony::Host { is_whole: true });
        is_whole && self.sight.counts_exits()
    }
}

impl Cutter {
    /// Has a name for a sleep that the host should have ended.
    pub(crate) fn beside(overslept: SourceId) -> Cutter {
        Cutter {
            overslept: Some(overslept),
            ..Cutter::default()
        }
    }

    /// `activities` and `exits` overlap the wake-up and are in their orders. The wake-up is not
    /// over before its expiry.
    pub(crate) fn cut(
        &mut self,
        activation: &Activation,
        activities: &[Activity],
        exits: &mut [BelowExit],
        ground: Ground<'_>,
    ) -> Wakeup {
        let mut wakeup = Wakeup::new(activation);
        wakeup.witnessed = ground.is_witnessed();
        self.stretches.clear();
        for stretch in stretches(activation) {
            let dur_ns = stretch.end_ns - stretch.start_ns;
            match stretch.phase {
                Some(phase) => wakeup.phases_ns[phase as usize] = Some(dur_ns),
                None => wakeup.unsplit_ns += dur_ns,
            }
            let cut = match dur_ns {
                0 => CutStretch::default(),
                _ => self.cut_stretch(&stretch, activities, exits, ground, &mut wakeup),
            };
            if ground.sight.is_joined() {
                self.stretches.push(CutStretch {
                    phase: stretch.phase,
                    until: Some(stretch.until),
                    dur_ns,
                    ..cut
                });
            }
        }
        part::settle(&mut wakeup.parts);
        wakeup
    }

    /// The wake-up that was cut last; `exits` are those it was cut with.
    pub(crate) fn explained<'a>(
        &'a self,
        wakeup: &'a Wakeup,
        exits: &'a [BelowExit],
        ground: Ground<'a>,
    ) -> ExplainedWakeup<'a> {
        ExplainedWakeup {
            wakeup,
            stretches: &self.stretches,
            exits,
            witnessed: ground.is_witnessed(),
            tells_exits: ground.tells_exits(),
            residual: ground.residual(),
            names: ground.names,
            overslept: self.overslept,
        }
    }

    fn cut_stretch(
        &mut self,
        stretch: &Stretch,
        activities: &[Activity],
        exits: &mut [BelowExit],
        ground: Ground<'_>,
        wakeup: &mut Wakeup,
    ) -> CutStretch {
        let Stretch {
            phase,
            start_ns,
            end_ns,
            ..
        } = *stretch;
        let Ground { sight, names, .. } = ground;
        let Self {
            sweep,
            take,
            own_steal,
            holding,
            robbed,
            overslept,
            ..
        } = self;
        holding.clear();
        let holds = |activity: &&Activity| {
            activity.start_mono_ns < end_ns
                && activity.end_mono_ns > start_ns
                && can_hold(activity.kind, phase)
        };
        holding.extend(activities.iter().filter(holds));
        let first = exits.partition_point(|exit| exit.end_mono_ns <= start_ns);
        let after = exits.partition_point(|exit| exit.start_mono_ns < end_ns);
        let within = first..after.max(first);
        take.clear();
        let exits = &mut exits[within.clone()];
        let (mut residual_ns, net_ns, robbed) = match exits.is_empty() {
            true => (
                sweep.run(start_ns, end_ns, holding),
                sweep.net_ns(),
                &*holding,
            ),
            false => {
                let left_ns = take.run(sweep, (start_ns, end_ns), holding, exits, ground.blur_ns);
                take.place_steal(holding, robbed);
                (left_ns, take.net_ns(), &*robbed)
            }
        };
        let has_steal = ground.has_steal();
        let clock_ns = if has_steal { stretch.steal_ns } else { 0 };
        wakeup.steal_clamped |= clock_ns > end_ns - start_ns;
        let mut unplaced_ns = clock_ns.saturating_sub(take.waited_ns(start_ns, end_ns));
        let robbed_ns = match has_steal {
            true => own_steal.run(robbed, net_ns),
            false => &[],
        };
        let mut own = Vec::new();
        let mut steal_ns = 0;
        for (index, activity) in holding.iter().enumerate() {
            // An activity may reach out of the stretch and be robbed there.
            let robbed_ns = robbed_ns.get(index).copied().unwrap_or(0).min(unplaced_ns);
            unplaced_ns -= robbed_ns;
            steal_ns += robbed_ns;
            let share = sight.share_of(activity.kind);
            let source = names.defined(activity.source);
            let ns = net_ns[index] - robbed_ns;
            own.push(Part::of_one(share, source, ns));
        }
        let robbed_ns = unplaced_ns.min(residual_ns);
        residual_ns -= robbed_ns;
        steal_ns += robbed_ns;
        own.retain(|part| part.ns > 0);

        let residual = ground.residual();
        let mut met = take.met().to_vec();
        met.iter_mut()
            .for_each(|met| name(met, residual, *overslept));
        let rest = [(Share::Steal, steal_ns), (residual, residual_ns)];
        let rest = rest.map(|(share, ns)| Part::of_nobody(share, ns));
        let told = met.iter().flat_map(|met| &met.parts);
        let parts = own.iter().chain(told).chain(&rest);
        let parts = parts.filter(|part| part.ns > 0);
        wakeup
            .parts
            .extend(parts.map(|part| Part { phase, ..*part }));
        let is_sure = end_ns - start_ns > ground.blur_ns;
        let unsure_ns = match is_sure {
            true => met.iter().map(|met| met.unsure_ns).sum(),
            false => residual_ns,
        };
        CutStretch {
            is_sure,
            unsure_ns: residual_ns.min(unsure_ns),
            own,
            steal_ns,
            residual_ns,
            exits: within,
            met,
            ..CutStretch::default()
        }
    }
}

/// Names the share of what an exit leaves over, and a sleep that its guest had not asked for:
/// its timer was due.
fn name(met: &mut Met, residual: Share, overslept: Option<SourceId>) {
    for part in &mut met.parts {
        if part.share.is_residual() {
            part.share = residual;
        } else if part.share == Share::Halted {
            part.share = Share::Blocked;
            part.source = overslept;
            part.count = 1;
        }
    }
}

/// Whether work of this kind keeps a wake-up from going on in this phase. An interrupt waits
/// for interrupts and for nothing else that can be witnessed: threads and soft interrupts run
/// with interrupts enabled, and where they do not, no event of a stock kernel tells.
fn can_hold(kind: ActivityKind, phase: Option<Phase>) -> bool {
    match phase {
        Some(Phase::Irq) => matches!(kind, ActivityKind::Irq | ActivityKind::Nmi),
        _ => true,
    }
}
