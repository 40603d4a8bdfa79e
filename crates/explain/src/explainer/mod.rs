//! Reads the event stream, and explains each gap or wake-up as soon as it is final.

mod summarize;

use std::collections::BTreeSet;

use vmnoise_events::{
    Activity, ActivityKind, CpuTally, Event, Finish, HostFrame, LossKind, OwnCost, RunFacts,
    SourceId,
};

use self::summarize::{named_so_far, summarize};
use crate::attribute::{Attribution, Explained};
use crate::clockmap::ClockMap;
use crate::cpu::{Cpu, Shared};
use crate::feed::Feed;
use crate::horizon::Horizon;
use crate::host_exits::HostExit;
use crate::interval::Interval;
use crate::ledger::PeriodLine;
use crate::losses::LossCounts;
use crate::named::NamedInterval;
use crate::names::Names;
use crate::stream_gaps::StreamGaps;
use crate::summary::Summary;
use crate::trace::{Trace, TraceLine};
use crate::visibility::{HostCoverage, Visibility};
use crate::wakeups::Room;
use crate::worst::Worst;

/// Receiver of the intervals of one stream, and source of the host's coverage.
pub(crate) struct Sinks<'a> {
    /// Function that returns the host's coverage of a CPU between two instants (CLOCK_MONOTONIC,
    /// ns).
    pub(crate) host_coverage: &'a dyn Fn(u32, u64, u64) -> HostCoverage,
    /// Receiver of each gap and wake-up that is final.
    pub(crate) on_interval: &'a mut dyn FnMut(&Explained<'_>),
}

/// Name of the time in which a vCPU still sleeps although its guest's timer is due.
pub const OVERSLEPT: &str = "asleep past the expiry";

/// Explainer of one run. The explainer keeps the events between two watermarks, sums per source,
/// and the longest gaps. It never keeps the whole run.
#[derive(Debug)]
pub struct Explainer {
    pub(crate) facts: RunFacts,
    pub(crate) visibility: Visibility,
    pub(crate) clock: ClockMap,
    pub(crate) names: Names,
    /// CPUs, ascending by number.
    pub(crate) cpus: Vec<Cpu>,
    /// Numbers of the CPUs that need a pass. A stream may list thousands of CPUs and have many
    /// watermarks.
    busy: BTreeSet<u32>,
    /// Numbers of the CPUs with reported or explained events since the last period.
    heard: BTreeSet<u32>,
    /// CPUs that need no pass: the time up to which each CPU has settled (CLOCK_MONOTONIC, ns), and
    /// its number.
    still: BTreeSet<(u64, u32)>,
    /// Index in `cpus` of the CPU of the last event. Consecutive events are often of the same CPU.
    recent: usize,
    attribution: Attribution,
    pub(crate) worst: Worst,
    /// Start of the earliest explained gap or wake-up, CLOCK_MONOTONIC in nanoseconds.
    first_interval_mono_ns: Option<u64>,
    waits_room: Room,
    room_ns: u64,
    trace: Option<Trace>,
    pub(crate) losses: LossCounts,
    stream_gaps: StreamGaps,
    pub(crate) late_activities: u64,
    pub(crate) own_cost: Option<OwnCost>,
    pub(crate) feed: Feed,
    watermark_ns: u64,
    /// Time of the last anchor before the TSC went back or a clock jumped once too often, in
    /// nanoseconds of CLOCK_MONOTONIC. `None` while the clocks are usable.
    pub(crate) clock_lost_ns: Option<u64>,
    pub(crate) finish: Option<Finish>,
}

impl Explainer {
    /// Creates an explainer from the facts before the first event.
    pub fn new(facts: &RunFacts) -> Self {
        Self::start(facts, None)
    }

    /// Creates an explainer that also keeps every trace line for [`Self::take_trace`].
    pub fn with_trace(facts: &RunFacts) -> Self {
        Self::start(facts, Some(Trace::default()))
    }

    /// Creates an explainer of a guest. The caller passes the exits of its vCPUs to
    /// [`Self::add_host_exit`].
    pub(crate) fn beside(facts: &RunFacts, host: &RunFacts) -> Self {
        let mut guest = Self::new(facts);
        Self {
            visibility: guest.visibility.beside(host),
            attribution: guest.attribution.beside(guest.names.of_host(OVERSLEPT)),
            ..guest
        }
    }

    fn start(facts: &RunFacts, trace: Option<Trace>) -> Self {
        let mut facts = facts.clone();
        let numbers = &mut facts.options.cpus;
        numbers.sort_unstable();
        numbers.dedup();
        let cpus = numbers.iter();
        let cpus = cpus.map(|number| Cpu::new(*number, trace.is_some()));
        let cpus: Vec<Cpu> = cpus.collect();
        let facts = &facts;
        Self {
            facts: facts.clone(),
            visibility: Visibility::new(facts),
            clock: ClockMap::new(&facts.clock),
            names: Names::default(),
            busy: cpus.iter().map(|cpu| cpu.number).collect(),
            heard: BTreeSet::new(),
            still: BTreeSet::new(),
            cpus,
            recent: 0,
            attribution: Attribution::new(facts),
            worst: Worst::new(facts.options.top),
            first_interval_mono_ns: None,
            waits_room: Room::default(),
            room_ns: u64::MAX,
            trace,
            losses: LossCounts::default(),
            stream_gaps: StreamGaps::default(),
            late_activities: 0,
            own_cost: None,
            feed: Feed::default(),
            watermark_ns: 0,
            clock_lost_ns: None,
            finish: None,
        }
    }

    /// Takes the next event. `on_interval` receives the gaps, or the wake-ups of periodic tasks,
    /// that become final, CPU by CPU, ordered by start. Only a watermark or the finish makes
    /// intervals final.
    pub fn push(&mut self, event: &Event, on_interval: &mut dyn FnMut(&Interval)) {
        self.take(event, alone(&mut |it| on_interval(it.interval)));
    }

    /// Takes the next event of a guest with a host. All exits up to the end of a gap must be added
    /// before the event that makes this gap final.
    pub(crate) fn take(&mut self, event: &Event, sinks: Sinks<'_>) {
        self.stream_gaps.see(event);
        if self.clock_lost_ns.is_some() && !is_of_run(event) {
            return;
        }
        match event {
            Event::Source(source) => {
                if !self.names.define(source) {
                    self.losses.find(LossKind::Undecodable);
                }
            }
            // In a run of observed threads or periodic tasks, no workload observes gaps.
            Event::Gap(_) if self.visibility.is_observed() || self.visibility.is_timer() => {
                self.losses.find(LossKind::Undecodable);
            }
            Event::Gap(gap) => self.cpu_mut(gap.cpu).add_gap(*gap),
            Event::Activation(activation) if self.visibility.is_timer() => {
                self.cpu_mut(activation.cpu).add_activation(*activation);
            }
            Event::Activation(_) => self.losses.find(LossKind::Undecodable),
            Event::Activity(activity) => self.add_activity(activity),
            Event::Anchor(anchor) if self.clock.is_lost_at(anchor) => self.end_trust(),
            Event::Anchor(anchor) => {
                if !self.clock.add(anchor) {
                    self.losses.find(LossKind::Undecodable);
                }
            }
            Event::Tally(tally) => self.cpu_mut(tally.cpu).add_tally(*tally),
            // A run with gaps or wake-ups traces no vCPUs, so the writer of this stream was wrong.
            Event::Vcpu(_)
            | Event::VcpuClock(_)
            | Event::Exit(_)
            | Event::VcpuInterval(_)
            | Event::VcpuTotals(_) => {
                self.losses.find(LossKind::Undecodable);
            }
            Event::HostFrame(_) | Event::FeedTotals(_) if !self.visibility.may_have_feed() => {
                self.losses.find(LossKind::Undecodable);
            }
            // The host's own recording has more detail.
            Event::HostFrame(_) | Event::FeedTotals(_) if self.visibility.is_joined() => {}
            Event::HostFrame(frame) => self.add_frame(frame),
            Event::FeedTotals(totals) => self.feed.report(*totals),
            Event::Loss(loss) => self.losses.report(loss),
            Event::OwnCost(cost) => self.own_cost = Some(*cost),
            Event::Watermark(mono_ns) => {
                self.watermark_ns = self.watermark_ns.max(*mono_ns);
                self.advance(Horizon::To(self.watermark_ns), sinks);
                self.clock.prune();
            }
            Event::Finish(finish) => {
                self.finish = Some(*finish);
                self.end(sinks);
            }
        }
    }

    /// Stops using the clock, because it jumped after its last anchor. Gaps and wake-ups that ended
    /// after this anchor cannot be dated, so they are forgotten.
    fn end_trust(&mut self) {
        let Self { clock, cpus, .. } = self;
        let last_ns = clock.span_mono_ns().map(|(_, last_ns)| last_ns);
        self.clock_lost_ns = last_ns;
        for cpu in cpus {
            cpu.forget_undated(clock, last_ns.unwrap_or(0));
        }
    }

    /// Returns the id of a source on the host, given by name.
    pub(crate) fn name_of_host(&mut self, name: &str) -> SourceId {
        self.names.of_host(name)
    }

    /// Sets the error bound of the times of exits on this CPU. Must be called before the first
    /// exit.
    pub(crate) fn bind_host_exits(&mut self, cpu: u32, bound_ns: u64) {
        self.cpu_mut(cpu).bind_host_exits(bound_ns);
    }

    /// Takes an exit of the vCPU that is this CPU of the guest. Exits of one vCPU must come in the
    /// order of their ends.
    pub(crate) fn add_host_exit(&mut self, cpu: u32, exit: HostExit) {
        self.cpu_mut(cpu).add_host_exit(exit);
    }

    /// Returns the CPU and the end time (CLOCK_MONOTONIC, ns) of each gap and wake-up that this
    /// watermark would make final. A watermark of `None` stands for the end of the stream.
    pub(crate) fn due_ends(&self, watermark_ns: Option<u64>) -> impl Iterator<Item = (u32, u64)> {
        let horizon = watermark_ns.map_or(Horizon::End, Horizon::To);
        // No gap or wake-up waits on the other CPUs.
        let busy = self.busy.iter().filter_map(|number| self.cpu(*number));
        busy.flat_map(move |cpu| {
            let ends = cpu.due_ends(horizon, &self.clock);
            ends.map(|end_ns| (cpu.number, end_ns))
        })
    }

    /// Returns the name of a source in the stream; `undefined` if the stream has not defined it.
    pub fn source_name(&self, id: SourceId) -> &str {
        self.names.name(Some(id))
    }

    /// Returns the window that the counters in `tally` cover (start and end, CLOCK_MONOTONIC, ns).
    /// Also returns the nanoseconds in this window in which the workload observed nothing.
    pub fn looked(&self, tally: &CpuTally) -> ((u64, u64), u64) {
        let mono_ns = |tsc| self.clock.mono_ns(tsc);
        let blind_ns = self.clock.whole_ns(tally.blind_tsc.unwrap_or(0));
        (
            (mono_ns(tally.first_tsc), mono_ns(tally.last_tsc)),
            blind_ns,
        )
    }

    /// Returns the losses of each CPU, ascending by CPU, in the gaps explained since the last call.
    /// The first call returns the losses since the start. The live view shows these losses.
    pub fn take_period(&mut self) -> Vec<PeriodLine> {
        let (visibility, clock, facts) = (&self.visibility, &self.clock, &self.facts);
        self.cpus
            .iter_mut()
            .filter(|cpu| cpu.belongs_to_result(facts))
            .map(|cpu| cpu.take_period(visibility, clock))
            .collect()
    }

    /// Returns the lines of [`Self::take_period`], but only for CPUs with events since the last
    /// call. A stream may list thousands of CPUs, so unused CPUs are skipped.
    pub fn take_heard_period(&mut self) -> Vec<PeriodLine> {
        let heard = std::mem::take(&mut self.heard);
        let (visibility, clock, facts) = (&self.visibility, &self.clock, &self.facts);
        let cpus = &mut self.cpus;
        let lines = heard.into_iter().filter_map(|number| {
            let place = cpus.binary_search_by_key(&number, |cpu| cpu.number).ok()?;
            let cpu = cpus[place]
                .belongs_to_result(facts)
                .then_some(&mut cpus[place])?;
            Some(cpu.take_period(visibility, clock))
        });
        lines.collect()
    }

    /// Returns the trace lines that became final since the last call, in order. Returns none if the
    /// trace was not requested.
    pub fn take_trace(&mut self) -> Vec<TraceLine> {
        self.trace.as_mut().map(Trace::take).unwrap_or_default()
    }

    /// Returns whether [`Self::take_trace`] has lines. The caller asks this after each event,
    /// because few events release lines.
    pub fn has_trace(&self) -> bool {
        self.trace.as_ref().is_some_and(Trace::is_ready)
    }

    /// Returns the longest gap so far, for the live view.
    pub fn longest_so_far(&self) -> Option<NamedInterval> {
        let longest = self.worst.longest()?;
        Some(self.named(longest))
    }

    /// Returns a gap or wake-up with the names of its culprits, for the live view.
    pub fn named(&self, interval: &Interval) -> NamedInterval {
        named_so_far(self, interval)
    }

    /// Explains all events that still wait, as if the stream was cut off here.
    pub fn run_out(&mut self, on_interval: &mut dyn FnMut(&Interval)) {
        self.end(alone(&mut |it| on_interval(it.interval)));
    }

    /// Explains all events that still wait, for a guest with a host.
    pub(crate) fn end(&mut self, sinks: Sinks<'_>) {
        if self.visibility.dates_by_tsc() && !self.clock.has_anchor() {
            self.visibility = self.visibility.undated();
        }
        self.advance(Horizon::End, sinks);
    }

    /// Returns the time from which the times in results count, in nanoseconds of CLOCK_MONOTONIC.
    /// This is the first reading of a workload. If the first gap or wake-up starts earlier, or if
    /// no reading has a known time, it is the start of that gap or wake-up.
    pub(crate) fn origin_mono_ns(&self) -> Option<u64> {
        let started_ns = self.cpus.iter().filter_map(|cpu| cpu.started_mono_ns);
        started_ns.chain(self.first_interval_mono_ns).min()
    }

    /// Returns the summary. Without a `Finish` event, this call first explains all events that
    /// still wait, and marks the summary as incomplete.
    pub fn finish(mut self) -> Summary {
        self.run_out(&mut |_| {});
        summarize(self)
    }

    /// Adds a frame of the host. A frame about an unmeasured CPU is ignored, but is no error.
    fn add_frame(&mut self, frame: &HostFrame) {
        let Some(number) = self.feed.cpu_of(frame, &self.facts, &self.clock) else {
            return;
        };
        if self.facts.options.cpus.binary_search(&number).is_err() {
            return;
        }
        let cpu = self.cpu_mut(number);
        let started_tsc = cpu.tally.map(|tally| tally.first_tsc);
        if !cpu.host.take(frame, started_tsc) {
            self.feed.refuse();
        }
    }

    fn add_activity(&mut self, activity: &Activity) {
        if activity.end_mono_ns < activity.start_mono_ns {
            self.losses.find(LossKind::Unpaired);
        } else if self.is_late(activity) {
            self.late_activities += 1;
        } else {
            self.cpu_mut(activity.cpu).add_activity(*activity);
        }
    }

    /// Returns whether an activity arrived too late. A sleep ends at the wake-up but is reported
    /// only when its thread has the CPU again. Even then the sleep is not late, because the gap
    /// with the sleep and the following wait ends no earlier.
    fn is_late(&mut self, activity: &Activity) -> bool {
        match activity.kind {
            ActivityKind::Blocked => self.cpu_mut(activity.cpu).has_forgotten(activity),
            _ => activity.end_mono_ns < self.watermark_ns,
        }
    }

    /// Returns the CPU with this number; adds it if the options do not name it.
    fn cpu_mut(&mut self, number: u32) -> &mut Cpu {
        let is_recent = |cpu: &Cpu| cpu.number == number && cpu.is_heard && cpu.is_busy;
        if !self.cpus.get(self.recent).is_some_and(is_recent) {
            self.recent = self.hear(number);
        }
        &mut self.cpus[self.recent]
    }

    /// Marks this CPU as heard and busy, and returns its index.
    fn hear(&mut self, number: u32) -> usize {
        let place = match self.cpus.binary_search_by_key(&number, |cpu| cpu.number) {
            Ok(found) => found,
            Err(place) => {
                let cpu = Cpu::new(number, self.trace.is_some());
                self.cpus.insert(place, cpu);
                // A new CPU is already marked as busy, so the code below does not insert it.
                self.busy.insert(number);
                place
            }
        };
        let cpu = &mut self.cpus[place];
        if !std::mem::replace(&mut cpu.is_heard, true) {
            self.heard.insert(number);
        }
        if !std::mem::replace(&mut cpu.is_busy, true) {
            self.busy.insert(number);
        }
        place
    }

    fn cpu(&self, number: u32) -> Option<&Cpu> {
        let place = self.cpus.binary_search_by_key(&number, |cpu| cpu.number);
        place.ok().map(|place| &self.cpus[place])
    }

    fn advance(&mut self, horizon: Horizon, sinks: Sinks<'_>) {
        let Self {
            clock,
            visibility,
            names,
            attribution,
            cpus,
            busy,
            heard,
            still,
            worst,
            first_interval_mono_ns,
            facts,
            trace,
            waits_room,
            room_ns,
            stream_gaps,
            ..
        } = self;
        let timer = facts.options.timer.as_ref();
        let mut settled_ns = u64::MAX;
        let mut shared = Shared {
            clock,
            visibility,
            names,
            attribution,
            threshold_ns: facts.options.threshold_ns,
            stream_gaps,
            host_coverage: sinks.host_coverage,
            trace: trace.as_mut(),
            timer_period_ns: timer.map_or(0, |timer| timer.period_ns),
            waits_room,
            room_ns,
        };
        busy.retain(|number| {
            let Ok(place) = cpus.binary_search_by_key(number, |cpu| cpu.number) else {
                return false;
            };
            let cpu = &mut cpus[place];
            still.remove(&(cpu.settled_ns, *number));
            cpu.settled_ns = cpu.advance(horizon, &mut shared, &mut |explained| {
                worst.see(explained.interval);
                let start_ns = explained.interval.start_mono_ns;
                let first_ns = first_interval_mono_ns.get_or_insert(start_ns);
                *first_ns = start_ns.min(*first_ns);
                heard.insert(*number);
                (sinks.on_interval)(explained);
            });
            settled_ns = settled_ns.min(cpu.settled_ns);
            if !cpu.is_busy {
                still.insert((cpu.settled_ns, *number));
            }
            cpu.is_busy
        });
        if let Some((first_ns, _)) = still.first() {
            settled_ns = settled_ns.min(*first_ns);
        }
        if let Some(trace) = trace {
            match horizon {
                Horizon::To(mono_ns) => trace.release(settled_ns, mono_ns),
                Horizon::End => trace.release(u64::MAX, u64::MAX),
            }
        }
    }
}

/// Returns whether an event concerns the whole run. Such an event is used even without a valid
/// clock.
fn is_of_run(event: &Event) -> bool {
    matches!(
        event,
        Event::Source(_)
            | Event::Loss(_)
            | Event::OwnCost(_)
            | Event::FeedTotals(_)
            | Event::Watermark(_)
            | Event::Finish(_)
    )
}

/// Returns sinks for a stream without a host.
fn alone<'a>(on_interval: &'a mut dyn FnMut(&Explained<'_>)) -> Sinks<'a> {
    Sinks {
        host_coverage: &|_, _, _| HostCoverage::None,
        on_interval,
    }
}
