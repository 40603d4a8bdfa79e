//! Pairs of guest CPUs and host vCPUs, with the conversion between the clocks of both sides.

use vmnoise_events::{MeasuringCommand, RunFacts, VcpuId};

use super::clock_epochs::ClockEpochs;
use super::crossing::Crossing;
use super::error::JoinError;
use super::guest_clock::GuestClock;
use super::judgement::{Judged, Weighed};
use super::odds::PairingVerdict;
use super::one_machine::disagreement_ns;
use super::pairing::{CandidateVm, Pairing, VcpuPair};
use super::unpaired::PairingFailure;

/// CPUs of a guest as vCPUs of its host. Times are nanoseconds of CLOCK_MONOTONIC, either the
/// guest's or the host's. A time of the guest is converted through the guest's counter, by the
/// guest's own anchors.
#[derive(Debug, Clone)]
pub struct Pairs {
    pub(super) host: ClockEpochs,
    /// Time up to which all host events have been reported, except lost ones, in nanoseconds of the
    /// host's CLOCK_MONOTONIC.
    pub(super) host_until_ns: u64,
    pub(super) guest: ClockEpochs,
    /// vCPUs, in the order of `pairs`.
    vcpus: Vec<JoinedVcpu>,
    pub(super) pairs: Vec<VcpuPair>,
    pub(super) pairing: Pairing,
}

/// A vCPU that is a CPU of the guest.
#[derive(Debug, Clone)]
struct JoinedVcpu {
    id: VcpuId,
    clock: GuestClock,
    /// First and last time at which the vCPU is known to have been on this host. Before and after,
    /// the host's recording contains nothing about the guest.
    there_ns: Option<(u64, u64)>,
}

impl Pairs {
    /// Creates the pairs of the best candidate.
    ///
    /// # Errors If the best candidate is not proven.
    pub(super) fn of(
        judged: Vec<Judged>,
        host: ClockEpochs,
        host_until_ns: u64,
        guest: ClockEpochs,
        facts: &RunFacts,
    ) -> Result<Pairs, JoinError> {
        // A microVM and its host read the clocks of one machine.
        let apart_ns = match facts.workload {
            MeasuringCommand::Microvm => disagreement_ns(&host, &guest),
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
            verdict: best.map_or(PairingVerdict::NotProven, |best| best.verdict),
            log10_odds: best.map_or(0.0, |best| best.log10_odds),
            candidates,
        };
        let best = judged.into_iter().next();
        let Some(best) = best.filter(|_| pairing.verdict == PairingVerdict::Proven) else {
            return Err(JoinError::Unpaired(Box::new(PairingFailure {
                pairing,
                threshold_ns: facts.options.threshold_ns,
                is_timer: facts.workload == MeasuringCommand::Timerlat,
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

    /// Returns the pairs, ascending by the guest's CPU.
    pub fn pairs(&self) -> &[VcpuPair] {
        &self.pairs
    }

    /// Returns the evidence for the accepted VM, and for every other VM that may be the guest.
    pub fn pairing(&self) -> &Pairing {
        &self.pairing
    }

    /// Returns the CPU of the guest that is this vCPU; `None` without such a pair.
    pub fn cpu_of(&self, vcpu: VcpuId) -> Option<u32> {
        let place = self.vcpus.iter().position(|it| it.id == vcpu)?;
        Some(self.pairs[place].cpu)
    }

    /// Returns the vCPU that is this CPU of the guest; `None` without such a pair.
    pub fn vcpu_of(&self, cpu: u32) -> Option<VcpuId> {
        self.joined(cpu).map(|vcpu| vcpu.id)
    }

    /// Converts a time of the host to the guest's clock. Returns `None` if no clock is known at
    /// this time, or if the time lies outside of either recording. The result is monotone while the
    /// guest keeps one clock.
    pub fn map(&self, vcpu: VcpuId, host_mono_ns: u64) -> Option<u64> {
        let joined = self.vcpus.iter().find(|it| it.id == vcpu)?;
        self.crossing(joined).guest_mono_ns(host_mono_ns)
    }

    /// Converts a time of a guest's CPU to the host's clock. Returns `None` in the same cases as
    /// [`Self::map`], and if the guest's counter showed a reading twice.
    pub fn host_mono_ns(&self, cpu: u32, guest_mono_ns: u64) -> Option<u64> {
        let (_, guest_tsc) = self.guest.tsc(guest_mono_ns)?;
        let (_, host_mono_ns) = self.crossing(self.joined(cpu)?).host_mono_ns(guest_tsc)?;
        Some(host_mono_ns)
    }

    /// Returns whether the host's recording covers this whole time of the guest. The vCPU must have
    /// been on this host, and one known clock must hold for the whole time.
    pub fn witnessed(&self, cpu: u32, start_mono_ns: u64, end_mono_ns: u64) -> bool {
        let line = |guest_mono_ns| {
            let vcpu = self.joined(cpu)?;
            let (from_ns, until_ns) = vcpu.there_ns?;
            let (epoch, guest_tsc) = self.guest.tsc(guest_mono_ns)?;
            let (line, host_mono_ns) = self.crossing(vcpu).host_mono_ns(guest_tsc)?;
            let is_there = from_ns <= host_mono_ns && host_mono_ns <= until_ns;
            let is_known = is_there && host_mono_ns <= self.host_until_ns;
            is_known.then_some((epoch, line, guest_tsc))
        };
        let ends = line(start_mono_ns).zip(line(end_mono_ns));
        let is_one_line = ends.is_some_and(|((epoch, line, start_tsc), end)| {
            let crossing = self.joined(cpu).map(|vcpu| self.crossing(vcpu));
            let is_shown_once = |it: Crossing<'_>| it.shows_once(line, start_tsc, end.2);
            (epoch, line) == (end.0, end.1) && crossing.is_some_and(is_shown_once)
        });
        start_mono_ns <= end_mono_ns && is_one_line
    }

    /// Returns the error bound of [`Self::map`] on this CPU, in nanoseconds; `None` without a pair.
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

/// Returns the reported form of a pair. `apart_ns` is the disagreement of the clocks if both
/// recordings are of one machine; otherwise `None`.
fn report(
    weighed: &Weighed,
    (host, guest): (&ClockEpochs, &ClockEpochs),
    apart_ns: Option<u64>,
) -> VcpuPair {
    let Weighed { tried, odds, .. } = weighed;
    let evidence = &tried.evidence;
    let anchors_ns = host.bound_ns().saturating_add(guest.bound_ns());
    let off_ns = apart_ns.or(evidence.widest_slack_ns());
    VcpuPair {
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

/// Returns the error bound of a time converted to the other side's clock, in nanoseconds. `off_ns`
/// is the possible error of the recorded clock, and `None` if the recorded clock is exact.
///
/// An exact clock leaves only the error of both sides' anchors. Otherwise, the bound adds `off_ns`,
/// and once more the error of the host's anchors, which placed the exits. `off_ns` is the slack of
/// the exits, or the disagreement of two recordings of one machine.
fn bound_ns(anchors_ns: u64, host: &ClockEpochs, off_ns: Option<u64>) -> u64 {
    match off_ns {
        None => anchors_ns,
        Some(off_ns) => anchors_ns
            .saturating_add(off_ns)
            .saturating_add(host.bound_ns()),
    }
}
