//! Source of a run that measures gaps or wake-ups of CPUs: the workload that observes them, and the
//! probes that name the culprits.

pub mod observed;
mod outer_steal;
mod own_stop;
mod posted;
pub mod probe_status;
pub mod set_up;
mod warm_up;

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use vmnoise_console::interrupt;
use vmnoise_console::units::to_tsc;
use vmnoise_events::{CpuTally, Event, Finish, FinishReason, Loss, LossKind, RunFacts};
use vmnoise_rights::AttachedWork;
use vmnoise_tracer::{SmiCounts, StopWitness, Tracer};
use vmnoise_workload::{RunningWorkload, tsc};

use self::outer_steal::OuterStealReadings;
use self::own_stop::OwnStop;
use self::posted::PostedInterruptCounts;
use self::warm_up::Baseline;
use super::at_stop::AskedAtStop;
use super::loss_news::LossNews;
use super::measure::{EventSource, SUBMIT_SLACK_NS, TICK};
use super::session::Session;
use crate::feed::receiver::HostFeed;

/// Time for which a workload runs after the last renewal of its lease. Without renewals, the
/// draining thread has probably hung.
const LEASE: Duration = Duration::from_secs(5);
/// Time between two renewals. A late drain must not end the lease. Writes to shared memory must be
/// so rare that they do not disturb the workload.
const RENEWAL: Duration = Duration::from_secs(1);
/// Longest time for which the end of a run waits for guests that get no CPU time.
const PATIENCE: Duration = Duration::from_secs(5);

/// A prepared workload and attached probes.
pub struct Cpus {
    facts: RunFacts,
    warm_up: Duration,
    workload: Box<dyn RunningWorkload>,
    tracer: Option<Tracer>,
    stop_witness: Option<StopWitness>,
    at_stop: AskedAtStop,
    smi: SmiCounts,
    feed: Option<HostFeed>,
    /// Whether the user named the feed. The name may be a socket, which is connected again when the
    /// host hangs up.
    feed_is_named: bool,
    outer_steal: OuterStealReadings,
    /// Counts of posted interrupts, if any may reach the polling threads.
    posted: Option<PostedInterruptCounts>,
    baseline: Baseline,
    loss_news: LossNews,
    events: Vec<Event>,
    next_renewal: Instant,
    /// Detector of a stop of this process; used only without a tracer.
    own_stop: Option<OwnStop>,
    /// TSC by which every thread of the workload must have ended.
    end_tsc: u64,
}

impl fmt::Debug for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cpus")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl EventSource for Cpus {
    fn works(&self) -> Vec<AttachedWork> {
        let hears = self.feed_is_named.then_some(AttachedWork::HearHost);
        [AttachedWork::Measure].into_iter().chain(hears).collect()
    }

    fn start(&mut self, session: &mut Session<'_>) -> Result<Option<Instant>> {
        if self.tracer.is_none() {
            self.own_stop = Some(OwnStop::watch().context("catching SIGCONT")?);
        }
        if self.warm_up.is_zero() {
            self.anchor(session);
        }
        let duration = Duration::from_nanos(self.facts.options.duration_ns);
        let length = self.warm_up + duration;
        let deadline = Instant::now() + length;
        // On a shared CPU, a workload with real-time priority could keep this thread from ending
        // it. The workload therefore gets a deadline.
        let deadline_tsc = self.facts.shares_cpu.then(|| self.tsc_in(length));
        self.renew();
        self.workload
            .start(deadline_tsc)
            .map_err(Error::from_boxed)?;
        if !self.warm_up.is_zero() {
            self.warm_up(session);
        }
        self.end_tsc = self.tsc_in(duration.saturating_add(RENEWAL));
        Ok(deadline_tsc.map(|_| deadline))
    }

    fn drain(&mut self, session: &mut Session<'_>) -> Result<()> {
        self.renew();
        self.drain_rings(session);
        Ok(())
    }

    fn period(&mut self, session: &mut Session<'_>, since_start: Duration) -> Result<bool> {
        self.counters(session);
        let outer_steal = self.outer_steal.of_period(self.tracer.as_ref());
        let lines = session.period(since_start, &outer_steal);
        let limit_ns = self.facts.options.stop_total_ns;
        let mut noise_ns = lines.iter().map(|line| line.noise_ns);
        Ok(limit_ns.is_some_and(|limit_ns| noise_ns.any(|ns| ns >= limit_ns)))
    }

    fn failure(&self) -> Option<String> {
        let error = self.workload.failure()?;
        Some(format!("the workload ended early: {error}"))
    }

    /// Stops the workload and reports the rest. Waits for a vCPU that gets no CPU time until
    /// `PATIENCE` has passed or the user asks again.
    fn end(&mut self, reason: FinishReason, session: &mut Session<'_>) -> Result<()> {
        if interrupt::was_asked_again() {
            return Ok(());
        }
        let end_mono_ns = self.anchor(session);
        self.workload.stop();
        let asked = Instant::now();
        while self.workload.running() && asked.elapsed() < PATIENCE && !interrupt::was_asked_again()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A workload that still runs is stopped, or gets no CPU time.
        if let Some(tracer) = &self.tracer
            && self.workload.running()
        {
            tracer.unfinished_stops(end_mono_ns, &mut |event| session.accept(&event));
        }
        let mono_ns = self.drain_rings(session);
        self.counters(session);
        if let (Some(witness), Some(hit)) = (&self.stop_witness, session.first_hit()) {
            let at_stop = self
                .at_stop
                .of(witness, hit.cpu, hit.start_mono_ns, hit.dur_ns);
            session.keep_at_stop(at_stop);
        }
        let steps_back = self.workload.clock_steps_back();
        if steps_back > 0 {
            session.shown().notice(&format!(
                "the TSC went back {steps_back} times: trust neither the clocks of this machine \
                 nor this result"
            ));
        }
        session.accept(&Event::Finish(Finish { reason, mono_ns }));
        Ok(())
    }
}

impl Cpus {
    /// Renews the lease of the workload, which shows that this thread can still end it.
    fn renew(&mut self) {
        let now = Instant::now();
        if now >= self.next_renewal {
            self.next_renewal = now + RENEWAL;
            let until_tsc = self.tsc_in(LEASE).min(self.end_tsc);
            self.workload.renew(until_tsc);
        }
    }

    /// Returns the value that the TSC will have after `time`.
    fn tsc_in(&self, time: Duration) -> u64 {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        tsc::now().saturating_add(to_tsc(ns, self.facts.clock.tsc_hz))
    }

    /// Measures for the warm-up time, and discards the events. Takes the baseline of all counters
    /// at the end of the warm-up.
    fn warm_up(&mut self, session: &mut Session<'_>) {
        let end = Instant::now() + self.warm_up;
        session.shown().warm_up(self.warm_up);
        while Instant::now() < end && !interrupt::was_asked() && self.workload.failure().is_none() {
            std::thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
            self.renew();
            self.discard(session);
            session.shown().turn();
        }
        self.outer_steal =
            OuterStealReadings::begin(&self.facts.options.cpus, self.tracer.as_ref());
        let begun_mono_ns = self.anchor(session);
        self.baseline = Baseline {
            begun_mono_ns,
            tallies: self.tallies(),
            losses: self.losses(),
            own_cost: self.tracer.as_ref().and_then(Tracer::own_cost),
        };
    }

    /// Drains the events since the last call, and keeps only the definitions of names.
    fn discard(&mut self, session: &mut Session<'_>) {
        if let Some(tracer) = &mut self.tracer {
            // If the ring has an error, the next drain whose events are kept has this error, too.
            let _ = tracer.drain(&mut |event| {
                if matches!(event, Event::Source(_)) {
                    session.accept(&event);
                }
            });
        }
        self.workload.drain(&mut |_| {});
        if let Some(feed) = &mut self.feed {
            feed.hold();
        }
    }

    /// Records a reading of the clocks, and returns its CLOCK_MONOTONIC in ns.
    fn anchor(&self, session: &mut Session<'_>) -> u64 {
        let anchor = tsc::anchor();
        session.accept(&Event::Anchor(anchor));
        anchor.mono_ns
    }

    /// Drains all events since the last call. Returns the time of the drain (CLOCK_MONOTONIC, ns).
    ///
    /// The order matters:
    /// 1. The clock is read first. Records of everything that ended before this reading are then
    ///    already in the rings.
    /// 2. The tallies come next. Every gap before the last reading of a tally is then among the
    ///    drained gaps.
    /// 3. The losses come last. Every loss before the watermark is then counted.
    fn drain_rings(&mut self, session: &mut Session<'_>) -> u64 {
        let mono_ns = self.anchor(session);
        let tallies = self.tallies().into_iter();
        let tallies: Vec<CpuTally> = tallies.map(|it| self.baseline.tally(it)).collect();
        for tally in &tallies {
            session.accept(&Event::Tally(*tally));
        }
        let events = &mut self.events;
        if let Some(own_stop) = &mut self.own_stop {
            let cpus = &self.facts.options.cpus;
            own_stop.report(cpus, mono_ns, &mut |event| events.push(event));
        }
        if let Some(tracer) = &mut self.tracer
            && let Err(error) = tracer.drain(&mut |event| events.push(event))
        {
            session.shown().notice(&format!(
                "reading the BPF ring buffer: {error}; activities are missing from here on"
            ));
        }
        let baseline = &self.baseline;
        self.workload.drain(&mut |observed| {
            if !baseline.precedes(&observed) {
                events.push(observed);
            }
        });
        if let Some(posted) = &mut self.posted {
            posted.look(tallies, events);
        }
        if let Some(feed) = &mut self.feed {
            feed.drain(&mut |event| events.push(event));
        }
        let losses = self.losses().into_iter();
        let losses = losses.map(|loss| self.baseline.loss(loss)).collect();
        let news = self.loss_news.of(losses).map(Event::Loss);
        self.events.extend(news);
        self.events
            .push(Event::Watermark(mono_ns.saturating_sub(SUBMIT_SLACK_NS)));
        for event in self.events.drain(..) {
            session.accept(&event);
        }
        mono_ns
    }

    /// Reports the counters that no event carries: the cost of measuring and the totals of the
    /// feed.
    fn counters(&self, session: &mut Session<'_>) {
        if let Some(cost) = self.tracer.as_ref().and_then(Tracer::own_cost) {
            let cost = self.baseline.own_cost(cost);
            session.accept(&Event::OwnCost(cost));
        }
        if let Some(totals) = self.feed.as_ref().and_then(HostFeed::totals) {
            session.accept(&Event::FeedTotals(totals));
        }
    }

    /// Returns the losses since the start of the workload.
    fn losses(&self) -> Vec<Loss> {
        let mut losses = vec![Loss {
            kind: LossKind::MailboxFull,
            count: self.workload.dropped(),
        }];
        if let Some(tracer) = &self.tracer {
            losses.extend(tracer.losses());
        }
        losses
    }

    /// Returns the counters of each CPU since the start of the workload.
    fn tallies(&self) -> Vec<CpuTally> {
        let tallies = self.workload.tallies().into_iter();
        // A workload that has not yet read its clock has no start time.
        tallies
            .filter(|tally| tally.last_tsc > 0)
            .map(|tally| self.with_host_counters(tally))
            .collect()
    }

    fn with_host_counters(&self, tally: CpuTally) -> CpuTally {
        let tally = CpuTally {
            smi_count: self.smi.read(tally.cpu),
            ..tally
        };
        let Some(tracer) = &self.tracer else {
            return tally;
        };
        let heavy_exits = tracer.heavy_exits(tally.cpu);
        // On hosts where kvm_exit never fires (PVM), the number of light exits is KVM's own count
        // of all exits minus the heavy exits.
        let all_but_heavy = tally.kvm_stat_exits.zip(heavy_exits);
        let all_but_heavy = all_but_heavy.map(|(all, heavy)| all.saturating_sub(heavy));
        CpuTally {
            light_exits: tracer.light_exits(tally.cpu).or(all_but_heavy),
            heavy_exits,
            outer_steal_ns: self.outer_steal.since_start(tracer, tally.cpu),
            ..tally
        }
    }
}
