//! The live loop: drains probes and workload from housekeeping CPUs and feeds the
//! session, until the run is over.

use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use vmnoise_events::{Event, Finish, FinishReason, Loss, LossKind, RunFacts, Tally};
use vmnoise_explain::PeriodLine;
use vmnoise_tracer::{SmiCounts, Tracer};
use vmnoise_workload::{Workload, tsc};

use crate::host_feed::HostFeed;
use crate::interrupt::Interrupts;
use crate::loss_news::LossNews;
use crate::outer_steal::OuterSteal;
use crate::output::view::Meanwhile;
use crate::own_stop::OwnStop;
use crate::progress::TimeLine;
use crate::reaction::OnThreshold;
use crate::say;
use crate::session::{Outcome, Session};
use crate::units::to_tsc;
use crate::warm_up::Baseline;

/// Drains and clock anchors are this far apart: 50 a second, so that no NTP slope
/// change goes unseen and no ring fills up.
const TICK: Duration = Duration::from_millis(20);
/// A BPF program may have stamped an event and not yet submitted it; it runs with
/// preemption off, so this is ample.
const SUBMIT_SLACK_NS: u64 = 1_000_000;
/// What was recorded is flushed at least this often, however long a period is.
const FLUSH: Duration = Duration::from_secs(1);
/// Pollers go on for so long when nobody renews their lease: this thread hangs then.
const LEASE: Duration = Duration::from_secs(5);
/// Often enough that a late tick costs no lease, and seldom enough that a poller does not feel
/// its word of memory change.
const RENEWAL: Duration = Duration::from_secs(1);
/// How long the end of a run waits for guests that are starved of their CPU.
const PATIENCE: Duration = Duration::from_secs(5);

/// One run with everything it holds.
pub struct Measurement<'a> {
    facts: &'a RunFacts,
    poller: Box<dyn Workload>,
    tracer: Option<Tracer>,
    smi: SmiCounts,
    feed: Option<HostFeed>,
    session: Session<'a>,
    outer_steal: OuterSteal,
    baseline: Baseline,
    loss_news: LossNews,
    events: Vec<Event>,
    next_renewal: Instant,
    /// Where there is no tracer to tell it.
    own_stop: Option<OwnStop>,
    /// When no poller has anything to do any more.
    end_tsc: u64,
}

/// What a run came to.
pub struct Measured {
    /// The result.
    pub outcome: Outcome,
    /// What of `--on-threshold` is still under way.
    pub on_threshold: OnThreshold,
    /// Its action that failed.
    pub failure: Option<anyhow::Error>,
}

impl<'a> Measurement<'a> {
    /// Takes over a prepared workload and attached probes.
    pub fn new(
        facts: &'a RunFacts,
        poller: Box<dyn Workload>,
        tracer: Option<Tracer>,
        smi: SmiCounts,
        feed: Option<HostFeed>,
        session: Session<'a>,
    ) -> Measurement<'a> {
        let outer_steal = OuterSteal::begin(&facts.options.cpus, tracer.as_ref());
        Measurement {
            facts,
            poller,
            tracer,
            smi,
            feed,
            session,
            outer_steal,
            baseline: Baseline::default(),
            loss_news: LossNews::default(),
            events: Vec::new(),
            next_renewal: Instant::now(),
            own_stop: None,
            end_tsc: u64::MAX,
        }
    }

    /// Warms up, then runs to the end of the duration, a limit that stops it, or
    /// Ctrl-C.
    ///
    /// # Errors
    /// If the workload cannot be started.
    pub fn run(
        mut self,
        warm_up: Duration,
        mut on_threshold: OnThreshold,
        interrupts: &Interrupts,
    ) -> Result<Measured> {
        let options = &self.facts.options;
        if self.tracer.is_none() {
            self.own_stop = Some(OwnStop::watch().context("catching the end of a stop")?);
        }
        if warm_up.is_zero() {
            self.anchor();
        }
        let duration = Duration::from_nanos(options.duration_ns);
        let length = warm_up + duration;
        let deadline = Instant::now() + length;
        // A poller of real-time priority would keep this thread from ending it.
        let deadline_tsc = self.facts.shares_cpu.then(|| self.tsc_in(length));
        self.renew();
        self.poller.start(deadline_tsc).map_err(Error::from_boxed)?;
        if !warm_up.is_zero() {
            self.warm_up(warm_up, interrupts);
        }
        let start = Instant::now();
        self.end_tsc = self.tsc_in(duration.saturating_add(RENEWAL));
        let end = match deadline_tsc {
            Some(_) => deadline,
            None => start + duration,
        };
        let mut next_period = start + Duration::from_nanos(options.period_ns);
        let mut next_flush = start + FLUSH;
        let mut total_hit = false;
        self.session.view().begin(self.facts);
        let reason = loop {
            std::thread::sleep(TICK);
            self.renew();
            self.drain();
            let now = Instant::now();
            if now >= next_period {
                let period = Duration::from_nanos(options.period_ns);
                next_period += period;
                // Periods in which this thread was stopped have nothing to show.
                if next_period < now {
                    next_period = now + period;
                }
                self.counters();
                let lines = self.session.take_period();
                let over = |line: &PeriodLine| {
                    options
                        .stop_total_ns
                        .is_some_and(|limit| line.noise_ns >= limit)
                };
                total_hit |= lines.iter().any(over);
                let outer_steal = self.outer_steal.of_period(self.tracer.as_ref());
                self.session.show_period(now - start, &lines, &outer_steal);
            }
            self.session.view().turn();
            if now >= next_flush {
                next_flush += FLUSH;
                self.session.flush();
            }
            let of_period = std::mem::take(&mut total_hit);
            let hit = self.session.take_limit_hit(of_period);
            let drawn_on = self.session.view().draws_live();
            let stops = on_threshold.stops(hit, self.session.recent_trace(), drawn_on);
            for line in on_threshold.take_said() {
                self.session.view().notice(&line);
            }
            if stops {
                break FinishReason::Stop;
            }
            if interrupts.asked_to_finish() || self.session.view().is_gone() {
                break FinishReason::Interrupt;
            }
            if let Some(error) = self.poller.failure() {
                self.session.view().notice(&format!(
                    "the workload ended early: {error}; the result covers the time before"
                ));
                break FinishReason::Failed;
            }
            if now >= end {
                break FinishReason::Duration;
            }
        };
        // From here on Ctrl-C is a signal again.
        self.session.view().end_live();
        if !interrupts.asked_to_drop() {
            self.end(reason, interrupts);
        }
        let outcome = self.session.finish();
        let acted = if interrupts.asked_to_finish() {
            Ok(())
        } else {
            on_threshold.act(reason == FinishReason::Stop, &outcome.trace)
        };
        Ok(Measured {
            outcome,
            on_threshold,
            failure: acted.err(),
        })
    }

    /// Lets the pollers go on: this thread is there to end them.
    fn renew(&mut self) {
        let now = Instant::now();
        if now >= self.next_renewal {
            self.next_renewal = now + RENEWAL;
            let until_tsc = self.tsc_in(LEASE).min(self.end_tsc);
            self.poller.renew(until_tsc);
        }
    }

    /// What the TSC will be then.
    fn tsc_in(&self, time: Duration) -> u64 {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        tsc::now().saturating_add(to_tsc(ns, self.facts.clock.tsc_hz))
    }

    /// Measures and throws away. What the result begins with is taken at the end.
    fn warm_up(&mut self, length: Duration, interrupts: &Interrupts) {
        let end = Instant::now() + length;
        let mut line = match self.session.view().meanwhile() {
            Meanwhile::Nothing => None,
            _ => TimeLine::begin("warmed up", Some(length)),
        };
        while Instant::now() < end
            && !interrupts.asked_to_finish()
            && self.poller.failure().is_none()
        {
            std::thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
            self.renew();
            self.discard();
            if let Some(line) = &mut line {
                line.turn();
            }
        }
        drop(line);
        self.outer_steal = OuterSteal::begin(&self.facts.options.cpus, self.tracer.as_ref());
        let begun_mono_ns = self.anchor();
        self.baseline = Baseline {
            begun_mono_ns,
            tallies: self.tallies(),
            losses: self.losses(),
            own_cost: self.tracer.as_ref().and_then(Tracer::own_cost),
        };
    }

    /// Takes what came since the last call, and keeps only the names it defines.
    fn discard(&mut self) {
        let session = &mut self.session;
        if let Some(tracer) = &mut self.tracer {
            // An error of the ring shows again once something is kept.
            let _ = tracer.drain(&mut |event| {
                if matches!(event, Event::Source(_)) {
                    session.accept(&event);
                }
            });
        }
        self.poller.drain(&mut |_| {});
        if let Some(feed) = &mut self.feed {
            feed.hold();
        }
    }

    /// Stops the guest and takes what is outstanding. A vCPU that gets no CPU to end
    /// on is waited for until patience or the user runs out.
    fn end(&mut self, reason: FinishReason, interrupts: &Interrupts) {
        let end_mono_ns = self.anchor();
        self.poller.stop();
        let asked = Instant::now();
        while self.poller.running() && asked.elapsed() < PATIENCE && !interrupts.asked_to_drop() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Who still has not ended is held, or has no CPU to end on.
        if let Some(tracer) = &self.tracer
            && self.poller.running()
        {
            let session = &mut self.session;
            tracer.unfinished_stops(end_mono_ns, &mut |event| session.accept(&event));
        }
        let mono_ns = self.drain();
        self.counters();
        let steps_back = self.poller.clock_steps_back();
        if steps_back > 0 {
            say::say(format_args!(
                "the TSC went back {steps_back} times: no clock of this machine can be \
                 trusted, and neither can this result"
            ));
        }
        self.session
            .accept(&Event::Finish(Finish { reason, mono_ns }));
    }

    /// Reads the clocks; returns CLOCK_MONOTONIC.
    fn anchor(&mut self) -> u64 {
        let anchor = tsc::anchor();
        self.session.accept(&Event::Anchor(anchor));
        anchor.mono_ns
    }

    /// Takes what came since the last call. The clock is read first: what ended
    /// before is in the rings by now. The tallies come next: every gap up to their
    /// last reading is then among those drained. What was lost comes last: every record that was
    /// lost before the watermark is counted then. Returns CLOCK_MONOTONIC.
    fn drain(&mut self) -> u64 {
        let mono_ns = self.anchor();
        for tally in self.tallies() {
            let tally = self.baseline.tally(tally);
            self.session.accept(&Event::Tally(tally));
        }
        let events = &mut self.events;
        if let Some(own_stop) = &mut self.own_stop {
            let cpus = &self.facts.options.cpus;
            own_stop.tell(cpus, mono_ns, &mut |event| events.push(event));
        }
        if let Some(tracer) = &mut self.tracer
            && let Err(error) = tracer.drain(&mut |event| events.push(event))
        {
            self.session.view().notice(&format!(
                "reading the BPF ring buffer: {error}; activities are missing from here on"
            ));
        }
        let baseline = &self.baseline;
        self.poller.drain(&mut |felt| {
            if !baseline.precedes(&felt) {
                events.push(felt);
            }
        });
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
            self.session.accept(&event);
        }
        mono_ns
    }

    /// What the events cannot tell: what measuring costs, and what came of the feed.
    fn counters(&mut self) {
        if let Some(cost) = self.tracer.as_ref().and_then(Tracer::own_cost) {
            let cost = self.baseline.own_cost(cost);
            self.session.accept(&Event::OwnCost(cost));
        }
        if let Some(totals) = self.feed.as_ref().and_then(HostFeed::totals) {
            self.session.accept(&Event::FeedTotals(totals));
        }
    }

    /// Losses since the start of the workload.
    fn losses(&self) -> Vec<Loss> {
        let mut losses = vec![Loss {
            kind: LossKind::MailboxFull,
            count: self.poller.dropped(),
        }];
        if let Some(tracer) = &self.tracer {
            losses.extend(tracer.losses());
        }
        losses
    }

    /// Counters since the start of the workload.
    fn tallies(&self) -> Vec<Tally> {
        let tallies = self.poller.tallies().into_iter();
        // A workload that has not read its clock yet has no start to tell.
        tallies
            .filter(|tally| tally.last_tsc > 0)
            .map(|tally| self.with_host_counters(tally))
            .collect()
    }

    fn with_host_counters(&self, tally: Tally) -> Tally {
        let tally = Tally {
            smi_count: self.smi.read(tally.cpu),
            ..tally
        };
        let Some(tracer) = &self.tracer else {
            return tally;
        };
        let heavy_exits = tracer.heavy_exits(tally.cpu);
        // Where kvm_exit never fires (PVM), KVM's own count of all exits still tells
        // how many never left the kernel.
        let all_but_heavy = tally.kvm_stat_exits.zip(heavy_exits);
        let all_but_heavy = all_but_heavy.map(|(all, heavy)| all.saturating_sub(heavy));
        Tally {
            light_exits: tracer.light_exits(tally.cpu).or(all_but_heavy),
            heavy_exits,
            outer_steal_ns: self.outer_steal.since_start(tracer, tally.cpu),
            ..tally
        }
    }
}
