//! Divides a gap or a wake-up into parts, one for each activity that owns time in it.

mod explained;

use vmnoise_events::{Activation, Activity, ActivityKind, Gap, RunFacts, Share, SourceId};

use crate::host_exits::subtract::Subtraction;
use crate::host_exits::{HostExit, Overlap};
use crate::interference::InterferenceColumns;
use crate::interval::{Detail, GapDetail, Interval, WakeupDetail};
use crate::kvm_bound::KvmBound;
use crate::names::Names;
use crate::own_steal::OwnSteal;
use crate::part::{self, Part};
use crate::phase::{Phase, Stretch, stretches};
use crate::residual::{Held, residual_share};
use crate::steal::steal;
use crate::sweep::Sweep;
use crate::visibility::{HostCoverage, Visibility};

pub(crate) use explained::{CutStretch, Explained};

/// Facts that attribution needs about an interval and its surroundings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) visibility: &'a Visibility,
    pub(crate) names: &'a Names,
    pub(crate) kvm_bound: &'a KvmBound,
    /// Coverage of this interval by the host's recording.
    pub(crate) host_coverage: HostCoverage,
    /// Clock error of the host's exits; see [`crate::host_exits::HostExits::blur_ns`].
    pub(crate) blur_ns: u64,
    /// Whether an exit may lie in this gap, given the clock error.
    pub(crate) is_near_exit: bool,
    /// Whether records of this interval may have been lost.
    pub(crate) may_have_lost: bool,
    /// Whether no posted interrupt came to the interval's CPU in this interval.
    pub(crate) is_unposted: bool,
}

/// Divides intervals into parts, one interval after another, and reuses its memory.
#[derive(Debug)]
pub(crate) struct Attribution {
    limits: Limits,
    /// Name of the time in which a vCPU still sleeps although its guest's timer is due.
    overslept: Option<SourceId>,
    sweep: Sweep,
    subtraction: Subtraction,
    own_steal: OwnSteal,
    /// Scratch memory: activities that can delay a segment.
    holding: Vec<Activity>,
    /// Scratch memory: activities without the steal that belongs to waits in known exits.
    minus_steal: Vec<Activity>,
    interval: Interval,
    /// Segments of the current interval; empty without a host's recording.
    stretches: Vec<CutStretch>,
    residual: Share,
    reports_exits: bool,
}

/// Minimum lengths of an interval that end the run.
#[derive(Debug, Default)]
struct Limits {
    gap_ns: Option<u64>,
    irq_ns: Option<u64>,
    thread_ns: Option<u64>,
}

/// Steal clocks that were read in a segment.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    /// Whether the workload read a steal clock at the start and at the end of the segment.
    own: bool,
    /// Whether a steal clock was read for each activity.
    activities: bool,
    /// Whether the workload and the activities read the same steal clock.
    one: bool,
}

impl Attribution {
    pub(crate) fn new(facts: &RunFacts) -> Attribution {
        let timer = facts.options.timer.as_ref();
        Attribution {
            limits: Limits {
                gap_ns: facts.options.stop_ns,
                irq_ns: timer.and_then(|timer| timer.stop_irq_ns),
                thread_ns: timer.and_then(|timer| timer.stop_thread_ns),
            },
            overslept: None,
            sweep: Sweep::default(),
            subtraction: Subtraction::default(),
            own_steal: OwnSteal::default(),
            holding: Vec::new(),
            minus_steal: Vec::new(),
            interval: Interval::default(),
            stretches: Vec::new(),
            residual: Share::Unexplained,
            reports_exits: false,
        }
    }

    /// Sets the name of the time in which a vCPU still sleeps although its guest's timer is due.
    pub(crate) fn beside(self, overslept: SourceId) -> Attribution {
        Attribution {
            overslept: Some(overslept),
            ..self
        }
    }

    /// Divides `gap`, which starts at `start_ns` and lasts `dur_ns`, into parts. First comes one
    /// part for each activity that owns time in the gap. The residual follows, and then the parts
    /// of each exit of the vCPU.
    pub(crate) fn gap(
        &mut self,
        gap: &Gap,
        (start_ns, dur_ns): (u64, u64),
        activities: &[Activity],
        exits: &mut [HostExit],
        context: Context<'_>,
    ) {
        let visibility = context.visibility;
        let interference = InterferenceColumns::of_gap(
            visibility,
            gap.interference,
            activities,
            context.may_have_lost,
        );
        let shown = interference.activities();
        let lost = |count: u32| u64::from(count).saturating_sub(shown);
        self.begin(gap.cpu, (start_ns, dur_ns), context);
        self.interval.detail = Detail::Gap(GapDetail {
            start_tsc: gap.start_tsc,
            end_tsc: gap.end_tsc,
            steal_clock_ns: gap.steal_ns,
            light_exits: gap.light_exits,
            heavy_exits: gap.heavy_exits,
            reloads: gap.reloads,
            exits_below: exits.len() as u32,
            unbounded_kvm_ns: 0,
            interference,
            lost_activities: gap.interference.map(lost),
        });
        let held_something =
            !activities.is_empty() || self.interval.holds_exit() || context.is_near_exit;
        let may_have_held = context.host_coverage == HostCoverage::None && context.may_have_lost;
        let residual = match self.interval.is_incomplete() {
            true => Share::Unexplained,
            false => residual_share(
                visibility,
                Held {
                    something: held_something || may_have_held,
                    is_sure: dur_ns > context.blur_ns,
                    is_unposted: context.is_unposted,
                    host_coverage: context.host_coverage,
                },
            ),
        };
        self.residual = residual;
        let whole = Stretch {
            phase: None,
            until: Phase::Return,
            start_ns,
            end_ns: start_ns + dur_ns,
            steal_ns: gap.steal_ns,
            run_delay_ns: match visibility.has_run_delay() {
                true => gap.run_delay_ns,
                false => 0,
            },
        };
        let clocks = Clocks {
            own: visibility.has_steal_clock(),
            activities: visibility.has_activity_steal(),
            one: visibility.has_one_steal_clock(),
        };
        self.cut(&whole, activities, exits, 0, clocks, context);
        if let Some(CutStretch { overlaps, .. }) = self.stretches.first()
            && let Detail::Gap(gap) = &mut self.interval.detail
        {
            count_exits(gap, exits, overlaps);
        }
        self.interval.hits_limit = self
            .limits
            .gap_ns
            .is_some_and(|limit_ns| dur_ns >= limit_ns);
    }

    /// Divides a wake-up, which ends after its expiry, into the parts of its phases. `activities`
    /// and `exits` overlap the wake-up and are sorted.
    pub(crate) fn wakeup(
        &mut self,
        activation: &Activation,
        activities: &[Activity],
        exits: &mut [HostExit],
        context: Context<'_>,
    ) {
        let start_ns = activation.expiry_mono_ns;
        let dur_ns = activation.woke_mono_ns.saturating_sub(start_ns);
        let late = |mono_ns: Option<u64>| {
            mono_ns.map(|mono_ns| mono_ns.saturating_sub(start_ns).min(dur_ns))
        };
        let mut detail = WakeupDetail {
            irq_ns: late(activation.irq_mono_ns),
            thread_ns: late(activation.switch_mono_ns),
            missed: activation.missed,
            ..WakeupDetail::default()
        };
        for stretch in stretches(activation) {
            let dur_ns = stretch.end_ns - stretch.start_ns;
            match stretch.phase {
                Some(phase) => detail.phases_ns[phase as usize] = Some(dur_ns),
                None => detail.unsplit_ns += dur_ns,
            }
        }
        self.begin(activation.cpu, (start_ns, dur_ns), context);
        self.interval.detail = Detail::Wakeup(detail);
        let Context {
            visibility,
            host_coverage,
            ..
        } = context;
        // Never `Hw`: idle states, sections with disabled interrupts, and the scheduler's own work
        // fire no event.
        self.residual = residual_share(
            visibility,
            Held {
                something: true,
                is_sure: true,
                is_unposted: false,
                host_coverage,
            },
        );
        // If the host's own exits show when the vCPU waited, the guest's steal clock adds nothing.
        let is_reported = self.interval.witnessed && visibility.host_sees_kvm();
        let has_steal = visibility.has_activity_steal() && !is_reported;
        let clocks = Clocks {
            own: has_steal,
            activities: has_steal,
            one: true,
        };
        let mut holding = std::mem::take(&mut self.holding);
        for stretch in stretches(activation) {
            let Stretch {
                phase,
                start_ns,
                end_ns,
                ..
            } = stretch;
            holding.clear();
            let holds = |activity: &&Activity| {
                activity.start_mono_ns < end_ns
                    && activity.end_mono_ns > start_ns
                    && can_hold(activity.kind, phase)
            };
            holding.extend(activities.iter().filter(holds));
            let first = exits.partition_point(|exit| exit.end_mono_ns <= start_ns);
            let after = exits.partition_point(|exit| exit.start_mono_ns < end_ns);
            let exits = &mut exits[first..after.max(first)];
            if start_ns < end_ns {
                let first_part = self.interval.parts.len();
                self.cut(&stretch, &holding, exits, first, clocks, context);
                let parts = self.interval.parts[first_part..].iter_mut();
                parts.for_each(|part| part.phase = phase);
            } else if visibility.is_joined() {
                self.stretches.push(CutStretch {
                    phase,
                    until: Some(stretch.until),
                    ..CutStretch::default()
                });
            }
        }
        self.holding = holding;
        self.settle();
        let reaches =
            |ns: Option<u64>, limit: Option<u64>| ns.zip(limit).is_some_and(|(ns, at)| ns >= at);
        self.interval.hits_limit = reaches(detail.irq_ns, self.limits.irq_ns)
            || reaches(Some(dur_ns), self.limits.thread_ns);
    }

    /// Starts the next interval. The caller then sets `detail`.
    fn begin(&mut self, cpu: u32, (start_mono_ns, dur_ns): (u64, u64), context: Context<'_>) {
        let interval = &mut self.interval;
        interval.cpu = cpu;
        interval.start_mono_ns = start_mono_ns;
        interval.dur_ns = dur_ns;
        interval.parts.clear();
        interval.witnessed = matches!(context.host_coverage, HostCoverage::Host { .. });
        interval.steal_clamped = false;
        interval.hits_limit = false;
        let is_whole = matches!(context.host_coverage, HostCoverage::Host { is_whole: true });
        self.reports_exits = is_whole && context.visibility.counts_exits();
        self.stretches.clear();
    }

    /// Assigns each nanosecond of a segment to one owner. `first_exit` is the index of the first of
    /// `exits` in the interval. The function is inlined into both callers, because there are many
    /// gaps.
    #[inline(always)]
    fn cut(
        &mut self,
        stretch: &Stretch,
        activities: &[Activity],
        exits: &mut [HostExit],
        first_exit: usize,
        clocks: Clocks,
        context: Context<'_>,
    ) {
        let Context {
            visibility, names, ..
        } = context;
        let Stretch {
            phase,
            start_ns,
            end_ns,
            ..
        } = *stretch;
        let Self {
            sweep,
            subtraction,
            own_steal,
            minus_steal,
            interval,
            ..
        } = self;
        let Interval { parts, detail, .. } = interval;
        let dur_ns = end_ns - start_ns;
        let residual = self.residual;
        let first_part = parts.len();
        let mut push = |part: Part| {
            if part.ns > 0 {
                parts.push(part);
            }
        };
        if visibility.is_joined() {
            subtraction.clear();
        }
        let mut minus_steal_of = activities;
        let (mut residual_ns, net_ns) = match exits.is_empty() {
            true => (sweep.run(start_ns, end_ns, activities), sweep.net_ns()),
            false => {
                let span_ns = (start_ns, end_ns);
                let left_ns = subtraction.run(sweep, span_ns, activities, exits, context.blur_ns);
                if clocks.activities && clocks.one {
                    subtraction.place_steal(activities, minus_steal);
                    minus_steal_of = minus_steal;
                }
                (left_ns, subtraction.net_ns())
            }
        };
        let clock_ns = if clocks.own { stretch.steal_ns } else { 0 };
        let waited_ns = match (clock_ns, clocks.one) {
            (0, _) => 0,
            (_, true) => subtraction.waited_ns(start_ns, end_ns),
            (_, false) => subtraction.waited_beside_ns(start_ns, end_ns, activities),
        };
        let own_steal_ns = match clocks.activities {
            true => own_steal.run(minus_steal_of, net_ns),
            false => &[],
        };
        let (mut all_stolen_ns, mut surplus_ns) = (0, 0);
        for (index, activity) in activities.iter().enumerate() {
            let mut stolen_ns = own_steal_ns.get(index).copied().unwrap_or(0);
            if let Detail::Wakeup(_) = detail {
                // An activity may extend beyond the segment and lose time there.
                let unplaced_ns = clock_ns.saturating_sub(waited_ns + all_stolen_ns);
                stolen_ns = stolen_ns.min(unplaced_ns);
            }
            all_stolen_ns += stolen_ns;
            let mut ns = net_ns[index] - stolen_ns;
            if ns == 0 {
                continue;
            }
            let source = names.defined(activity.source);
            if activity.kind == ActivityKind::Exit
                && let Detail::Gap(gap) = detail
            {
                let held = context.kvm_bound.judge(activities, index, ns, names);
                push(Part::of_one(residual, source, held.surplus_ns));
                ns -= held.surplus_ns;
                surplus_ns += held.surplus_ns;
                gap.unbounded_kvm_ns += held.unbounded_ns;
            }
            push(Part::of_one(visibility.share_of(activity.kind), source, ns));
        }
        // Without BPF, the scheduler still counts the run delay of the thread.
        let delay_ns = stretch.run_delay_ns.min(residual_ns);
        residual_ns -= delay_ns;
        push(Part::of_one(Share::Thread, None, delay_ns));
        let placed_ns = match clocks.one {
            true => all_stolen_ns + waited_ns,
            false => waited_ns,
        };
        let stolen = steal(clock_ns, placed_ns, residual_ns, dur_ns);
        residual_ns -= stolen.share_ns;
        let mut steal_ns = stolen.share_ns;
        match clocks.one {
            true => steal_ns += all_stolen_ns,
            false => residual_ns += all_stolen_ns,
        }
        push(Part::of_nobody(Share::Steal, steal_ns));
        push(Part::of_nobody(residual, residual_ns));
        interval.steal_clamped |= stolen.clamped;
        if !visibility.is_joined() {
            return;
        }
        let overslept = match detail {
            Detail::Gap(_) => None,
            Detail::Wakeup(_) => Some(self.overslept),
        };
        let is_own = |part: &&Part| !part.share.is_residual() && part.share != Share::Steal;
        let own = interval.parts[first_part..].iter().filter(is_own);
        let own: Vec<Part> = own.copied().collect();
        let mut overlaps = subtraction.take_overlaps();
        overlaps
            .iter_mut()
            .for_each(|it| name(it, residual, overslept));
        let of_exits = overlaps.iter().flat_map(|overlap| &overlap.parts);
        interval.parts.extend(of_exits);
        self.stretches.push(CutStretch {
            phase,
            until: Some(stretch.until),
            dur_ns,
            is_sure: dur_ns > context.blur_ns,
            own,
            steal_ns,
            residual_ns: residual_ns + surplus_ns,
            exits: first_exit..first_exit + exits.len(),
            overlaps,
        });
    }

    /// Returns the parts before [`Self::settle`]: one for each activity, one for steal, one for the
    /// residual, and one for each participant of each exit.
    pub(crate) fn pieces(&self) -> &[Part] {
        &self.interval.parts
    }

    /// Adds up the parts of each source, and sorts the largest first.
    pub(crate) fn settle(&mut self) {
        part::settle(&mut self.interval.parts);
    }

    /// Returns the last interval. `exits` must be the exits with which the interval was divided.
    pub(crate) fn explained<'a>(
        &'a self,
        exits: &'a [HostExit],
        names: &'a Names,
    ) -> Explained<'a> {
        Explained {
            interval: &self.interval,
            stretches: &self.stretches,
            exits,
            reports_exits: self.reports_exits,
            residual: self.residual,
            names,
            overslept: self.overslept,
        }
    }
}

/// Counts the host's exits in a gap, if the workload has not counted exits.
fn count_exits(gap: &mut GapDetail, exits: &[HostExit], overlaps: &[Overlap]) {
    let each = exits.iter().zip(overlaps);
    let unbounded = each
        .clone()
        .map(|(exit, overlap)| overlap.unbounded_kvm_ns(exit));
    gap.unbounded_kvm_ns = unbounded.fold(gap.unbounded_kvm_ns, u64::saturating_add);
    let first = each.filter(|(_, overlap)| overlap.first);
    if gap.light_exits == 0 && gap.heavy_exits == 0 {
        let heavy = first.clone().filter(|(exit, _)| exit.heavy).count();
        gap.heavy_exits = heavy as u32;
        gap.light_exits = (first.count() - heavy) as u32;
    }
}

/// Sets the share of the residual in an exit. In a wake-up, a halt becomes `Blocked`: the guest's
/// timer was due, so the guest no longer asked for this sleep.
fn name(overlap: &mut Overlap, residual: Share, overslept: Option<Option<SourceId>>) {
    for part in &mut overlap.parts {
        if part.share.is_residual() {
            part.share = residual;
        } else if part.share == Share::Halted
            && let Some(source) = overslept
        {
            part.share = Share::Blocked;
            part.source = source;
            part.count = 1;
        }
    }
}

/// Returns whether work of this kind can delay a wake-up in this phase. In [`Phase::Irq`], only
/// interrupts and NMIs can. Threads and softirqs run with interrupts enabled; if they disable
/// interrupts, no event of a stock kernel shows it.
fn can_hold(kind: ActivityKind, phase: Option<Phase>) -> bool {
    match phase {
        Some(Phase::Irq) => matches!(kind, ActivityKind::Irq | ActivityKind::Nmi),
        _ => true,
    }
}
