//! Turns one gap and the activities that overlap it into its budget.

use vmnoise_events::{Activity, ActivityKind, Gap, Share};

use crate::budget::{Budget, Part, add_up, largest_first};
use crate::interference::Interference;
use crate::kvm_bound::{KvmBound, inside_exit};
use crate::names::Names;
use crate::own_steal::OwnSteal;
use crate::residual::residual_share;
use crate::sight::Sight;
use crate::steal::{steal, witnessed_waiting_ns};
use crate::sweep::Sweep;

/// What attribution looks things up in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) sight: &'a Sight,
    pub(crate) names: &'a Names,
    pub(crate) kvm_bound: &'a KvmBound,
}

/// Attribution of one gap after another; all memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Attribution {
    sweep: Sweep,
    own_steal: OwnSteal,
    budget: Budget,
    steal_clamped: bool,
}

impl Attribution {
    /// Cuts `gap`, which begins at `start_ns` and lasts `dur_ns`, into parts: one
    /// for each activity that owns time of it, in their order, then the rest.
    pub(crate) fn cut(
        &mut self,
        gap: &Gap,
        start_ns: u64,
        dur_ns: u64,
        activities: &[Activity],
        context: Context<'_>,
    ) {
        let end_ns = start_ns + dur_ns;
        let Self {
            sweep,
            own_steal,
            budget,
            steal_clamped,
        } = self;
        let mut parts = std::mem::take(&mut budget.parts);
        parts.clear();
        *budget = Budget {
            cpu: gap.cpu,
            start_mono_ns: start_ns,
            start_tsc: gap.start_tsc,
            end_tsc: gap.end_tsc,
            dur_ns,
            parts,
            steal_clock_ns: gap.steal_ns,
            light_exits: gap.light_exits,
            heavy_exits: gap.heavy_exits,
            reloads: gap.reloads,
            interference: Interference::of_gap(context.sight, gap.interference, activities),
            lost_activities: None,
        };
        let shown = budget.interference.activities();
        budget.lost_activities = gap
            .interference
            .map(|count| u64::from(count).saturating_sub(shown));
        let held_something =
            !activities.is_empty() || gap.light_exits > 0 || gap.heavy_exits > 0 || gap.reloads > 0;
        let residual_share = match budget.is_incomplete() {
            true => Share::Unexplained,
            false => residual_share(context.sight, held_something),
        };

        let mut residual_ns = sweep.run(start_ns, end_ns, activities);
        let own_steal_ns = match context.sight.has_activity_steal() {
            true => own_steal.run(activities, sweep.net_ns()),
            false => &[],
        };
        for (index, activity) in activities.iter().enumerate() {
            let robbed_ns = own_steal_ns.get(index).copied().unwrap_or(0);
            let mut ns = sweep.net_ns()[index] - robbed_ns;
            let source = context.names.defined(activity.source);
            if activity.kind == ActivityKind::Exit && ns > 0 {
                let surplus_ns = kvm_surplus_ns(activities, index, ns, context);
                push(
                    budget,
                    Part {
                        share: residual_share,
                        source,
                        ns: surplus_ns,
                        count: 1,
                    },
                );
                ns -= surplus_ns;
            }
            push(
                budget,
                Part {
                    share: context.sight.share_of(activity.kind),
                    source,
                    ns,
                    count: 1,
                },
            );
        }

        let robbed_ns: u64 = own_steal_ns.iter().sum();
        let one_clock = context.sight.has_one_steal_clock();
        let mut steal_ns = if one_clock { robbed_ns } else { 0 };
        *steal_clamped = false;
        if context.sight.has_steal_clock() {
            let placed_ns = match one_clock {
                true => robbed_ns,
                false => witnessed_waiting_ns(start_ns, end_ns, activities),
            };
            let stolen = steal(gap.steal_ns, placed_ns, residual_ns, dur_ns);
            *steal_clamped = stolen.clamped;
            residual_ns -= stolen.share_ns;
            steal_ns += stolen.share_ns;
        }
        if !one_clock {
            residual_ns += robbed_ns;
        }
        push(
            budget,
            Part {
                share: Share::Steal,
                source: None,
                ns: steal_ns,
                count: 0,
            },
        );
        push(
            budget,
            Part {
                share: residual_share,
                source: None,
                ns: residual_ns,
                count: 0,
            },
        );
    }

    /// One part for each activity, steal and the residual, before [`Self::settle`].
    pub(crate) fn pieces(&self) -> &[Part] {
        &self.budget.parts
    }

    /// Adds the pieces of each source up and puts the largest first.
    pub(crate) fn settle(&mut self) -> &Budget {
        add_up(&mut self.budget.parts);
        largest_first(&mut self.budget.parts);
        &self.budget
    }

    /// Whether the steal clock claimed more than the whole gap.
    pub(crate) fn steal_was_clamped(&self) -> bool {
        self.steal_clamped
    }
}

fn push(budget: &mut Budget, part: Part) {
    if part.ns > 0 {
        budget.parts.push(part);
    }
}

fn kvm_surplus_ns(activities: &[Activity], index: usize, kvm_ns: u64, context: Context<'_>) -> u64 {
    let inside = inside_exit(activities, index);
    if !inside.host_events {
        return 0;
    }
    let reason = context.names.defined(activities[index].source);
    context.kvm_bound.surplus_ns(reason, inside.vmm, kvm_ns)
}
