//! Which vCPU is which CPU of the guest, and the one clock that both sides share.

use vmnoise_events::{RunFacts, VcpuId, Workload};

use super::clock_epochs::ClockEpochs;
use super::crossing::Crossing;
use super::error::JoinError;
use super::guest_clock::GuestClock;
use super::judgement::{Judged, Weighed};
use super::odds::Verdict;
use super::one_machine::disagreement_ns;
use super::pairing::{CandidateVm, Pair, Pairing};
use super::unpaired::Unpaired;

/// The CPUs of a guest as vCPUs of its host. Times of the guest are those that its own
/// anchors give to readings of its counter; nanoseconds of either side's CLOCK_MONOTONIC.
#[derive(Debug, Clone)]
pub struct Pairs {
    pub(super) host: ClockEpochs,
    /// Everything that ended before has been reported, where it was not lost.
    pub(super) host_until_ns: u64,
    pub(super) guest: ClockEpochs,
    /// As in `pairs`.
    vcpus: Vec<JoinedVcpu>,
    pub(super) pairs: Vec<Pair>,
    pub(super) pairing: Pairing,
}

/// A vCPU that is a CPU of the guest.
#[derive(Debug, Clone)]
struct JoinedVcpu {
    id: VcpuId,
    clock: GuestClock,
    /// When it is known to have been on its host: before, and after, its host says nothing of its guest.
    there_ns: Option<(u64, u64)>,
}

impl Pairs {
    /// Takes the best of those that were judged.
    ///
    /// # Errors
    /// If it is not proven.
    pub(super) fn of(
        judged: Vec<Judged>,
        host: ClockEpochs,
        host_until_ns: u64,
        guest: ClockEpochs,
        facts: &RunFacts,
    ) -> Result<Pairs, JoinError> {
        // No clock of another machine lies between a microVM and its host.
        let apart_ns = match facts.workload {
            Workload::Microvm => disagreement_ns(&host, &guest),
            _ => None,
        };
        let reported = |judged: &Judged| CandidateVm {
            vm: judged.vm.vm_name.clone(),
            vmm_pid: judged.vm.vmm_pid,
            identity: judged.vm.identity.clone(),
            verdict: judged.odds.verdict(),
            log10_odds: judged.odds.log10(),
            against: judged.odds.against.clone(),
            pairs: judged
                .pairs
                .iter()
                .map(|pair| report(pair, (&host, &guest), apart_ns))
                .collect(),
        };
        let candidates: Vec<CandidateVm> = judged.iter().map(reported).collect();
        let best = candidates.first();
        let pairing = Pairing {
            verdict: best.map_or(Verdict::NotProven, |best| best.verdict),
            log10_odds: best.map_or(0.0, |best| best.log10_odds),
            candidates,
        };
        let best = judged.into_iter().next();
        let Some(best) = best.filter(|_| pairing.verdict == Verdict::Proven) else {
            return Err(JoinError::Unpaired(Box::new(Unpaired {
                pairing,
                threshold_ns: facts.options.threshold_ns,
                is_timer: facts.workload == Workload::Timerlat,
                pauses: facts.options.pauses(),
            })));
        };
        let joined = best.pairs.into_iter().filter(|pair| pair.is_joined);
        Ok(Pairs {
            pairs: pairing.candidates[0]
                .pairs
                .iter()
                .filter(|pair| pair.joined)
                .cloned()
                .collect(),
            vcpus: joined
                .map(|pair| JoinedVcpu {
                    id: pair.tried.vcpu.id,
                    clock: pair.tried.clock,
                    there_ns: pair.tried.there_ns,
                })
                .collect(),
            pairing,
            host_until_ns,
            host,
            guest,
        })
    }

    /// The pairs, ascending by the guest's CPU.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// What speaks for them, and for every other VM that may be the guest.
    pub fn pairing(&self) -> &Pairing {
        &self.pairing
    }

    /// Which CPU of the guest this vCPU is.
    pub fn cpu_of(&self, vcpu: VcpuId) -> Option<u32> {
        let place = self.vcpus.iter().position(|it| it.id == vcpu)?;
        Some(self.pairs[place].cpu)
    }

    /// Which vCPU this CPU of the guest is.
    pub fn vcpu_of(&self, cpu: u32) -> Option<VcpuId> {
        self.joined(cpu).map(|vcpu| vcpu.id)
    }

    /// The guest's time at this instant of its host; `None` where no clock is known to hold,
    /// or either side had not begun or had ended. Monotone as long as one clock holds.
    pub fn map(&self, vcpu: VcpuId, host_mono_ns: u64) -> Option<u64> {
        let joined = self.vcpus.iter().find(|it| it.id == vcpu)?;
        self.crossing(joined).guest_mono_ns(host_mono_ns)
    }

    /// The host's time at this instant of a guest's CPU, the last if there are several;
    /// `None` as for [`Self::map`].
    pub fn host_mono_ns(&self, cpu: u32, guest_mono_ns: u64) -> Option<u64> {
        let (_, guest_tsc) = self.guest.tsc(guest_mono_ns)?;
        let (_, host_mono_ns) = self.crossing(self.joined(cpu)?).host_mono_ns(guest_tsc)?;
        Some(host_mono_ns)
    }

    /// Whether the host recorded all of that time of the guest, on one known clock, and the vCPU
    /// was there.
    pub fn witnessed(&self, cpu: u32, start_mono_ns: u64, end_mono_ns: u64) -> bool {
        let line = |guest_mono_ns| {
            let vcpu = self.joined(cpu)?;
            let (from_ns, until_ns) = vcpu.there_ns?;
            let (epoch, guest_tsc) = self.guest.tsc(guest_mono_ns)?;
            // What the guest's counter shows twice may have been at the other of its times.
            self.guest.mono_ns(guest_tsc)?;
            let (line, host_mono_ns) = self.crossing(vcpu).host_mono_ns(guest_tsc)?;
            let is_there = from_ns <= host_mono_ns && host_mono_ns <= until_ns;
            (is_there && host_mono_ns <= self.host_until_ns).then_some((epoch, line))
        };
        let lines = line(start_mono_ns).zip(line(end_mono_ns));
        start_mono_ns <= end_mono_ns && lines.is_some_and(|(start, end)| start == end)
    }

    /// Bound of the error of [`Self::map`] on this CPU, in nanoseconds; `None` without a pair.
    pub fn bound_ns(&self, cpu: u32) -> Option<u64> {
        let pair = self.pairs.iter().find(|pair| pair.cpu == cpu)?;
        Some(pair.bound_ns)
    }

    fn joined(&self, cpu: u32) -> Option<&JoinedVcpu> {
        let place = self.pairs.iter().position(|pair| pair.cpu == cpu)?;
        Some(&self.vcpus[place])
    }

    fn crossing<'a>(&'a self, vcpu: &'a JoinedVcpu) -> Crossing<'a> {
        Crossing {
            host: &self.host,
            guest: &self.guest,
            clock: &vcpu.clock,
        }
    }
}

/// What people read of a pair, whose clocks are of one machine or are not.
fn report(
    weighed: &Weighed,
    (host, guest): (&ClockEpochs, &ClockEpochs),
    apart_ns: Option<u64>,
) -> Pair {
    let Weighed { tried, odds, .. } = weighed;
    let evidence = &tried.evidence;
    let anchors_ns = host.bound_ns().saturating_add(guest.bound_ns());
    let off_ns = apart_ns.or(evidence.widest_slack_ns());
    Pair {
        cpu: tried.cpu,
        vm: tried.vcpu.vm_name.clone(),
        vmm_pid: tried.vcpu.vmm_pid,
        vcpu: tried.vcpu.number,
        tid: tried.vcpu.tid,
        clocks: tried.overlap.clocks,
        overlap_ns: tried.overlap.ns,
        exits_tested: evidence.tested,
        exits_inside: evidence.inside,
        exits_contradicted: evidence.contradicted,
        by_chance_percent: evidence.chance * 100.0,
        slack_ns: evidence.slack_ns,
        anchors_ns,
        bound_ns: bound_ns(anchors_ns, host, off_ns),
        log10_odds: odds.log10(),
        against: odds.against.clone(),
        verdict: odds.verdict(),
        joined: weighed.is_joined,
        leans_on: weighed.leans_on,
    }
}

/// How wrong a time can be that is laid over the other side's clock. Where the clock recorded
/// is the guest's to the cycle, what the anchors of both sides add. If it is off, then by no
/// more than the slack of the exits, which were themselves placed by the host's anchors; of one
/// machine, by no more than its two recordings disagree.
fn bound_ns(anchors_ns: u64, host: &ClockEpochs, off_ns: Option<u64>) -> u64 {
    match off_ns {
        None => anchors_ns,
        Some(off_ns) => anchors_ns
            .saturating_add(off_ns)
            .saturating_add(host.bound_ns()),
    }
}
