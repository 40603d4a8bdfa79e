//! Turns one gap and the activities that overlap it into its budget.

use vmnoise_events::{Activity, ActivityKind, Gap, Share};

use crate::below::take::Take;
use crate::below::{BelowExit, Met};
use crate::budget::Budget;
use crate::interference::Interference;
use crate::kvm_bound::KvmBound;
use crate::names::Names;
use crate::own_steal::OwnSteal;
use crate::part::{self, Part};
use crate::residual::residual_share;
use crate::sight::{Sight, Testimony};
use crate::steal::steal;
use crate::sweep::Sweep;

/// What attribution looks things up in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) sight: &'a Sight,
    pub(crate) names: &'a Names,
    pub(crate) kvm_bound: &'a KvmBound,
    /// What the host says of this gap.
    pub(crate) testimony: Testimony,
    /// As [`crate::below::BelowLine::blur_ns`].
    pub(crate) blur_ns: u64,
    /// Whether an exit may lie in this gap, as far as its clock is known.
    pub(crate) is_near_exit: bool,
    /// Whether records of what lay in it may have been lost.
    pub(crate) may_have_lost: bool,
}

/// One gap as it was explained.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explained<'a> {
    pub(crate) budget: &'a Budget,
    /// What exits do not tell, activity by activity, steal and the residual included; empty
    /// without a host's recording.
    pub(crate) own: &'a [Part],
    /// The exits of its vCPU that overlap it, in the order of time.
    pub(crate) exits: &'a [BelowExit],
    /// What each of them had of it.
    pub(crate) met: &'a [Met],
    /// The share of what is left over.
    pub(crate) residual: Share,
    /// Whether it is long enough for the clock of its host.
    pub(crate) is_sure: bool,
    pub(crate) names: &'a Names,
}

/// Attribution of one gap after another; all memory is reused.
#[derive(Debug)]
pub(crate) struct Attribution {
    sweep: Sweep,
    take: Take,
    own_steal: OwnSteal,
    /// Scratch: activities without the steal that their host places.
    robbed: Vec<Activity>,
    budget: Budget,
    own: Vec<Part>,
    residual: Share,
    is_sure: bool,
    steal_clamped: bool,
}

impl Default for Attribution {
    fn default() -> Self {
        Self {
            sweep: Sweep::default(),
            take: Take::default(),
            own_steal: OwnSteal::default(),
            robbed: Vec::new(),
            budget: Budget::default(),
            own: Vec::new(),
            residual: Share::HvOrHw,
            is_sure: true,
            steal_clamped: false,
        }
    }
}

impl Attribution {
    /// Cuts `gap`, which begins at `start_ns` and lasts `dur_ns`, into parts: one
    /// for each activity that owns time of it, in their order, then the rest, then what
    /// each exit of its vCPU had.
    pub(crate) fn cut(
        &mut self,
        gap: &Gap,
        start_ns: u64,
        dur_ns: u64,
        activities: &[Activity],
        exits: &mut [BelowExit],
        context: Context<'_>,
    ) {
        let end_ns = start_ns + dur_ns;
        self.is_sure = dur_ns > context.blur_ns;
        self.begin(gap, start_ns, dur_ns, activities, context);
        let Self {
            sweep,
            take,
            own_steal,
            robbed,
            budget,
            own,
            residual,
            is_sure,
            steal_clamped,
        } = self;
        budget.exits_below = exits.len() as u32;
        let held_something = !activities.is_empty() || budget.holds_exit() || context.is_near_exit;
        let may_have_held = context.testimony == Testimony::None && context.may_have_lost;
        let residual_share = match budget.is_incomplete() {
            true => Share::Unexplained,
            false => residual_share(
                context.sight,
                held_something || may_have_held,
                *is_sure,
                context.testimony,
            ),
        };
        *residual = residual_share;

        if context.sight.is_joined() {
            take.clear();
        }
        let mut robbed_of = activities;
        let (mut residual_ns, net_ns) = match exits.is_empty() {
            true => (sweep.run(start_ns, end_ns, activities), sweep.net_ns()),
            false => {
                let left_ns = take.run(
                    sweep,
                    (start_ns, end_ns),
                    activities,
                    exits,
                    context.blur_ns,
                );
                if context.sight.has_activity_steal() && context.sight.has_one_steal_clock() {
                    take.place_steal(activities, robbed);
                    robbed_of = robbed;
                }
                (left_ns, take.net_ns())
            }
        };
        let own_steal_ns = match context.sight.has_activity_steal() {
            true => own_steal.run(robbed_of, net_ns),
            false => &[],
        };
        for (index, activity) in activities.iter().enumerate() {
            let robbed_ns = own_steal_ns.get(index).copied().unwrap_or(0);
            let mut ns = net_ns[index] - robbed_ns;
            let source = context.names.defined(activity.source);
            if activity.kind == ActivityKind::Exit && ns > 0 {
                let held = context
                    .kvm_bound
                    .judge(activities, index, ns, context.names);
                push(
                    budget,
                    Part::of_one(residual_share, source, held.surplus_ns),
                );
                ns -= held.surplus_ns;
                budget.unbounded_kvm_ns += held.unbounded_ns;
            }
            let share = context.sight.share_of(activity.kind);
            push(budget, Part::of_one(share, source, ns));
        }

        let robbed_ns: u64 = own_steal_ns.iter().sum();
        let one_clock = context.sight.has_one_steal_clock();
        let mut steal_ns = if one_clock { robbed_ns } else { 0 };
        *steal_clamped = false;
        if context.sight.has_steal_clock() {
            let placed_ns = match one_clock {
                true => robbed_ns + take.waited_ns(start_ns, end_ns),
                false => take.waited_beside_ns(start_ns, end_ns, activities),
            };
            let stolen = steal(gap.steal_ns, placed_ns, residual_ns, dur_ns);
            *steal_clamped = stolen.clamped;
            residual_ns -= stolen.share_ns;
            steal_ns += stolen.share_ns;
        }
        if !one_clock {
            residual_ns += robbed_ns;
        }
        push(budget, Part::of_nobody(Share::Steal, steal_ns));
        push(budget, Part::of_nobody(residual_share, residual_ns));
        if context.sight.is_joined() {
            own.clone_from(&budget.parts);
            take.name_residual(residual_share);
            book_exits(budget, exits, take.met());
        }
    }

    /// Starts the budget with what the gap itself says.
    fn begin(
        &mut self,
        gap: &Gap,
        start_ns: u64,
        dur_ns: u64,
        activities: &[Activity],
        context: Context<'_>,
    ) {
        let mut parts = std::mem::take(&mut self.budget.parts);
        parts.clear();
        let interference = Interference::of_gap(context.sight, gap.interference, activities);
        let shown = interference.activities();
        let lost = |count: u32| u64::from(count).saturating_sub(shown);
        self.budget = Budget {
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
            witnessed: matches!(context.testimony, Testimony::Host { .. }),
            exits_below: 0,
            unbounded_kvm_ns: 0,
            interference,
            lost_activities: gap.interference.map(lost),
        };
    }

    /// One part for each activity, steal, the residual and each party to each exit, before
    /// [`Self::settle`].
    pub(crate) fn pieces(&self) -> &[Part] {
        &self.budget.parts
    }

    /// Adds the pieces of each source up and puts the largest first.
    pub(crate) fn settle(&mut self) {
        part::settle(&mut self.budget.parts);
    }

    /// The gap that was cut last; `exits` are those it was cut with.
    pub(crate) fn explained<'a>(
        &'a self,
        exits: &'a [BelowExit],
        names: &'a Names,
    ) -> Explained<'a> {
        Explained {
            budget: &self.budget,
            own: &self.own,
            exits,
            met: self.take.met(),
            residual: self.residual,
            is_sure: self.is_sure,
            names,
        }
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

/// Books what the exits had. They are counted where the workload has not counted them.
fn book_exits(budget: &mut Budget, exits: &[BelowExit], met: &[Met]) {
    budget.parts.extend(met.iter().flat_map(|met| &met.parts));
    let each = exits.iter().zip(met);
    let unbounded = each.clone().map(|(exit, met)| met.unbounded_kvm_ns(exit));
    budget.unbounded_kvm_ns = unbounded.fold(budget.unbounded_kvm_ns, u64::saturating_add);
    let first = each.filter(|(_, met)| met.first);
    if budget.light_exits == 0 && budget.heavy_exits == 0 {
        let heavy = first.clone().filter(|(exit, _)| exit.heavy).count();
        budget.heavy_exits = heavy as u32;
        budget.light_exits = (first.count() - heavy) as u32;
    }
}
