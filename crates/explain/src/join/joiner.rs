//! Reads the streams of guest and host alternately, and explains the guest's gaps or wake-ups with
//! the events of both kernels.

use vmnoise_events::{Event, MeasuringCommand, RunFacts, SourceId};

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

/// Joins a guest's stream with its host's. The caller passes events of the host while
/// [`Self::wants_host`] returns true, and otherwise the next event of the guest. The joiner keeps
/// the state of both explainers and the exits that no gap has settled, but never the whole run.
#[derive(Debug)]
pub struct Joiner {
    guest: Explainer,
    host: HostStream,
    host_facts: RunFacts,
    pairs: Pairs,
    host_doubt: StreamGaps,
    /// Event of the guest that makes gaps final. The joiner holds the event until the host's events
    /// for these gaps have arrived.
    held: Option<Held>,
    guest_has_ended: bool,
    sums: JoinSums,
    /// Final intervals that the caller has not taken yet; `None` if the caller did not request
    /// intervals.
    kept: Option<Vec<Interval>>,
    /// Sums of latencies; `None` for workloads other than periodic tasks.
    latencies: Option<LatencySums>,
}

#[derive(Debug)]
struct Held {
    /// A watermark or the finish; `None` if the guest's stream broke off.
    event: Option<Event>,
    /// Time up to which the host's events are needed, in nanoseconds of the host's CLOCK_MONOTONIC.
    until_ns: u64,
}

impl Joiner {
    /// Creates a joiner. `guest` and `host` are the facts before the first event of each stream.
    /// `pairs` are the vCPUs of the guest's CPUs.
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
            latencies: (guest.workload == MeasuringCommand::Timerlat)
                .then(|| LatencySums::new(options)),
        }
    }

    /// Keeps each gap and each wake-up for [`Self::take_intervals`].
    pub fn with_intervals(self) -> Joiner {
        Joiner {
            kept: Some(Vec::new()),
            ..self
        }
    }

    /// Returns the gaps or wake-ups that became final since the last call, CPU by CPU, ordered by
    /// start. Returns none without [`Self::with_intervals`].
    pub fn take_intervals(&mut self) -> Vec<Interval> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the name of a source in a gap's parts. The source may be of the guest or of the
    /// host.
    pub fn source_name(&self, id: SourceId) -> &str {
        self.guest.source_name(id)
    }

    /// Returns what [`Explainer::take_heard_period`] returns for the guest.
    pub fn take_period(&mut self) -> Vec<PeriodLine> {
        self.guest.take_heard_period()
    }

    /// Returns the pairs of CPU and vCPU, with the clock that both sides share.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// Returns whether the caller must read the host's stream before the guest's, because some gaps
    /// still need the host's events. After the guest's last event, returns true until the host's
    /// stream ends.
    pub fn wants_host(&self) -> bool {
        !self.host.has_ended() && (self.held.is_some() || self.guest_has_ended)
    }

    /// Takes the next event of the host's stream.
    pub fn host(&mut self, event: &Event) {
        self.host_doubt.see(event);
        // No gap needs the host's events any more. Only lost records and totals still matter.
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

    /// Ends the host's stream.
    pub fn host_ended(&mut self) {
        self.host.end(&self.pairs, &mut self.guest);
        self.release();
    }

    /// Takes the next event of the guest's stream. If [`Self::wants_host`] returns true, this call
    /// explains some gaps without the host's events.
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

    /// Ends the guest's stream. Afterwards, [`Self::wants_host`] may return true.
    pub fn guest_ended(&mut self) {
        if !self.guest_has_ended {
            self.give_up_waiting();
            self.guest_has_ended = true;
            self.hold(None, None);
        }
    }

    /// Explains everything that still waits for the host's events, because neither stream has more.
    pub fn run_out(&mut self) {
        self.give_up_waiting();
        self.take(None);
    }

    /// Returns the result of the join. If a stream was cut off, the result covers the part that
    /// exists.
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

    /// Holds an event that makes gaps final until the host's events for these gaps have arrived.
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

    /// Passes an event to the guest's explainer. Without an event, makes the explainer explain all
    /// events that still wait.
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
