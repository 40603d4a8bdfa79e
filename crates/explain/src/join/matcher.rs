//! Pass 1 of a join: takes both recordings, and says which vCPU is which CPU of the guest.

use std::collections::BTreeMap;

use vmnoise_events::{Event, LossKind, RunFacts, VcpuId, Workload};

use super::candidates::{Candidate, candidates};
use super::choice::{Score, Tried, judge};
use super::crossing::Crossing;
use super::eras::Eras;
use super::error::JoinError;
use super::evidence::{Rules, Tests, examine};
use super::felt::{Felt, Holes};
use super::guest_clock::GuestClock;
use super::one_machine::is_one;
use super::pairs::Pairs;
use super::ran::{feel, instants, interrupts, readings};
use super::told::{ToldVcpu, ToldVcpus};

/// Gaps, and exits, that are kept as evidence (64 MB of each, and while a pair is tried some hundred
/// bytes more for each exit that is tested): those after them are not
/// tested. Nothing else of either recording grows with it but the anchors, 50 a second.
const KEPT: usize = 4 << 20;
/// Exits that are taken in a row where not all are.
const ROW: usize = 64;
/// Exits that are laid over all CPUs of the guest, to see whether another vCPU fits as well.
const RIVALS: usize = 1 << 18;
/// Gaps that tests are laid over at other offsets of the clock, on all CPUs of the guest.
const LAID: usize = 1 << 20;

/// Finds the vCPUs that a guest's CPUs are. Takes every event of both recordings once; in
/// which order the two sides come does not matter.
#[derive(Debug)]
pub struct Matcher {
    guest_facts: RunFacts,
    only: Option<String>,
    guest: Eras,
    host: Eras,
    host_until_ns: u64,
    felt: BTreeMap<u32, Felt>,
    /// Instants at which periodic tasks ran, or a guest that polls had an interrupt; the guest's
    /// CLOCK_MONOTONIC in nanoseconds.
    ran: BTreeMap<u32, Vec<u64>>,
    /// How many of the latter may still be kept.
    interrupts_left: usize,
    /// How many gaps or instants, and times away, may still be kept.
    gaps_left: usize,
    /// Of the guest's gaps, how many were told and how many are known to be lost.
    gaps: (u64, u64),
    told: ToldVcpus,
    away_left: usize,
}

impl Matcher {
    /// Starts with what was true before the first event of either recording.
    ///
    /// # Errors
    /// Where the two cannot be of a guest and its host, in this order.
    pub fn new(guest: &RunFacts, host: &RunFacts) -> Result<Matcher, JoinError> {
        match (guest.workload, host.workload) {
            (Workload::Vcpus, Workload::Vcpus) => return Err(JoinError::NoGuest),
            (Workload::Vcpus, _) => return Err(JoinError::Swapped),
            (Workload::Observed, _) => return Err(JoinError::Observed),
            (_, Workload::Vcpus) => {}
            (Workload::Spin | Workload::Microvm | Workload::Timer, _) => {
                return Err(JoinError::NoHost);
            }
        }
        Ok(Matcher {
            guest_facts: guest.clone(),
            only: None,
            guest: Eras::new(&guest.clock),
            host: Eras::new(&host.clock),
            host_until_ns: 0,
            felt: BTreeMap::new(),
            ran: BTreeMap::new(),
            interrupts_left: KEPT,
            gaps_left: KEPT,
            gaps: (0, 0),
            told: ToldVcpus::new(guest.workload == Workload::Timer),
            away_left: KEPT,
        })
    }

    /// Considers only the VM of this name, or whose VMM has this process id.
    #[must_use]
    pub fn only(self, vm: &str) -> Matcher {
        Matcher {
            only: Some(vm.to_string()),
            ..self
        }
    }

    /// Takes the next event of the guest's recording.
    pub fn guest(&mut self, event: &Event) {
        match event {
            Event::Anchor(anchor) => self.guest.add(anchor),
            Event::Gap(gap) if self.gaps_left > 0 => {
                self.gaps_left -= 1;
                self.gaps.0 += 1;
                self.felt.entry(gap.cpu).or_default().add_gap(gap);
            }
            Event::Activation(activation) => {
                let instants = instants(activation).take(self.gaps_left);
                let ran = self.ran.entry(activation.cpu).or_default();
                let before = ran.len();
                ran.extend(instants);
                self.gaps_left -= ran.len() - before;
            }
            Event::Activity(activity) if self.guest_facts.workload == Workload::Spin => {
                let instants = interrupts(activity).take(self.interrupts_left);
                let ran = self.ran.entry(activity.cpu).or_default();
                let before = ran.len();
                ran.extend(instants);
                self.interrupts_left -= ran.len() - before;
            }
            Event::Loss(loss) if loss.kind == LossKind::MailboxFull => self.gaps.1 = loss.count,
            Event::Tally(tally) => {
                let has_room = self.gaps_left > 0;
                let pauses = self.guest_facts.options.pauses();
                let felt = self.felt.entry(tally.cpu).or_default();
                felt.add_tally(tally, pauses, has_room);
            }
            Event::Watermark(_) | Event::Finish(_) if self.gaps_left > 0 => {
                self.felt.values_mut().for_each(Felt::settle);
            }
            _ => {}
        }
    }

    /// Takes the next event of the host's recording.
    pub fn host(&mut self, event: &Event) {
        let threshold_ns = self.guest_facts.options.threshold_ns;
        let has_room = self.away_left > 0;
        match event {
            Event::Anchor(anchor) => self.host.add(anchor),
            Event::Vcpu(vcpu) => self.told.define(vcpu),
            Event::VcpuClock(clock) => self.told.add_clock(clock),
            Event::Exit(exit) => {
                let is_kept = self.told.add_exit(exit, threshold_ns, has_room);
                self.away_left -= usize::from(is_kept);
            }
            Event::VcpuInterval(interval) => {
                let is_kept = self.told.add_interval(interval, threshold_ns, has_room);
                self.away_left -= usize::from(is_kept);
            }
            Event::Watermark(mono_ns) => self.host_until_ns = self.host_until_ns.max(*mono_ns),
            Event::Finish(finish) => {
                self.host_until_ns = self.host_until_ns.max(finish.mono_ns);
            }
            _ => {}
        }
    }

    /// Which vCPU each CPU of the guest is.
    ///
    /// # Errors
    /// Where no VM can be the guest, or the data do not prove that one is.
    pub fn conclude(mut self) -> Result<Pairs, JoinError> {
        let (Some(_), Some(host_span)) = (self.guest.span_mono_ns(), self.host.span_mono_ns())
        else {
            let no_guest = self.guest.span_mono_ns().is_none();
            let side = if no_guest { "guest" } else { "host" };
            return Err(JoinError::NoAnchors { side });
        };
        self.felt.retain(|_, felt| felt.span().is_some());
        let cpus: Vec<u32> = self.felt.keys().copied().collect();
        if cpus.is_empty() {
            return Err(JoinError::NothingFelt);
        }
        self.told.sort();
        let lost_part = self.lost_part();
        for (cpu, felt) in &mut self.felt {
            felt.lost_part = lost_part;
            felt.sort();
            let instants = self.ran.remove(cpu).unwrap_or_default();
            match self.guest_facts.workload {
                Workload::Timer => feel(felt, instants, &self.guest),
                _ => felt.ran = readings(&instants, &self.guest),
            }
        }
        let only = self.only.as_deref();
        let candidates = candidates(&self.guest_facts, &cpus, &self.told, only)?;
        let room = LAID / cpus.len();
        let felt = self.felt.iter();
        let holes: BTreeMap<u32, Holes<'_>> =
            felt.map(|(cpu, felt)| (*cpu, Holes::of(felt))).collect();
        let tried = candidates.into_iter().map(|candidate: Candidate| {
            let vcpus = candidate.into_iter();
            let tried = vcpus.filter_map(|(cpu, vcpu)| self.try_pair(cpu, vcpu, &holes, room));
            tried.collect()
        });
        let host_span_ns = (host_span.0, host_span.1.min(self.host_until_ns));
        let judged = judge(tried.collect(), &self.scores(&holes), host_span_ns)?;
        drop(holes);
        let Matcher {
            guest_facts: facts,
            guest,
            host,
            host_until_ns,
            ..
        } = self;
        Pairs::of(judged, host, host_until_ns, guest, &facts)
    }

    /// How well each vCPU would be each CPU.
    fn scores(&self, holes: &BTreeMap<u32, Holes<'_>>) -> Vec<Score> {
        let vcpus: Vec<VcpuId> = self.told.iter().map(|(vcpu, _)| vcpu.id).collect();
        if vcpus.len() < 2 {
            return Vec::new();
        }
        let room = RIVALS / (holes.len() * vcpus.len());
        let scores = holes.iter().flat_map(|(cpu, holes)| {
            let scores = vcpus.iter();
            scores.filter_map(|id| self.score(*cpu, *id, holes, room.max(1)))
        });
        scores.collect()
    }

    /// So many of its exits stand for all of them. They are taken in rows, for exits of one gap
    /// are one test.
    fn score(&self, cpu: u32, id: VcpuId, holes: &Holes<'_>, room: usize) -> Option<Score> {
        let told = self.told.get(id)?;
        let clock = self.clock_of(id, told);
        let crossing = self.crossing(&clock);
        let every = told.away.len().div_ceil(room).max(1);
        let exits = told.away.chunks(ROW).step_by(every).flatten().copied();
        let tests = self.examine(exits, &crossing, holes, false);
        Some(Score {
            cpu,
            vcpu: told.vcpu.clone()?,
            decades: tests.decades() * every as f64,
        })
    }

    /// What the data say of this vCPU as this CPU.
    fn try_pair(
        &self,
        cpu: u32,
        id: VcpuId,
        holes: &BTreeMap<u32, Holes<'_>>,
        room: usize,
    ) -> Option<Tried> {
        let told = self.told.get(id)?;
        let holes = holes.get(&cpu)?;
        let clock = self.clock_of(id, told);
        let crossing = self.crossing(&clock);
        let span_tsc = self.felt.get(&cpu)?.span()?;
        let exits = told.away.iter().copied();
        let tests = self.examine(exits, &crossing, holes, true);
        let mut evidence = tests.conclude(holes, self.guest.tsc_hz(), room);
        // Both read the counter of one machine: there is no other clock that it could be.
        if self.guest_facts.workload == Workload::Microvm && is_one(&self.host, &self.guest) {
            evidence.rivals = None;
        }
        Some(Tried {
            cpu,
            vcpu: told.vcpu.clone()?,
            overlap: crossing.overlap(span_tsc, self.host_until_ns),
            placed_ns: crossing.placed(span_tsc)?,
            evidence,
            clock,
        })
    }

    fn examine(
        &self,
        exits: impl Iterator<Item = (u64, u64)>,
        crossing: &Crossing<'_>,
        holes: &Holes<'_>,
        bounds: bool,
    ) -> Tests {
        let is_timer = self.guest_facts.workload == Workload::Timer;
        // A task tells the time by CLOCK_MONOTONIC.
        let told_ns = match is_timer {
            true => self.guest.bound_ns(),
            false => self.guest.offset_bound_ns(),
        };
        let rules = Rules {
            threshold_ns: self.guest_facts.options.threshold_ns,
            margin_ns: self.host.bound_ns().saturating_add(told_ns),
            loses_gaps: !is_timer,
            bounds,
        };
        examine(exits, crossing, holes, rules)
    }

    /// How much of the gaps found no room on their way.
    fn lost_part(&self) -> f64 {
        let (told, lost) = self.gaps;
        lost as f64 / (told + lost).max(1) as f64
    }

    fn clock_of(&self, id: VcpuId, told: &ToldVcpu) -> GuestClock {
        match self.guest_facts.workload {
            Workload::Microvm => GuestClock::of_host(id),
            _ => told.clock.clone(),
        }
    }

    fn crossing<'a>(&'a self, clock: &'a GuestClock) -> Crossing<'a> {
        Crossing {
            host: &self.host,
            guest: &self.guest,
            clock,
        }
    }
}

#[cfg(test)]
mod tests;
