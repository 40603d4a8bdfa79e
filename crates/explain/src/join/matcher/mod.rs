//! Pass 1 of a join: reads both recordings and finds the vCPU of each CPU of the guest.

use std::collections::BTreeMap;

use vmnoise_events::{Event, LossKind, MeasuringCommand, RunFacts, VcpuId};

use super::candidates::{Candidate, candidates};
use super::clock_epochs::ClockEpochs;
use super::crossing::Crossing;
use super::error::JoinError;
use super::evidence::{Rules, Tests, examine};
use super::guest_clock::GuestClock;
use super::judgement::{Tried, judge};
use super::observed_cpu::{Holes, ObservedCpu};
use super::odds::PairingVerdict;
use super::one_machine::is_one;
use super::pairs::Pairs;
use super::ran::{instants, interrupts, observe, readings};
use super::reported::{ReportedVcpu, ReportedVcpus};
use super::rivals::{Rivals, Score};
use super::shifted::Looks;

/// Maximum number of gaps kept as evidence, and maximum number of exits. Later gaps and exits are
/// not tested. The gaps take 64 MB, and so do the exits. While VMs that may be proven are tested,
/// each tested exit takes some hundred bytes more. All other memory grows only with the anchors, 50
/// per second.
const KEPT: usize = 4 << 20;
/// Number of consecutive exits that a sample takes together.
const ROW: usize = 64;
/// Number of exits, over all pairs of CPU and vCPU, that test whether another vCPU fits as well.
const RIVALS: usize = 1 << 18;
/// Maximum number of pairs of CPU and vCPU that are compared. A guest of 256 CPUs on a host with
/// 1,024 vCPUs has this many pairs.
const PAIRS: usize = 1 << 18;
/// Number of gaps that tests visit at other offsets of the clock, over all CPUs of the guest.
const LAID: usize = 1 << 20;
/// Maximum number of visited gaps for all vCPUs that are tested. With more than 128 vCPUs, each
/// vCPU visits fewer gaps. A host with 1,000 vCPUs can still compare 16 tests in a guest with 8,000
/// gaps per second.
const LAID_IN_ALL: usize = LAID << 8;
/// Maximum number of visits per kept gap, instant and exit. This limit makes the time linear in the
/// size of the recordings. The vCPUs of two VMs always get [`LEAST_IN_ALL`] visits.
const LOOKS: usize = 256;
/// Minimum of the total number of visits, however small the recordings are.
const LEAST_IN_ALL: usize = 2 * (2 * LAID);

/// Finds the vCPUs that are a guest's CPUs. Takes every event of both recordings once. The events
/// of the guest may come before or after those of the host.
#[derive(Debug)]
pub struct Matcher {
    guest_facts: RunFacts,
    /// Whether the host's recording contains every exit.
    reports_all: bool,
    only: Option<String>,
    guest: ClockEpochs,
    host: ClockEpochs,
    host_until_ns: u64,
    observed: BTreeMap<u32, ObservedCpu>,
    /// Times at which periodic tasks ran, or at which a polling guest started or ended an
    /// interrupt. Times are nanoseconds of the guest's CLOCK_MONOTONIC.
    ran: BTreeMap<u32, Vec<u64>>,
    /// Number of times of interrupts that may still be kept.
    interrupts_left: usize,
    /// Number of gaps, or of times at which tasks ran, that may still be kept.
    gaps_left: usize,
    /// Number of the guest's gaps that were kept.
    gaps: u64,
    /// Number of gaps lost in the mailbox, and number of events lost in the recording.
    lost_gaps: (u64, u64),
    reported: ReportedVcpus,
    /// Number of exits that may still be kept.
    away_left: usize,
}

/// A vCPU as a CPU of the guest, with the tests of its exits in that CPU's gaps.
#[derive(Debug)]
struct Examined<'a> {
    cpu: u32,
    reported: &'a ReportedVcpu,
    clock: GuestClock,
    holes: &'a Holes<'a>,
    tests: Tests,
}

impl Matcher {
    /// Creates a matcher from the facts before the first event of each recording.
    ///
    /// # Errors If the recordings, in this order, cannot be of a guest and its host.
    pub fn new(guest: &RunFacts, host: &RunFacts) -> Result<Matcher, JoinError> {
        match (guest.workload, host.workload) {
            (MeasuringCommand::Exits, MeasuringCommand::Exits) => return Err(JoinError::NoGuest),
            (MeasuringCommand::Exits, _) => return Err(JoinError::Swapped),
            (MeasuringCommand::Observed, _) => return Err(JoinError::Observed),
            (_, MeasuringCommand::Exits) => {}
            (
                MeasuringCommand::Osnoise | MeasuringCommand::Microvm | MeasuringCommand::Timerlat,
                _,
            ) => {
                return Err(JoinError::NoHost);
            }
        }
        Ok(Matcher {
            guest_facts: guest.clone(),
            reports_all: host.reports_each_exit(),
            only: None,
            guest: ClockEpochs::new(&guest.clock),
            host: ClockEpochs::new(&host.clock),
            host_until_ns: 0,
            observed: BTreeMap::new(),
            ran: BTreeMap::new(),
            interrupts_left: KEPT,
            gaps_left: KEPT,
            gaps: 0,
            lost_gaps: (0, 0),
            reported: ReportedVcpus::new(guest.workload == MeasuringCommand::Timerlat),
            away_left: KEPT,
        })
    }

    /// Limits the search to the VM with this name, or with a VMM of this process id.
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
                self.gaps += 1;
                self.observed.entry(gap.cpu).or_default().add_gap(gap);
            }
            Event::Activation(activation) => {
                let instants = instants(activation).take(self.gaps_left);
                let ran = self.ran.entry(activation.cpu).or_default();
                let before = ran.len();
                ran.extend(instants);
                self.gaps_left -= ran.len() - before;
            }
            Event::Activity(activity) if self.guest_facts.workload == MeasuringCommand::Osnoise => {
                let instants = interrupts(activity).take(self.interrupts_left);
                let ran = self.ran.entry(activity.cpu).or_default();
                let before = ran.len();
                ran.extend(instants);
                self.interrupts_left -= ran.len() - before;
            }
            // Any lost record may have been a gap.
            Event::Loss(loss) => match loss.kind {
                LossKind::MailboxFull => self.lost_gaps.0 = loss.count,
                LossKind::Unrecorded => self.lost_gaps.1 = loss.count,
                _ => {}
            },
            Event::Tally(tally) => {
                let has_room = self.gaps_left > 0;
                let pauses = self.guest_facts.options.pauses();
                let observed = self.observed.entry(tally.cpu).or_default();
                observed.add_tally(tally, pauses, has_room);
            }
            Event::Watermark(_) | Event::Finish(_) if self.gaps_left > 0 => {
                self.observed.values_mut().for_each(ObservedCpu::settle);
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
            Event::Vcpu(vcpu) => self.reported.define(vcpu),
            Event::VcpuClock(clock) => self.reported.add_clock(clock),
            Event::Exit(exit) => {
                let is_kept = self.reported.add_exit(exit, threshold_ns, has_room);
                self.away_left -= usize::from(is_kept);
            }
            Event::VcpuInterval(interval) => {
                let is_kept = self.reported.add_interval(interval, threshold_ns, has_room);
                self.away_left -= usize::from(is_kept);
            }
            Event::VcpuTotals(totals) => self.reported.add_totals(totals),
            Event::Watermark(mono_ns) => self.host_until_ns = self.host_until_ns.max(*mono_ns),
            Event::Finish(finish) => {
                self.host_until_ns = self.host_until_ns.max(finish.mono_ns);
            }
            _ => {}
        }
    }

    /// Returns the vCPU of each CPU of the guest.
    ///
    /// # Errors
    /// If no VM can be the guest, or the data do not prove one.
    pub fn finish(mut self) -> Result<Pairs, JoinError> {
        let (Some(_), Some(host_span)) = (self.guest.span_mono_ns(), self.host.span_mono_ns())
        else {
            let no_guest = self.guest.span_mono_ns().is_none();
            let side = if no_guest { "guest" } else { "host" };
            return Err(JoinError::NoAnchors { side });
        };
        self.observed
            .retain(|_, observed| observed.span().is_some());
        let cpus: Vec<u32> = self.observed.keys().copied().collect();
        if cpus.is_empty() {
            return Err(JoinError::NothingObserved);
        }
        self.reported.sort();
        let lost_part = self.lost_part();
        let twice = self.guest.readings_twice();
        for (cpu, observed) in &mut self.observed {
            observed.lost_part = lost_part;
            let instants = self.ran.remove(cpu).unwrap_or_default();
            match self.guest_facts.workload {
                MeasuringCommand::Timerlat => observe(observed, instants, &self.guest),
                _ => observed.ran = readings(&instants, &self.guest),
            }
            observed.settle_all(twice.clone());
        }
        let only = self.only.as_deref();
        let candidates = candidates(&self.guest_facts, &cpus, &self.reported, only)?;
        let vcpus = self.reported.iter().count();
        if cpus.len().saturating_mul(vcpus) > PAIRS {
            return Err(JoinError::TooMany {
                cpus: cpus.len(),
                vcpus,
            });
        }
        let observed = self.observed.iter();
        let holes: BTreeMap<u32, Holes<'_>> = observed
            .map(|(cpu, observed)| (*cpu, Holes::of(observed)))
            .collect();
        let tried = self.try_all(candidates, &holes);
        let host_span_ns = (host_span.0, host_span.1.min(self.host_until_ns));
        let judged = judge(tried, &self.rivals(&holes), &self.reported, host_span_ns)?;
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

    /// Returns the scores of all vCPUs for each CPU of the guest.
    fn rivals(&self, holes: &BTreeMap<u32, Holes<'_>>) -> BTreeMap<u32, Rivals> {
        let vcpus: Vec<VcpuId> = self.reported.iter().map(|(vcpu, _)| vcpu.id).collect();
        if vcpus.len() < 2 {
            return BTreeMap::new();
        }
        let room = RIVALS / (holes.len() * vcpus.len()).max(1);
        let of_cpu = holes.iter().map(|(cpu, holes)| {
            let scores = vcpus.iter();
            let scores = scores.filter_map(|id| self.score(*id, holes, room.max(1)));
            (*cpu, Rivals::new(scores.collect()))
        });
        of_cpu.collect()
    }

    /// Returns the score of a vCPU, from a sample of its exits. The sample has runs of consecutive
    /// exits, because the exits of one gap are one test.
    fn score(&self, id: VcpuId, holes: &Holes<'_>, room: usize) -> Option<Score> {
        let reported = self.reported.get(id)?;
        let clock = self.clock_of(id, reported);
        let crossing = self.crossing(&clock);
        let every = reported.away.len().div_ceil(room).max(1);
        let exits = reported.away.chunks(ROW).step_by(every).flatten().copied();
        let tests = self.examine(exits, &crossing, holes, false);
        Some(Score {
            vcpu: id,
            decades: tests.decades() * every as f64,
        })
    }

    /// Returns the evidence for the vCPUs of each VM. VMs that may be proven get a limit of visits
    /// of their own, because the number of other VMs is unlimited.
    fn try_all(
        &self,
        candidates: Vec<Candidate>,
        holes: &BTreeMap<u32, Holes<'_>>,
    ) -> Vec<Vec<Tried>> {
        let few = self.looks(candidates.iter().map(Vec::len).sum());
        let (mut hopeful, mut others) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let pairs = candidate.into_iter();
            let pairs = pairs.filter_map(|(cpu, id)| self.examine_pair(cpu, id, holes));
            let pairs: Vec<Examined<'_>> = pairs.collect();
            let is_likely = |pair: &Examined<'_>| {
                PairingVerdict::of(pair.tests.decades()) == PairingVerdict::Proven
            };
            match pairs.iter().any(is_likely) {
                true => hopeful.push(pairs),
                false => others.push(self.summarize_pairs(pairs, few)),
            }
        }
        let looks = self.looks(hopeful.iter().map(Vec::len).sum());
        let hopeful = hopeful.into_iter();
        let hopeful = hopeful.map(|pairs| self.summarize_pairs(pairs, looks));
        hopeful.chain(others).collect()
    }

    /// Returns the limits on visits for each of `tries` vCPUs.
    fn looks(&self, tries: usize) -> Looks {
        let left = self.gaps_left + self.interrupts_left + self.away_left;
        let in_all = (LOOKS * (3 * KEPT - left)).clamp(LEAST_IN_ALL, LAID_IN_ALL);
        let most = (in_all / tries.max(1)).min(2 * LAID);
        Looks {
            aim: (LAID / self.observed.len()).min(most / 2),
            most,
        }
    }

    fn examine_pair<'a>(
        &'a self,
        cpu: u32,
        id: VcpuId,
        holes: &'a BTreeMap<u32, Holes<'a>>,
    ) -> Option<Examined<'a>> {
        let reported = self.reported.get(id)?;
        let holes = holes.get(&cpu)?;
        let clock = self.clock_of(id, reported);
        let exits = reported.away.iter().copied();
        let tests = self.examine(exits, &self.crossing(&clock), holes, true);
        Some(Examined {
            cpu,
            reported,
            clock,
            holes,
            tests,
        })
    }

    fn summarize_pairs(&self, pairs: Vec<Examined<'_>>, looks: Looks) -> Vec<Tried> {
        let pairs = pairs.into_iter();
        let tried = pairs.filter_map(|pair| self.summarize_pair(pair, looks));
        tried.collect()
    }

    fn summarize_pair(&self, pair: Examined<'_>, looks: Looks) -> Option<Tried> {
        let Examined { cpu, clock, .. } = pair;
        let crossing = self.crossing(&clock);
        let span_tsc = self.observed.get(&cpu)?.span()?;
        let mut evidence = (pair.tests).summarize(pair.holes, self.guest.tsc_hz(), looks);
        // Both recordings read the counter of one machine, so no other clock is possible.
        if self.guest_facts.workload == MeasuringCommand::Microvm && is_one(&self.host, &self.guest)
        {
            evidence.rivals = None;
        }
        Some(Tried {
            cpu,
            vcpu: pair.reported.vcpu.clone()?,
            there_ns: pair.reported.there_ns(self.reports_all),
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
        let is_timer = self.guest_facts.workload == MeasuringCommand::Timerlat;
        // A periodic task reports times of CLOCK_MONOTONIC.
        let reported_ns = match is_timer {
            true => self.guest.bound_ns(),
            false => self.guest.offset_bound_ns(),
        };
        let rules = Rules {
            threshold_ns: self.guest_facts.options.threshold_ns,
            margin_ns: self.host.bound_ns().saturating_add(reported_ns),
            loses_gaps: !is_timer,
            bounds,
        };
        examine(exits, crossing, holes, rules)
    }

    /// Returns the part of the gaps that were lost.
    fn lost_part(&self) -> f64 {
        let (reported, lost) = (self.gaps, self.lost_gaps.0.saturating_add(self.lost_gaps.1));
        lost as f64 / (reported + lost).max(1) as f64
    }

    fn clock_of(&self, id: VcpuId, reported: &ReportedVcpu) -> GuestClock {
        match self.guest_facts.workload {
            MeasuringCommand::Microvm => GuestClock::of_host(id),
            _ => reported.clock.clone(),
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
