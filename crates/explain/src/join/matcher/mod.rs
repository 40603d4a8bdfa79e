//! Pass 1 of a join: takes both recordings, and says which vCPU is which CPU of the guest.

use std::collections::BTreeMap;

use vmnoise_events::{Event, LossKind, RunFacts, VcpuId, Workload};

use super::candidates::{Candidate, candidates};
use super::clock_epochs::ClockEpochs;
use super::crossing::Crossing;
use super::error::JoinError;
use super::evidence::{Rules, Tests, examine};
use super::guest_clock::GuestClock;
use super::judgement::{Tried, judge};
use super::observed_cpu::{Holes, ObservedCpu};
use super::odds::Verdict;
use super::one_machine::is_one;
use super::pairs::Pairs;
use super::ran::{instants, interrupts, observe, readings};
use super::reported::{ReportedVcpu, ReportedVcpus};
use super::rivals::{Rivals, Score};
use super::shifted::Looks;

/// Gaps, and exits, that are kept as evidence (64 MB of each, and while VMs that may be proven are tried some
/// hundred bytes more for each of their exits that is tested): those after them are not
/// tested. Nothing else of either recording grows with it but the anchors, 50 a second.
const KEPT: usize = 4 << 20;
/// Exits that are taken in a row where not all are.
const ROW: usize = 64;
/// Exits that are laid over all CPUs of the guest, to see whether another vCPU fits as well.
const RIVALS: usize = 1 << 18;
/// Pairs of a CPU and a vCPU that are compared so. A guest of 256 CPUs among 1,024 vCPUs has as many.
const PAIRS: usize = 1 << 18;
/// Gaps that tests are laid over at other offsets of the clock, on all CPUs of the guest.
const LAID: usize = 1 << 20;
/// As `LAID`, for all vCPUs that are tried: beyond 128 of them each has less. 1,000 of them still look at 16 tests
/// over a guest that has 8,000 gaps a second.
const LAID_IN_ALL: usize = LAID << 8;
/// No more than so many looks for each gap, instant and exit that is kept, so that the time is linear in what the
/// recordings hold; the vCPUs of two VMs may always look as often as they like.
const LOOKS: usize = 256;
const LEAST_IN_ALL: usize = 2 * (2 * LAID);

/// Finds the vCPUs that a guest's CPUs are. Takes every event of both recordings once; in
/// which order the two sides come does not matter.
#[derive(Debug)]
pub struct Matcher {
    guest_facts: RunFacts,
    /// Whether the host's recording has every exit.
    reports_all: bool,
    only: Option<String>,
    guest: ClockEpochs,
    host: ClockEpochs,
    host_until_ns: u64,
    observed: BTreeMap<u32, ObservedCpu>,
    /// Instants at which periodic tasks ran, or a guest that polls had an interrupt; the guest's
    /// CLOCK_MONOTONIC in nanoseconds.
    ran: BTreeMap<u32, Vec<u64>>,
    /// How many of the latter may still be kept.
    interrupts_left: usize,
    /// How many gaps or instants, and times away, may still be kept.
    gaps_left: usize,
    /// Of the guest's gaps, how many were reported.
    gaps: u64,
    /// How many found no room in the mailbox, and how many events none in the recording.
    lost_gaps: (u64, u64),
    reported: ReportedVcpus,
    away_left: usize,
}

/// A vCPU as a CPU of the guest, and its exits laid over the gaps of that.
#[derive(Debug)]
struct Examined<'a> {
    cpu: u32,
    reported: &'a ReportedVcpu,
    clock: GuestClock,
    holes: &'a Holes<'a>,
    tests: Tests,
}

impl Matcher {
    /// Starts with what was true before the first event of either recording.
    ///
    /// # Errors
    /// Where the two cannot be of a guest and its host, in this order.
    pub fn new(guest: &RunFacts, host: &RunFacts) -> Result<Matcher, JoinError> {
        match (guest.workload, host.workload) {
            (Workload::Exits, Workload::Exits) => return Err(JoinError::NoGuest),
            (Workload::Exits, _) => return Err(JoinError::Swapped),
            (Workload::Observed, _) => return Err(JoinError::Observed),
            (_, Workload::Exits) => {}
            (Workload::Osnoise | Workload::Microvm | Workload::Timerlat, _) => {
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
            reported: ReportedVcpus::new(guest.workload == Workload::Timerlat),
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
            Event::Activity(activity) if self.guest_facts.workload == Workload::Osnoise => {
                let instants = interrupts(activity).take(self.interrupts_left);
                let ran = self.ran.entry(activity.cpu).or_default();
                let before = ran.len();
                ran.extend(instants);
                self.interrupts_left -= ran.len() - before;
            }
            // What the recording lacks may have been gaps.
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

    /// Which vCPU each CPU of the guest is.
    ///
    /// # Errors
    /// Where no VM can be the guest, or the data do not prove that one is.
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
        for (cpu, observed) in &mut self.observed {
            observed.lost_part = lost_part;
            observed.sort();
            let instants = self.ran.remove(cpu).unwrap_or_default();
            match self.guest_facts.workload {
                Workload::Timerlat => observe(observed, instants, &self.guest),
                _ => observed.ran = readings(&instants, &self.guest),
            }
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

    /// How well each vCPU would be each CPU.
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

    /// So many of its exits stand for all of them. They are taken in rows, for exits of one gap
    /// are one test.
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

    /// What the data say of the vCPUs of each VM. Those VMs that may be proven share their looks with no
    /// others: of these there may be any number.
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
            let is_likely =
                |pair: &Examined<'_>| Verdict::of(pair.tests.decades()) == Verdict::Proven;
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

    /// How often each of so many vCPUs may look.
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
        // Both read the counter of one machine: there is no other clock that it could be.
        if self.guest_facts.workload == Workload::Microvm && is_one(&self.host, &self.guest) {
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
        let is_timer = self.guest_facts.workload == Workload::Timerlat;
        // A task reports the time by CLOCK_MONOTONIC.
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

    /// How much of the gaps found no room on their way.
    fn lost_part(&self) -> f64 {
        let (reported, lost) = (self.gaps, self.lost_gaps.0.saturating_add(self.lost_gaps.1));
        lost as f64 / (reported + lost).max(1) as f64
    }

    fn clock_of(&self, id: VcpuId, reported: &ReportedVcpu) -> GuestClock {
        match self.guest_facts.workload {
            Workload::Microvm => GuestClock::of_host(id),
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
