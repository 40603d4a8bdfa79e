//! Random recordings of a guest and its host, with the truth about them: the life of each vCPU, as
//! its host reports it and as the workload in the guest observes it.

use vmnoise_events::*;
use vmnoise_explain::{JoinError, Matcher, Pairs};

use super::clocks::{Dice, PairClocks, clock_facts};
use super::lives::{Life, LifeSpan, PERIOD_NS, VcpuStay};

/// Time between two drains of each side, in ns. Each drain begins with a reading of the clocks.
pub const TICK_NS: u64 = 20_000_000;
/// Time from a watermark to the clock reading of its drain, in ns.
const SLACK_NS: u64 = 1_000_000;
const US: u64 = 1_000;

/// Plan of a pair of recordings, in ideal time.
#[derive(Debug, Clone)]
pub struct RecordingPlan {
    pub seed: u64,
    pub clocks: PairClocks,
    /// APIC ids of the guest's CPUs, all of which are measured.
    pub apic_ids: Vec<u32>,
    /// Start and end of the guest's recording.
    pub guest: (u64, u64),
    /// Start and end of the host's recording.
    pub host: (u64, u64),
    /// Range of the time for which a vCPU runs between two interruptions.
    pub run_ns: (u64, u64),
    /// Range of the length of an exit.
    pub exit_ns: (u64, u64),
    /// Percentage that decides how many interruptions are the guest's own work, either without an
    /// exit or with two exits.
    pub own_percent: u64,
    /// Percentage of the exits, and of the gaps, that are lost.
    pub lost_percent: u64,
    /// Time for which the workload polls in each 100 ms, in ms.
    pub polled_ms: u64,
    /// Least length of a recorded gap.
    pub threshold_ns: u64,
    /// Largest width of the bracket around a clock reading.
    pub bracket_ns: u64,
    /// Number of other VMs on the host. Each has as many vCPUs as the guest, and the same TSC
    /// offset.
    pub other_vms: u32,
    /// Stays of the guest's vCPUs on the host. If there are fewer stays than vCPUs, they repeat.
    pub stays: Vec<VcpuStay>,
}

impl RecordingPlan {
    /// Returns the plan of a guest with one CPU that records for two seconds. All clocks show ideal
    /// time.
    pub fn plain() -> RecordingPlan {
        RecordingPlan {
            seed: 1,
            clocks: PairClocks::plain(),
            apic_ids: vec![0],
            guest: (100_000_000, 2_100_000_000),
            host: (50_000_000, 2_150_000_000),
            run_ns: (100 * US, 4_000 * US),
            exit_ns: (2 * US, 500 * US),
            own_percent: 30,
            lost_percent: 0,
            polled_ms: 100,
            threshold_ns: 5 * US,
            bracket_ns: 0,
            other_vms: 0,
            stays: vec![VcpuStay::Always],
        }
    }

    /// Records the pair of this plan. The same plan gives the same pair every time.
    pub fn record(&self) -> RecordedPair {
        let lives: Vec<Life> = (0..=self.other_vms)
            .flat_map(|vm| self.apic_ids.iter().map(move |apic_id| (vm, *apic_id)))
            .enumerate()
            .map(|(place, (vm, number))| Life::of(self, vm, number, place as u64))
            .collect();
        self.record_lives(lives)
    }

    /// Records the pair with these lives: the vCPUs of each VM, one VM after the other.
    pub fn record_lives(&self, lives: Vec<Life>) -> RecordedPair {
        RecordedPair {
            guest_facts: self.guest_facts(),
            guest: self.guest_stream(&lives),
            host_facts: self.host_facts(),
            host: self.host_stream(&lives),
            lives,
        }
    }

    fn guest_facts(&self) -> RunFacts {
        let mut facts = super::polling_in_a_machine();
        facts.options.threshold_ns = self.threshold_ns;
        facts.options.cpus = (0..self.apic_ids.len() as u32).collect();
        facts.host.apic_ids = (0..).zip(self.apic_ids.iter().copied()).collect();
        facts.clock = clock_facts(self.clocks.guest_hz());
        if self.polled_ms < 100 {
            facts.options.period_ns = PERIOD_NS;
            facts.options.runtime_ns = Some(self.polled_ms * 1_000_000);
        }
        facts
    }

    fn host_facts(&self) -> RunFacts {
        let mut facts = super::vcpus::facts();
        facts.clock = clock_facts(self.clocks.host_hz);
        facts
    }

    fn guest_stream(&self, lives: &[Life]) -> Vec<Event> {
        let mut dice = Dice(self.seed ^ 0x6e57);
        let mut reported = Reported::default();
        for (cpu, life) in (0..).zip(lives.iter().take(self.apic_ids.len())) {
            let gaps = life.gaps.iter().map(|gap| (gap, self.gap(cpu, gap)));
            // The workload reports no gap in which its counter does not go forward.
            for (gap, shown) in gaps.filter(|(_, shown)| shown.start_tsc < shown.end_tsc) {
                reported.add(gap.end_ns, Event::Gap(shown));
            }
        }
        let (from_ns, to_ns) = self.guest;
        let ticks = self.ticks(from_ns, to_ns);
        reported.stream(from_ns, ticks, |at_ns, events| {
            let width_ns = dice.roll(0, self.bracket_ns + 1);
            if self.clocks.is_stopped(at_ns, at_ns + width_ns) {
                return None;
            }
            let anchor = self.clocks.guest_anchor(at_ns, width_ns, &mut dice);
            events.push(Event::Anchor(anchor));
            for (cpu, life) in (0..).zip(lives.iter().take(self.apic_ids.len())) {
                let (last_ns, blind_ns) = life.tally(at_ns);
                let cycles = u128::from(blind_ns) * u128::from(self.clocks.guest_hz());
                events.push(Event::Tally(CpuTally {
                    cpu,
                    first_tsc: self.clocks.guest_tsc(from_ns),
                    last_tsc: self.clocks.guest_tsc(last_ns),
                    blind_tsc: Some((cycles / 1_000_000_000) as u64),
                    ..CpuTally::default()
                }));
            }
            Some(anchor.mono_ns)
        })
    }

    /// Returns the times at which a side that records from `from_ns` to `to_ns` reads its clocks.
    /// Each reading ends at least 2 ns before the next reading begins. Even the slowest clock
    /// advances in 2 ns.
    fn ticks(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = u64> + use<> {
        let last_ns = to_ns.saturating_sub(self.bracket_ns + 1);
        let ticks = (from_ns..last_ns).step_by(TICK_NS as usize);
        ticks.chain([to_ns])
    }

    fn gap(&self, cpu: u32, gap: &LifeSpan) -> Gap {
        Gap {
            cpu,
            ..super::gap(
                self.clocks.guest_tsc(gap.start_ns),
                self.clocks.guest_tsc(gap.end_ns),
            )
        }
    }

    /// Returns when the vCPU at this place among all lives is on the host.
    pub fn stay_of(&self, place: u32, life: &Life) -> VcpuStay {
        match life.vm {
            0 => self.stays[place as usize % self.stays.len()],
            _ => VcpuStay::Always,
        }
    }

    /// Returns the vCPUs in the order of their ids. The second ids of the guest's vCPUs come after
    /// all first ids.
    pub fn reported_vcpus<'a>(&self, lives: &'a [Life]) -> Vec<ReportedVcpu<'a>> {
        let of_id = |is_other: bool| {
            (0..).zip(lives).filter_map(move |(place, life)| {
                let stay = self.stay_of(place, life);
                let exits = life.exits.iter().copied();
                let exits = exits.filter(|exit| stay.reports(exit) == Some(is_other));
                let has_other_thread = is_other && matches!(stay, VcpuStay::OtherThreadFrom(_));
                let is_defined = !is_other || stay.is_of_two();
                is_defined.then(|| (place, life, exits.collect(), has_other_thread))
            })
        };
        let each = of_id(false).chain(of_id(true));
        let vcpus =
            (0..).zip(each).map(
                |(id, (place, life, exits, has_other_thread))| ReportedVcpu {
                    id,
                    place,
                    life,
                    exits,
                    has_other_thread,
                },
            );
        vcpus.collect()
    }

    fn host_stream(&self, lives: &[Life]) -> Vec<Event> {
        let mut dice = Dice(self.seed ^ 0x4057);
        let mut reported = Reported::default();
        let vcpus = self.reported_vcpus(lives);
        let defined = vcpus.iter().map(|vcpu| Event::Vcpu(vcpu.definition()));
        reported.first.extend(defined);
        for vcpu in &vcpus {
            let clocks = self.clocks.vcpu_clocks(vcpu.id).into_iter();
            reported.first.extend(clocks.map(Event::VcpuClock));
        }
        for vcpu in &vcpus {
            let host_cpu = vcpu.place % self.apic_ids.len() as u32;
            let mut spans = Vec::new();
            for exit in &vcpu.exits {
                let exit_at = |at_ns| self.clocks.host_mono_ns(at_ns);
                let (from, to) = (exit_at(exit.start_ns), exit_at(exit.end_ns));
                let scene = super::vcpus::ExitScene::new(super::vcpus::INTR, from, from);
                let exit_reported = Exit {
                    end_mono_ns: to,
                    exit_cpu: host_cpu,
                    entry_cpu: host_cpu,
                    split: ShareMap::from([(Share::Kvm, to - from)]),
                    ..scene.exit()
                };
                let event = super::vcpus::exit_of(vcpu.id, exit_reported);
                if (self.host.0..).contains(&exit.start_ns) {
                    reported.add(exit.end_ns, event);
                }
                if self.host.0 <= exit.start_ns && exit.end_ns <= self.host.1 {
                    spans.push((from, to));
                }
            }
            let of_all = totals(vcpu.id, &spans);
            reported.last.extend(of_all.map(Event::VcpuTotals));
        }
        for life in lives {
            for lost in life
                .lost_exits
                .iter()
                .filter(|lost| lost.end_ns >= self.host.0)
            {
                reported.lost_at_ns.push(lost.end_ns);
            }
        }
        let (from_ns, to_ns) = self.host;
        let ticks = self.ticks(from_ns, to_ns);
        reported.stream(from_ns, ticks, |at_ns, events| {
            let width_ns = dice.roll(0, self.bracket_ns + 1);
            if self.clocks.host_is_suspended(at_ns, at_ns + width_ns) {
                return None;
            }
            let anchor = self.clocks.host_anchor(at_ns, width_ns, &mut dice);
            events.push(Event::Anchor(anchor));
            Some(anchor.mono_ns)
        })
    }
}

/// A vCPU as the host reports it. A vCPU that gets another id or thread becomes two reported vCPUs.
pub struct ReportedVcpu<'a> {
    pub id: u32,
    /// Index of the vCPU's life among all lives.
    place: u32,
    life: &'a Life,
    pub exits: Vec<LifeSpan>,
    has_other_thread: bool,
}

impl ReportedVcpu<'_> {
    fn definition(&self) -> Vcpu {
        Vcpu {
            id: VcpuId(self.id),
            tid: 4_170 + self.place + 500 * u32::from(self.has_other_thread),
            vmm_pid: 4_168 + 10_000 * self.life.vm,
            number: Some(self.life.number),
            vm: 1,
            vm_name: format!("web{}", self.life.vm).into(),
            identity: Default::default(),
            sees_kvm: true,
        }
    }
}

/// Returns the kernel's totals of a vCPU with these exits; `None` if the vCPU was never on this
/// host.
fn totals(id: u32, exits: &[(u64, u64)]) -> Option<VcpuTotals> {
    let ((first_mono_ns, _), (_, last_mono_ns)) = exits.first().zip(exits.last())?;
    let kvm_ns = exits.iter().map(|(from, to)| to - from).sum();
    Some(VcpuTotals {
        vcpu: VcpuId(id),
        first_mono_ns: *first_mono_ns,
        last_mono_ns: *last_mono_ns,
        exits: exits.len() as u64,
        heavy: 0,
        split: ShareMap::from([(Share::Kvm, kvm_ns)]),
        unseen_ns: 0,
        worst: None,
        reasons: Vec::new(),
    })
}

/// Recordings of a guest and its host. The first lives are those of the guest's CPUs, in order.
#[derive(Debug, Clone)]
pub struct RecordedPair {
    pub guest_facts: RunFacts,
    pub guest: Vec<Event>,
    pub host_facts: RunFacts,
    pub host: Vec<Event>,
    /// Lives of all vCPUs, in the order of their first ids in the host's stream.
    pub lives: Vec<Life>,
}

impl RecordedPair {
    /// Returns the result of pass 1 of a join of this pair.
    pub fn matched(&self) -> Result<Pairs, JoinError> {
        self.matched_as(|matcher| matcher)
    }

    /// Returns the result of pass 1, with a matcher that `set` changes before the first event.
    pub fn matched_as(&self, set: impl FnOnce(Matcher) -> Matcher) -> Result<Pairs, JoinError> {
        let mut matcher = set(Matcher::new(&self.guest_facts, &self.host_facts)?);
        self.guest.iter().for_each(|event| matcher.guest(event));
        self.host.iter().for_each(|event| matcher.host(event));
        matcher.finish()
    }

    /// Returns the pair with a wrong offset: according to the host's recording, the guest's counter
    /// is this many cycles further ahead.
    pub fn with_offset(&self, cycles: i64) -> RecordedPair {
        let mut wrong = self.clone();
        for event in &mut wrong.host {
            if let Event::VcpuClock(clock) = event {
                clock.offset_tsc += cycles;
            }
        }
        wrong
    }

    /// Returns the pair with interrupts that the guest reports. In each gap, the interrupt begins
    /// just after the last exit and ends just before the gap ends.
    pub fn with_interrupts(mut self, plan: &RecordingPlan) -> RecordedPair {
        let mut reported = Vec::new();
        for (cpu, life) in (0..).zip(self.lives.iter().take(plan.apic_ids.len())) {
            for gap in &life.gaps {
                let inside =
                    |exit: &&LifeSpan| gap.start_ns <= exit.start_ns && exit.end_ns < gap.end_ns;
                let Some(last) = life.exits.iter().rfind(inside) else {
                    continue;
                };
                let (from_ns, to_ns) = (last.end_ns + 30, gap.end_ns - 10);
                if from_ns < to_ns && !plan.clocks.is_stopped(gap.start_ns, gap.end_ns) {
                    reported.push(Event::Activity(Activity {
                        cpu,
                        kind: ActivityKind::Irq,
                        start_mono_ns: plan.clocks.guest_mono_ns(from_ns),
                        end_mono_ns: plan.clocks.guest_mono_ns(to_ns),
                        source: SourceId(0),
                        steal_ns: 0,
                    }));
                }
            }
        }
        self.guest.splice(0..0, reported);
        self
    }

    /// Returns the pair as if the guest were vmnoise's own microVM, whose gaps have numbers of the
    /// host's CPUs and times of the host's counter. The guest of the plan must have the host's
    /// clocks.
    pub fn of_microvm(mut self) -> RecordedPair {
        self.guest_facts.workload = MeasuringCommand::Microvm;
        self.guest_facts.host.apic_ids.clear();
        self.host.retain(|it| !matches!(it, Event::VcpuClock(_)));
        self
    }
}

/// Events of a stream, by the time at which they can be reported.
#[derive(Debug, Default)]
struct Reported {
    /// Events before all other events.
    first: Vec<Event>,
    timed: Vec<(u64, Event)>,
    /// End of each exit whose record was lost.
    lost_at_ns: Vec<u64>,
    /// Events after all other events, except for the finish.
    last: Vec<Event>,
}

impl Reported {
    fn add(&mut self, at_ns: u64, event: Event) {
        self.timed.push((at_ns, event));
    }

    /// Returns the number of records that were lost by `at_ns`, if any.
    fn lost_by(&self, at_ns: u64) -> Option<Event> {
        let lost = self.lost_at_ns.iter().filter(|lost_ns| **lost_ns <= at_ns);
        let kind = LossKind::RingFull;
        let count = lost.count() as u64;
        (count > 0).then_some(Event::Loss(Loss { kind, count }))
    }

    /// Returns the stream of a run that begins at `from_ns`. `tick` begins each drain and returns
    /// CLOCK_MONOTONIC, or `None` if no drain was possible.
    fn stream(
        mut self,
        from_ns: u64,
        ticks: impl Iterator<Item = u64>,
        mut tick: impl FnMut(u64, &mut Vec<Event>) -> Option<u64>,
    ) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.first);
        let mut timed = std::mem::take(&mut self.timed);
        timed.sort_by_key(|(at_ns, _)| *at_ns);
        let mut timed = timed.into_iter().peekable();
        let mut last_ns = 0;
        for at_ns in ticks {
            let Some(mono_ns) = tick(at_ns, &mut events) else {
                continue;
            };
            while let Some((over_ns, event)) = timed.next_if(|(over_ns, _)| *over_ns <= at_ns) {
                if over_ns >= from_ns {
                    events.push(event);
                }
            }
            events.extend(self.lost_by(at_ns));
            events.push(Event::Watermark(mono_ns.saturating_sub(SLACK_NS)));
            last_ns = mono_ns;
        }
        events.extend(self.last);
        events.push(Event::Finish(Finish {
            reason: FinishReason::Duration,
            mono_ns: last_ns,
        }));
        events
    }
}
