//! Takes both streams, each as far as the other allows, and explains the guest's gaps, or
//! its wake-ups, by what either kernel did.

use vmnoise_events::{Event, RunFacts, SourceId, Workload};

use super::host::HostStream;
use super::latency_sums::LatencySums;
use super::options::JoinOptions;
use super::pairs::Pairs;
use super::result::{HostSide, JoinedRun};
use super::sums::JoinSums;
use crate::coverage;
use crate::explainer::{Explainer, Sinks};
use crate::interval::Interval;
use crate::ledger::PeriodLine;
use crate::stream_gaps::StreamGaps;
use crate::visibility::HostCoverage;

/// Joins a guest's stream to its host's. Both are read in turns: the host's for as long as
/// [`Self::wants_host`], then the guest's for an event. Memory holds what either explainer
/// holds, and the exits of the guest's vCPUs that no gap has settled; never the run.
#[derive(Debug)]
pub struct Joiner {
    guest: Explainer,
    host: HostStream,
    host_facts: RunFacts,
    pairs: Pairs,
    host_doubt: StreamGaps,
    /// What makes gaps certain before the host was heard about them.
    held: Option<Held>,
    guest_has_ended: bool,
    sums: JoinSums,
    /// Certain, and not taken yet; `None` where nobody takes them.
    kept: Option<Vec<Interval>>,
    /// Of periodic tasks only.
    latencies: Option<LatencySums>,
}

#[derive(Debug)]
struct Held {
    /// A watermark or the finish; `None` where the stream broke off.
    event: Option<Event>,
    /// How far the host has to be heard, its CLOCK_MONOTONIC in nanoseconds.
    until_ns: u64,
}

impl Joiner {
    /// Starts with what was true before the first event of either side, and the vCPUs that
    /// were found to be the guest's CPUs.
    pub fn new(guest: &RunFacts, host: &RunFacts, pairs: Pairs, options: JoinOptions) -> Joiner {
        let mut guest_facts = guest.clone();
        guest_facts.options.top = options.top;
        let mut explainer = Explainer::beside(&guest_facts, host);
        for pair in pairs.pairs() {
            explainer.bind_host_exits(pair.cpu, pair.bound_ns);
        }
        Joiner {
            guest: explainer,
            host: HostStream::new(host),
            host_facts: host.clone(),
            pairs,
            host_doubt: StreamGaps::default(),
            held: None,
            guest_has_ended: false,
            sums: JoinSums::new(guest.workload, options),
            kept: None,
            latencies: (guest.workload == Workload::Timerlat).then(|| LatencySums::new(options)),
        }
    }

    /// As `new`, and keeps each gap and each wake-up for [`Self::take_intervals`].
    pub fn with_intervals(self) -> Joiner {
        Joiner {
            kept: Some(Vec::new()),
            ..self
        }
    }

    /// The gaps or wake-ups that are certain since the last call, CPU by CPU in the order of
    /// their begins; none unless they were asked for.
    pub fn take_intervals(&mut self) -> Vec<Interval> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The name of somebody in a gap's parts, on either side.
    pub fn source_name(&self, id: SourceId) -> &str {
        self.guest.source_name(id)
    }

    /// As [`Explainer::take_period`], of the guest.
    pub fn take_period(&mut self) -> Vec<PeriodLine> {
        self.guest.take_heard_period()
    }

    /// Which vCPU is which CPU, and the clock that both sides share.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// Whether the host's stream has to be read on before the guest's: what it did in some
    /// gaps is not known yet. After the guest's last event, all the rest of it.
    pub fn wants_host(&self) -> bool {
        !self.host.has_ended() && (self.held.is_some() || self.guest_has_ended)
    }

    /// Takes the next event of the host's stream.
    pub fn host(&mut self, event: &Event) {
        self.host_doubt.see(event);
        // Nobody asks any more what the host did; what it says of itself counts.
        let is_moot = self.guest_has_ended && self.held.is_none();
        if !(is_moot
            && matches!(
                event,
                Event::Activity(_) | Event::Exit(_) | Event::VcpuInterval(_)
            ))
        {
            self.host.push(event, &self.pairs, &mut self.guest);
        }
        self.release();
    }

    /// The host's stream has no more events.
    pub fn host_ended(&mut self) {
        self.host.end(&self.pairs, &mut self.guest);
        self.release();
    }

    /// Takes the next event of the guest's stream. While the host's is wanted, that would
    /// leave gaps without what the host did.
    pub fn guest(&mut self, event: &Event) {
        self.give_up_waiting();
        match event {
            Event::Watermark(mono_ns) => self.hold(Some(event), Some(*mono_ns)),
            Event::Finish(_) => {
                self.guest_has_ended = true;
                self.hold(Some(event), None);
            }
            _ => self.take(Some(event)),
        }
    }

    /// The guest's stream has no more events; as with its last one, the host's may be wanted
    /// then.
    pub fn guest_ended(&mut self) {
        if !self.guest_has_ended {
            self.give_up_waiting();
            self.guest_has_ended = true;
            self.hold(None, None);
        }
    }

    /// Explains what waits: neither stream has more.
    pub fn run_out(&mut self) {
        self.give_up_waiting();
        self.take(None);
    }

    /// What both come to. Streams that did not end in order are explained as far as they go.
    pub fn finish(mut self) -> JoinedRun {
        self.run_out();
        let Self {
            guest,
            host,
            host_facts,
            pairs,
            sums,
            latencies,
            ..
        } = self;
        let host = host.finish();
        let hides_interrupts = host_facts.has_hidden_interrupts();
        let host = HostSide {
            kernel: host_facts.host.kernel,
            hypervisor: host_facts.host.hypervisor,
            threshold_ns: host_facts.options.threshold_ns,
            only_reasons: host_facts
                .options
                .exits
                .as_ref()
                .map_or_else(Vec::new, |filter| filter.reasons.clone()),
            losses: host.losses,
            lost_events: host.lost_events,
            late_events: host.late_events,
            complete: host.complete,
            finish_reason: host.finish_reason,
        };
        let visibility = guest.visibility;
        let summary = guest.finish();
        let latencies = latencies.zip(summary.wakeups.as_ref());
        let latencies = latencies.map(|(sums, wakeups)| sums.summarize(wakeups, &visibility));
        let mut run = sums.summarize(summary, latencies, &pairs, host);
        coverage::state_of_host(&mut run, hides_interrupts);
        run
    }

    /// Keeps what makes gaps certain until the host was heard about them.
    fn hold(&mut self, event: Option<&Event>, watermark_ns: Option<u64>) {
        let pairs = &self.pairs;
        let needed = self
            .guest
            .due_ends(watermark_ns)
            .filter_map(|(cpu, end_ns)| {
                let bound_ns = pairs.bound_ns(cpu)?;
                Some(pairs.host_mono_ns(cpu, end_ns)?.saturating_add(bound_ns))
            });
        let until_ns = needed.max().unwrap_or(0);
        self.held = Some(Held {
            event: event.cloned(),
            until_ns,
        });
        self.release();
    }

    fn release(&mut self) {
        if let Some(held) = self
            .held
            .take_if(|held| self.host.has_reported(held.until_ns))
        {
            self.take(held.event.as_ref());
        }
    }

    fn give_up_waiting(&mut self) {
        if let Some(held) = self.held.take() {
            self.take(held.event.as_ref());
        }
    }

    /// Feeds the guest's explainer; without an event it explains what waits.
    fn take(&mut self, event: Option<&Event>) {
        let Self {
            guest,
            host,
            pairs,
            host_doubt,
            sums,
            kept,
            latencies,
            ..
        } = self;
        let host_coverage = |cpu, start_ns, end_ns| {
            let host_ns = |ns| pairs.host_mono_ns(cpu, ns);
            let bound_ns = pairs.bound_ns(cpu).unwrap_or(0);
            match (host_ns(start_ns), host_ns(end_ns)) {
                (Some(host_start_ns), Some(host_end_ns))
                    if pairs.witnessed(cpu, start_ns, end_ns)
                        && host.has_reported(host_end_ns.saturating_add(bound_ns)) =>
                {
                    let is_whole = host_doubt.is_past(host_start_ns);
                    HostCoverage::Host { is_whole }
                }
                _ => HostCoverage::None,
            }
        };
        let sinks = Sinks {
            host_coverage: &host_coverage,
            on_interval: &mut |explained| {
                match latencies {
                    Some(latencies) => latencies.see(explained),
                    None => sums.see(explained),
                }
                if let Some(kept) = kept {
                    kept.push(explained.interval.clone());
                }
            },
        };
        match event {
            Some(event) => guest.take(event, sinks),
            None => guest.end(sinks),
        }
    }
}
