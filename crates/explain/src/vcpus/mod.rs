//! Explains the exits of vCPUs: takes the stream event by event; budgets come out as soon
//! as they are certain.

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

/// An activity under an exit may end this much later than the exit: an interrupt on the CPU
/// that a waiting vCPU was taken from.
const GRACE_NS: u64 = 10_000_000;
/// What the host did longer ago than this finds no name in an exit that is not over: memory
/// has an end.
const HORIZON_NS: u64 = 10_000_000_000;

/// By its noise; of equals the earlier ranks higher.
type Rank = (u64, Reverse<u64>, Reverse<u32>);

/// Explains the exits of one run over vCPUs. Memory holds what lies between two watermarks,
/// some seconds of the host's work, what keeps each vCPU, its totals, and the longest
/// exits; never the run.
#[derive(Debug)]
pub struct ExitExplainer {
    facts: RunFacts,
    filter: ExitFilter,
    names: Names,
    /// By source: the thread that its name ends with.
    tids: Vec<Option<u32>>,
    host: HostWork,
    /// By id.
    vcpus: Vec<SeenVcpu>,
    waiting: Waiting<Placed>,
    longest: Longest<Rank, LongestExit>,
    trace: Option<Vec<TracedExit>>,
    /// Whether every exit is reported piece by piece.
    piece_by_piece: bool,
    sums: Sums,
    /// What any sum over the totals of all vCPUs is at most.
    counted: u64,
    losses: LossCounts,
    late_events: u64,
    own_cost: Option<OwnCost>,
    watermark_ns: u64,
    finish: Option<Finish>,
}

/// An exit, and what its host did meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverlaidExit<'a> {
    pub(crate) budget: &'a ExitBudget,
    pub(crate) vcpu: &'a Vcpu,
    /// In the order of time, without holes: they add up to the exit. Empty unless every
    /// exit is asked for piece by piece.
    pub(crate) pieces: &'a [Piece],
    /// Whether what nobody else had is KVM's.
    pub(crate) knows_kvm: bool,
    /// What is to be said of KVM's part.
    pub(crate) held: Held,
    pub(crate) names: &'a Names,
}

/// An exit until all that may lie under it has come.
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
    /// Starts with what was true before the first event. Exits below the threshold in the
    /// facts, or not asked for, are left out.
    pub fn new(facts: &RunFacts) -> Self {
        Self::start(facts, None)
    }

    /// As `new`, and keeps every exit for [`Self::take_trace`].
    pub fn with_trace(facts: &RunFacts) -> Self {
        Self::start(facts, Some(Vec::new()))
    }

    /// As `with_trace`, and tells [`Self::take`] every exit piece by piece, and none among the
    /// longest.
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

    /// Takes the next event. `on_budget` gets the exits that it makes certain: only a
    /// watermark or the finish does, in the order of their ends.
    pub fn push(&mut self, event: &Event, on_budget: &mut dyn FnMut(&ExitBudget)) {
        self.take(event, &mut |overlay| on_budget(overlay.budget));
    }

    /// As `push`, with what the host did during each exit.
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
            // The host's own clock dates all there is.
            Event::Anchor(_) | Event::VcpuClock(_) => {}
            // Nobody was there to observe, count or receive it.
            Event::Gap(_)
            | Event::Activation(_)
            | Event::Tally(_)
            | Event::HostFrame(_)
            | Event::FeedTotals(_) => {
                self.losses.find(LossKind::Undecodable);
            }
        }
    }

    /// The name the stream gave to a source; `undefined` where it gave none.
    pub fn source_name(&self, id: SourceId) -> &str {
        self.names.name(Some(id))
    }

    /// The exits that are certain since the last call, in the order of their ends; none
    /// unless they were asked for.
    pub fn take_trace(&mut self) -> Vec<TracedExit> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether [`Self::take_trace`] has any to give: asked after each event, of which few have.
    pub fn has_trace(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| !trace.is_empty())
    }

    /// What all exits have come to by the last totals: for the live view.
    pub fn exits(&self) -> ExitsSummary {
        let counted = self
            .vcpus
            .iter()
            .filter_map(|seen| Some((&*seen.vcpu, seen.totals.as_ref()?)));
        summarize_exits(counted, &self.filter, &self.facts.witnesses)
    }

    /// Explains what still waits, as at the end of a stream that was cut off.
    pub fn run_out(&mut self, on_budget: &mut dyn FnMut(&ExitBudget)) {
        self.end(&mut |overlay| on_budget(overlay.budget));
    }

    /// As `run_out`, with what the host did during each exit.
    pub(crate) fn end(&mut self, on_exit: &mut dyn FnMut(OverlaidExit<'_>)) {
        self.advance(u64::MAX, u64::MAX, on_exit);
    }

    /// Every exit that ended by this instant was reported, unless it came late; CLOCK_MONOTONIC
    /// in nanoseconds.
    pub(crate) fn certain_to_ns(&self) -> u64 {
        self.watermark_ns.saturating_sub(GRACE_NS)
    }

    /// The summary of all that was fed. Without a `Finish` event it explains what is still
    /// waiting and is marked as not complete.
    pub fn finish(mut self) -> ExitsRun {
        self.run_out(&mut |_| {});
        ExitsRun::summarize(self)
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

    /// Takes what a vCPU has come to, unless it cannot be true: every sum over all vCPUs is a u64.
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
        // Whatever it was part of has been explained without it.
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

    /// Explains the exits that ended by this instant; all before `horizon_ns` is reported.
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
