//! Explains the exits of vCPUs: reads the event stream, and reports each exit with its budget as
//! soon as it is final.

mod budget;
mod overlay;
mod place;
mod reported;
mod seen;
mod summary;
mod sums;

use std::cmp::Reverse;
use std::sync::Arc;

use vmnoise_events::{
    Activity, Event, ExitFilter, Finish, LossKind, OwnCost, RunFacts, SourceId, Vcpu, VcpuExit,
    VcpuId, VcpuTotals,
};

use crate::coverage;
use crate::exits::{ExitsSummary, summarize_exits};
use crate::longest::Longest;
use crate::losses::LossCounts;
use crate::names::Names;
use crate::piece::Piece;
use crate::usual_kvm::Held;
use crate::waiting::{Lasting, Waiting};
use overlay::{Due, HostWork};
use place::Stretch;
use seen::SeenVcpu;
use sums::Sums;

pub use budget::ExitBudget;
pub use reported::{LongestExit, NamedExit, TracedExit};
pub use summary::ExitsRun;

/// Maximum time by which an activity in an exit may end after the exit. An example is an interrupt
/// on the CPU from which a waiting vCPU was moved.
const GRACE_NS: u64 = 10_000_000;
/// Age at which the host's work is forgotten. Earlier work gets no names in an exit that lasts
/// longer. This limit bounds memory.
const HORIZON_NS: u64 = 10_000_000_000;

/// Rank of an exit by noise. Of two equal exits, the earlier exit ranks higher.
type Rank = (u64, Reverse<u64>, Reverse<u32>);

/// Explainer of the exits of one run over vCPUs. The explainer keeps the events between two
/// watermarks, some seconds of the host's work, the intervals and totals of each vCPU, and the
/// longest exits. It never keeps the whole run.
#[derive(Debug)]
pub struct ExitExplainer {
    facts: RunFacts,
    filter: ExitFilter,
    names: Names,
    /// Thread id at the end of each source's name, indexed by source id.
    tids: Vec<Option<u32>>,
    host: HostWork,
    /// vCPUs, ordered by id.
    vcpus: Vec<SeenVcpu>,
    waiting: Waiting<Placed>,
    longest: Longest<Rank, LongestExit>,
    trace: Option<Vec<TracedExit>>,
    /// Whether every exit is reported with its pieces.
    piece_by_piece: bool,
    sums: Sums,
    /// Upper bound of any sum over the totals of all vCPUs.
    counted: u64,
    losses: LossCounts,
    late_events: u64,
    own_cost: Option<OwnCost>,
    watermark_ns: u64,
    finish: Option<Finish>,
}

/// An exit, with the work of the host during the exit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverlaidExit<'a> {
    pub(crate) budget: &'a ExitBudget,
    pub(crate) vcpu: &'a Vcpu,
    /// Pieces in time order, without holes. Their lengths add up to the length of the exit. Empty
    /// if pieces were not requested.
    pub(crate) pieces: &'a [Piece],
    /// Whether the rest of the exit is known to be KVM's.
    pub(crate) knows_kvm: bool,
    /// KVM's time above its usual time. If the usual time is unknown, all of KVM's time.
    pub(crate) held: Held,
    pub(crate) names: &'a Names,
}

/// An exit that waits until all work of the host during the exit has arrived.
#[derive(Debug)]
struct Placed {
    exit: VcpuExit,
    stretches: Vec<Stretch>,
}

impl Lasting for Placed {
    fn begin(&self) -> u64 {
        self.exit.exit.start_mono_ns
    }

    fn end(&self) -> u64 {
        self.exit.exit.end_mono_ns
    }
}

impl ExitExplainer {
    /// Creates an explainer from the facts before the first event. Exits below the threshold in the
    /// facts, and exits that the filter excludes, are left out.
    pub fn new(facts: &RunFacts) -> Self {
        Self::start(facts, None)
    }

    /// Creates an explainer that also keeps every exit for [`Self::take_trace`].
    pub fn with_trace(facts: &RunFacts) -> Self {
        Self::start(facts, Some(Vec::new()))
    }

    /// Creates an explainer that passes every exit with its pieces to [`Self::take`], and keeps no
    /// longest exits.
    pub(crate) fn piece_by_piece(facts: &RunFacts) -> Self {
        Self {
            piece_by_piece: true,
            longest: Longest::new(0),
            ..Self::new(facts)
        }
    }

    fn start(facts: &RunFacts, trace: Option<Vec<TracedExit>>) -> Self {
        Self {
            facts: facts.clone(),
            filter: facts.options.exits.clone().unwrap_or_default(),
            names: Names::default(),
            tids: Vec::new(),
            host: HostWork::default(),
            vcpus: Vec::new(),
            waiting: Waiting::default(),
            longest: Longest::new(facts.options.top),
            trace,
            piece_by_piece: false,
            sums: Sums::default(),
            counted: 0,
            losses: LossCounts::default(),
            late_events: 0,
            own_cost: None,
            watermark_ns: 0,
            finish: None,
        }
    }

    /// Takes the next event. `on_budget` receives the exits that become final, in the order of
    /// their ends. Only a watermark or the finish makes exits final.
    pub fn push(&mut self, event: &Event, on_budget: &mut dyn FnMut(&ExitBudget)) {
        self.take(event, &mut |overlay| on_budget(overlay.budget));
    }

    /// Takes the next event. `on_exit` receives each exit with the work of the host during the
    /// exit.
    pub(crate) fn take(&mut self, event: &Event, on_exit: &mut dyn FnMut(OverlaidExit<'_>)) {
        match event {
            Event::Source(source) => {
                if !self.names.define(source) {
                    self.losses.find(LossKind::Undecodable);
                } else if self.tids.len() == source.id.0 as usize {
                    let tid = source.name.rsplit_once(':');
                    self.tids.push(tid.and_then(|(_, tid)| tid.parse().ok()));
                }
            }
            Event::Activity(activity) => self.add_activity(activity),
            Event::Vcpu(vcpu) => self.define(vcpu),
            Event::VcpuInterval(interval) => match self.seen(interval.vcpu) {
                Some(seen) if interval.start_mono_ns <= interval.end_mono_ns => seen.add(*interval),
                Some(_) => self.losses.find(LossKind::Unpaired),
                None => self.losses.find(LossKind::Undecodable),
            },
            Event::VcpuTotals(totals) => {
                if !self.add_totals(totals) {
                    self.losses.find(LossKind::Undecodable);
                }
            }
            Event::Exit(exit) => self.add_exit(exit),
            Event::Loss(loss) => self.losses.report(loss),
            Event::OwnCost(cost) => self.own_cost = Some(*cost),
            Event::Watermark(mono_ns) => {
                self.watermark_ns = self.watermark_ns.max(*mono_ns);
                self.advance(self.certain_to_ns(), self.watermark_ns, on_exit);
                let until_ns = self.watermark_ns.saturating_sub(HORIZON_NS);
                self.host.forget(until_ns, self.watermark_ns);
            }
            Event::Finish(finish) => {
                self.finish = Some(*finish);
                self.end(on_exit);
            }
            // The host's own clock dates all events.
            Event::Anchor(_) | Event::VcpuClock(_) => {}
            // In a run over vCPUs, no workload observes, counts or receives these events.
            Event::Gap(_)
            | Event::Activation(_)
            | Event::Tally(_)
            | Event::HostFrame(_)
            | Event::FeedTotals(_) => {
                self.losses.find(LossKind::Undecodable);
            }
        }
    }

    /// Returns the name of a source in the stream; `undefined` if the stream has not defined it.
    pub fn source_name(&self, id: SourceId) -> &str {
        self.names.name(Some(id))
    }

    /// Returns the exits that became final since the last call, in the order of their ends. Returns
    /// none if the trace was not requested.
    pub fn take_trace(&mut self) -> Vec<TracedExit> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns whether [`Self::take_trace`] has exits. The caller asks this after each event,
    /// because few events make exits final.
    pub fn has_trace(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| !trace.is_empty())
    }

    /// Returns all exits according to the last totals, for the live view.
    pub fn exits(&self) -> ExitsSummary {
        let counted = self
            .vcpus
            .iter()
            .filter_map(|seen| Some((&*seen.vcpu, seen.totals.as_ref()?)));
        summarize_exits(counted, &self.filter, &self.facts.witnesses)
    }

    /// Explains all exits that still wait, as if the stream was cut off here.
    pub fn run_out(&mut self, on_budget: &mut dyn FnMut(&ExitBudget)) {
        self.end(&mut |overlay| on_budget(overlay.budget));
    }

    /// Explains all exits that still wait. `on_exit` receives each exit with the work of the host
    /// during the exit.
    pub(crate) fn end(&mut self, on_exit: &mut dyn FnMut(OverlaidExit<'_>)) {
        self.advance(u64::MAX, u64::MAX, on_exit);
    }

    /// Returns the time up to which every exit has been reported, except late exits. The time is
    /// CLOCK_MONOTONIC in nanoseconds.
    pub(crate) fn certain_to_ns(&self) -> u64 {
        self.watermark_ns.saturating_sub(GRACE_NS)
    }

    /// Returns the summary. Without a `Finish` event, this call first explains all exits that still
    /// wait, and marks the summary as incomplete.
    pub fn finish(mut self) -> ExitsRun {
        self.run_out(&mut |_| {});
        let mut run = ExitsRun::summarize(self);
        coverage::state_of_exits(&mut run);
        run
    }

    fn define(&mut self, vcpu: &Vcpu) {
        let known = self.vcpus.len();
        match vcpu.id.0 as usize {
            id if id < known => self.vcpus[id].vcpu = Arc::new(vcpu.clone()),
            id if id == known => self.vcpus.push(SeenVcpu::new(vcpu.clone())),
            _ => self.losses.find(LossKind::Undecodable),
        }
    }

    fn seen(&mut self, id: VcpuId) -> Option<&mut SeenVcpu> {
        self.vcpus.get_mut(id.0 as usize)
    }

    /// Takes the totals of a vCPU. Returns `false` if the totals are impossible, or if a sum over
    /// all vCPUs would exceed a u64.
    fn add_totals(&mut self, totals: &VcpuTotals) -> bool {
        let others =
            |seen: &SeenVcpu| self.counted - seen.totals.as_ref().and_then(sums::most).unwrap_or(0);
        let Some(seen) = self.vcpus.get(totals.vcpu.0 as usize) else {
            return false;
        };
        let Some(counted) = sums::most(totals).and_then(|most| others(seen).checked_add(most))
        else {
            return false;
        };
        self.counted = counted;
        self.vcpus[totals.vcpu.0 as usize].count(totals.clone());
        true
    }

    fn add_activity(&mut self, activity: &Activity) {
        if activity.end_mono_ns < activity.start_mono_ns {
            self.losses.find(LossKind::Unpaired);
        } else if activity.end_mono_ns < self.watermark_ns {
            self.late_events += 1;
        } else {
            self.host.push(*activity);
        }
    }

    fn add_exit(&mut self, reported: &VcpuExit) {
        let late_before_ns = self.certain_to_ns();
        let Some(seen) = self.vcpus.get_mut(reported.vcpu.0 as usize) else {
            self.losses.find(LossKind::Undecodable);
            return;
        };
        let mut reported = *reported;
        if reported.exit.end_mono_ns < reported.exit.start_mono_ns {
            self.losses.find(LossKind::Unpaired);
            return;
        }
        if !budget::fit(&mut reported.exit) {
            self.losses.find(LossKind::Undecodable);
        }
        // Other exits and gaps at this time have already been explained without this exit.
        self.late_events += u64::from(reported.exit.end_mono_ns < late_before_ns);
        let intervals = seen.intervals_until(reported.exit.end_mono_ns);
        if budget::noise_ns(&reported.exit) < self.facts.options.threshold_ns
            || !self.filter.takes_vcpu(&seen.vcpu)
            || !self.filter.takes_reason(&reported.exit.reason.name())
        {
            return;
        }
        self.waiting.push(Placed {
            stretches: place::stretches(&reported.exit, &intervals),
            exit: reported,
        });
    }

    /// Explains the exits that ended by `until_ns`. All events before `horizon_ns` must have
    /// arrived.
    fn advance(
        &mut self,
        until_ns: u64,
        horizon_ns: u64,
        on_exit: &mut dyn FnMut(OverlaidExit<'_>),
    ) {
        let due = self.waiting.take(|ns| (ns <= until_ns).then_some(ns));
        let mut due: Vec<Placed> = due.into_iter().map(|(placed, _)| placed).collect();
        if due.is_empty() {
            return;
        }
        due.sort_by_key(|Placed { exit, .. }| {
            (exit.exit.end_mono_ns, exit.vcpu, exit.exit.start_mono_ns)
        });
        let exits: Vec<Due<'_>> = due
            .iter()
            .map(|Placed { exit, stretches }| Due {
                stretches,
                tid: self.vcpus[exit.vcpu.0 as usize].vcpu.tid,
                with_pieces: self.piece_by_piece
                    || self.trace.is_some()
                    || self.longest.wants(&rank(exit)),
            })
            .collect();
        let tids = &self.tids;
        let tid_of = |id: SourceId| tids.get(id.0 as usize).copied().flatten();
        let overlay = self.host.overlay(&exits, horizon_ns, tid_of);
        for (Placed { exit, .. }, overlay) in due.iter().zip(&overlay) {
            let names = &self.names;
            let budget = budget::budget(exit.vcpu, exit.exit, overlay, |id| names.defined(id));
            let vcpu = &self.vcpus[exit.vcpu.0 as usize].vcpu;
            let knows_kvm = vcpu.sees_kvm && self.facts.witnesses.see_kernel();
            let held = self.sums.add(&budget, knows_kvm);
            let named = || NamedExit::new(&budget, vcpu, names, &self.facts.witnesses);
            self.longest
                .see(rank(exit), || LongestExit::new(named(), overlay, names));
            if let Some(trace) = &mut self.trace {
                trace.push(TracedExit::new(named(), overlay, names));
            }
            on_exit(OverlaidExit {
                budget: &budget,
                vcpu,
                pieces: &overlay.pieces,
                knows_kvm,
                held,
                names,
            });
        }
    }
}

fn rank(reported: &VcpuExit) -> Rank {
    (
        budget::noise_ns(&reported.exit),
        Reverse(reported.exit.start_mono_ns),
        Reverse(reported.vcpu.0),
    )
}
