//! Cuts one wake-up into phases, and each phase among who had the CPU meanwhile.

use vmnoise_events::{Activation, Activity, ActivityKind, Share, SourceId};

use super::phase::{Phase, Stretch, stretches};
use super::wakeup::{Wakeup, WakeupPart};
use crate::names::Names;
use crate::own_steal::OwnSteal;
use crate::sight::Sight;
use crate::sweep::Sweep;

/// Cuts one wake-up after another; the memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    sweep: Sweep,
    own_steal: OwnSteal,
    /// Scratch: those activities that can hold a stretch up.
    holding: Vec<Activity>,
}

impl Cutter {
    /// `activities` overlap the wake-up and are in sweep order. The wake-up is not over
    /// before its expiry.
    pub(crate) fn cut(
        &mut self,
        activation: &Activation,
        activities: &[Activity],
        sight: &Sight,
        names: &Names,
    ) -> Wakeup {
        let mut wakeup = Wakeup::new(activation);
        for stretch in stretches(activation) {
            let dur_ns = stretch.end_ns - stretch.start_ns;
            match stretch.phase {
                Some(phase) => wakeup.phases_ns[phase as usize] = Some(dur_ns),
                None => wakeup.unsplit_ns += dur_ns,
            }
            if dur_ns > 0 {
                self.cut_stretch(&stretch, activities, sight, names, &mut wakeup);
            }
        }
        wakeup.settle();
        wakeup
    }

    fn cut_stretch(
        &mut self,
        stretch: &Stretch,
        activities: &[Activity],
        sight: &Sight,
        names: &Names,
        wakeup: &mut Wakeup,
    ) {
        let Stretch {
            phase,
            start_ns,
            end_ns,
            ..
        } = *stretch;
        let Self {
            sweep,
            own_steal,
            holding,
        } = self;
        holding.clear();
        let holds = |activity: &&Activity| {
            activity.start_mono_ns < end_ns
                && activity.end_mono_ns > start_ns
                && can_hold(activity.kind, phase)
        };
        holding.extend(activities.iter().filter(holds));
        let mut residual_ns = sweep.run(start_ns, end_ns, holding);
        let with_steal = sight.has_activity_steal();
        let clock_ns = if with_steal { stretch.steal_ns } else { 0 };
        wakeup.steal_clamped |= clock_ns > end_ns - start_ns;
        let mut unplaced_ns = clock_ns;
        let robbed_ns = match with_steal {
            true => own_steal.run(holding, sweep.net_ns()),
            false => &[],
        };
        let mut book = |share: Share, source: Option<SourceId>, ns: u64| {
            if ns > 0 {
                wakeup.parts.push(WakeupPart {
                    phase,
                    share,
                    source,
                    ns,
                });
            }
        };
        for (index, activity) in holding.iter().enumerate() {
            // An activity may reach out of the stretch and be robbed there.
            let robbed_ns = robbed_ns.get(index).copied().unwrap_or(0).min(unplaced_ns);
            unplaced_ns -= robbed_ns;
            let source = names.defined(activity.source);
            book(Share::Steal, None, robbed_ns);
            let net_ns = sweep.net_ns()[index] - robbed_ns;
            book(sight.share_of(activity.kind), source, net_ns);
        }
        let robbed_ns = unplaced_ns.min(residual_ns);
        residual_ns -= robbed_ns;
        book(Share::Steal, None, robbed_ns);
        book(residual_share(sight), None, residual_ns);
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

/// What nobody was seen to take. It is never the hardware's alone: idle states, sections with
/// interrupts off and the scheduler's own way fire no event.
fn residual_share(sight: &Sight) -> Share {
    match sight.is_blind() {
        true => Share::HvOrHw,
        false => Share::Unexplained,
    }
}
