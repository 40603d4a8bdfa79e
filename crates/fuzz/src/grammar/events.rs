//! Events that a stream may contain.

use vmnoise_events::{
    Activation, Activity, ActivityKind, Anchor, CpuTally, Event, FeedDetail, FeedTotals, Finish,
    FinishReason, Gap, HostCulprit, HostFrame, HostReason, InterferenceCounts, Loss, LossKind,
    MeasuringCommand, OwnCost, PostedInterrupts, RunFacts, Share, Source, SourceId, VcpuId,
};

use super::Words;
use super::facts::CPUS;

/// Maximum number of events. More events would be slow, and would test nothing new.
const EVENTS: usize = 600;
/// Number of recent times, which may occur again.
const RECENT: usize = 8;

/// Events of one run, until the words end.
pub(crate) struct Stream<'a, 'w> {
    pub(super) words: &'w mut Words<'a>,
    workload: MeasuringCommand,
    /// TSC cycles in 8 ns.
    cycles_in_8_ns: u64,
    /// Current time, CLOCK_MONOTONIC in nanoseconds.
    now_ns: u64,
    /// Latest times, which may occur again, CLOCK_MONOTONIC in nanoseconds.
    recent_ns: [u64; RECENT],
    sources: u32,
    pub(super) vcpus: u32,
    reported: usize,
}

impl<'a, 'w> Stream<'a, 'w> {
    pub(crate) fn new(words: &'w mut Words<'a>, facts: &RunFacts) -> Stream<'a, 'w> {
        Stream {
            words,
            workload: facts.workload,
            cycles_in_8_ns: facts.clock.tsc_hz / 125_000_000,
            now_ns: 1_000_000_000,
            recent_ns: [1_000_000_000; RECENT],
            sources: 0,
            vcpus: 0,
            reported: 0,
        }
    }

    fn event(&mut self) -> Event {
        // An event needs the definitions to which the event refers.
        if self.sources == 0 {
            return self.source();
        }
        let of_vcpus = self.workload == MeasuringCommand::Exits;
        if of_vcpus && self.vcpus == 0 {
            return self.vcpu();
        }
        let strange = self.words.is_wild();
        match self.words.below(32) {
            0 => self.source(),
            1..=3 => self.anchor(),
            4..=6 => Event::Watermark(self.time()),
            7 => self.tally(),
            8 => self.loss_or_cost(),
            9 if strange || self.words.once_in(8) => Event::Finish(Finish {
                reason: self.words.one_of(&FinishReason::ALL),
                mono_ns: self.time(),
            }),
            10 if !of_vcpus || strange => Event::HostFrame(self.host_frame()),
            11 if !of_vcpus || strange => Event::FeedTotals(FeedTotals {
                bytes: self.words.count(),
                frames: self.words.count(),
                garbled: self.words.count(),
                hang_ups: self.words.count(),
            }),
            12..=20 => self.activity(),
            _ if strange => match self.words.below(3) {
                0 => self.gap(),
                1 => self.activation(),
                _ if self.vcpus == 0 => self.vcpu(),
                _ => self.of_vcpu(),
            },
            _ => match self.workload {
                MeasuringCommand::Microvm | MeasuringCommand::Osnoise => self.gap(),
                MeasuringCommand::Timerlat => self.activation(),
                MeasuringCommand::Observed => self.activity(),
                MeasuringCommand::Exits => self.of_vcpu(),
            },
        }
    }

    /// Returns a time. Usually the time is a little after the last one, sometimes it is an earlier
    /// time again, and rarely any number.
    pub(super) fn time(&mut self) -> u64 {
        if self.words.is_wild() {
            return self.words.any();
        }
        let at_ns = match self.words.below(8) {
            0 => return self.recent_ns[usize::from(self.words.byte()) % RECENT],
            1 => self.now_ns.saturating_sub(self.words.length()),
            _ => {
                self.now_ns = self.now_ns.saturating_add(self.words.length());
                self.now_ns
            }
        };
        self.recent_ns[self.reported % RECENT] = at_ns;
        at_ns
    }

    /// Returns the start and end of a window at any time.
    pub(super) fn span(&mut self) -> (u64, u64) {
        let from_ns = self.time();
        match self.words.is_wild() {
            true => (from_ns, self.time()),
            false => (from_ns, from_ns.saturating_add(self.words.length())),
        }
    }

    fn tsc(&self, mono_ns: u64) -> u64 {
        mono_ns.wrapping_mul(self.cycles_in_8_ns) / 8
    }

    pub(super) fn cpu(&mut self) -> u32 {
        match self.words.is_wild() {
            true => self.words.count_u32(),
            false => self.words.below(CPUS).into(),
        }
    }

    pub(super) fn source_id(&mut self) -> SourceId {
        SourceId(match self.words.is_wild() {
            true => self.words.count_u32(),
            false => u32::from(self.words.byte()) % self.sources.max(1),
        })
    }

    pub(super) fn vcpu_id(&mut self) -> VcpuId {
        VcpuId(match self.words.is_wild() {
            true => self.words.count_u32(),
            false => u32::from(self.words.byte()) % self.vcpus.max(1),
        })
    }

    fn source(&mut self) -> Event {
        let id = SourceId(self.sources);
        self.sources += 1;
        let name = self.words.name().into();
        Event::Source(Source { id, name })
    }

    fn anchor(&mut self) -> Event {
        let mono_ns = self.time();
        let before_tsc = self.tsc(mono_ns);
        Event::Anchor(Anchor {
            before_tsc,
            mono_ns,
            after_tsc: before_tsc.wrapping_add(self.words.count()),
        })
    }

    fn gap(&mut self) -> Event {
        let (from_ns, to_ns) = self.span();
        Event::Gap(Gap {
            cpu: self.cpu(),
            start_tsc: self.tsc(from_ns),
            end_tsc: self.tsc(to_ns),
            steal_ns: self.words.length(),
            reloads: self.words.count_u32(),
            light_exits: self.words.count_u32(),
            heavy_exits: self.words.count_u32(),
            interference: self.words.maybe(Words::count_u32),
            run_delay_ns: self.words.count(),
        })
    }

    fn activity(&mut self) -> Event {
        let (start_mono_ns, end_mono_ns) = self.span();
        Event::Activity(Activity {
            cpu: self.cpu(),
            kind: self.words.one_of(&ActivityKind::ALL),
            start_mono_ns,
            end_mono_ns,
            source: self.source_id(),
            steal_ns: match self.words.once_in(4) {
                true => self.words.length(),
                false => 0,
            },
        })
    }

    fn activation(&mut self) -> Event {
        let (expiry_mono_ns, woke_mono_ns) = self.span();
        let mut at_ns = expiry_mono_ns;
        let mut step = |stream: &mut Self| {
            at_ns = at_ns.saturating_add(stream.words.length() >> 8);
            let is_wild = stream.words.is_wild();
            stream
                .words
                .maybe(|words| if is_wild { words.any() } else { at_ns })
        };
        Event::Activation(Activation {
            armed_mono_ns: step(self),
            irq_mono_ns: step(self),
            waking_mono_ns: step(self),
            switch_mono_ns: step(self),
            cpu: self.cpu(),
            expiry_mono_ns,
            woke_mono_ns,
            steal_ns: std::array::from_fn(|_| self.words.count()),
            missed: self.words.count_u32(),
        })
    }

    fn tally(&mut self) -> Event {
        let (from_ns, to_ns) = self.span();
        let words = &mut *self.words;
        let mut known = || words.maybe(Words::count);
        let [blind_tsc, reloads, light_exits, heavy_exits] = std::array::from_fn(|_| known());
        let [steal_clock_ns, kvm_stat_exits, outer_steal_ns, smi_count] =
            std::array::from_fn(|_| known());
        let interference = words.maybe(|words| InterferenceCounts {
            nmi: words.count(),
            irq: words.count(),
            softirq: words.count(),
            thread: words.count(),
        });
        let posted = words.maybe(|words| PostedInterrupts {
            count: words.count(),
            from_mono_ns: from_ns,
            until_mono_ns: to_ns,
        });
        Event::Tally(CpuTally {
            cpu: self.cpu(),
            first_tsc: self.tsc(from_ns),
            last_tsc: self.tsc(to_ns),
            blind_tsc,
            steal_clock_ns,
            reloads,
            light_exits,
            heavy_exits,
            kvm_stat_exits,
            outer_steal_ns,
            smi_count,
            interference,
            posted,
        })
    }

    fn loss_or_cost(&mut self) -> Event {
        match self.words.flag() {
            true => Event::Loss(Loss {
                kind: self.words.one_of(&LossKind::ALL),
                count: self.words.count(),
            }),
            false => Event::OwnCost(OwnCost {
                bpf_runs: self.words.count(),
                bpf_ns: self.words.count(),
            }),
        }
    }

    pub(crate) fn host_frame(&mut self) -> HostFrame {
        let (from_ns, until_ns) = self.span();
        HostFrame {
            vcpu: self.cpu(),
            from_tsc: self.tsc(from_ns),
            until_tsc: self.tsc(until_ns),
            detail: self.words.one_of(&FeedDetail::ALL),
            sees_kvm: self.words.flag(),
            is_last: self.words.flag(),
            exits: self.words.count(),
            heavy: self.words.count(),
            split: self.split(),
            lost: self.words.count(),
            reasons: self.words.list(3, |words| HostReason {
                name: words.name().into(),
                exits: words.count(),
                dur_ns: words.length(),
            }),
            culprits: self.words.list(3, |words| HostCulprit {
                share: words.one_of(&Share::ALL),
                name: words.name().into(),
                dur_ns: words.length(),
            }),
        }
    }
}

impl Iterator for Stream<'_, '_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.reported += 1;
        let is_over = self.words.have_ended() || self.reported > EVENTS;
        (!is_over).then(|| self.event())
    }
}
