//! Decides from the evidence which VM is the guest.

use std::collections::BTreeMap;

use vmnoise_events::Vcpu;

use super::crossing::Overlap;
use super::error::JoinError;
use super::evidence::Evidence;
use super::guest_clock::GuestClock;
use super::odds::{PairingVerdict, REFUSED, against};
use super::pairing::{Alternative, Odds};
use super::reported::{ReportedVcpus, name_of};
use super::rivals::Rivals;

/// Minimum number of failed tests that can refuse a pair. Fewer failures may be accidents.
const FAILURES: u64 = 3;

/// A vCPU as a CPU of the guest, with the evidence for this pair.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) cpu: u32,
    pub(super) vcpu: Vcpu,
    pub(super) clock: GuestClock,
    /// First and last time at which the vCPU is known to have been on this host, in nanoseconds of
    /// the host's CLOCK_MONOTONIC.
    pub(super) there_ns: Option<(u64, u64)>,
    pub(super) overlap: Overlap,
    /// Start and end of the guest's recording, converted by `clock` to the host's CLOCK_MONOTONIC
    /// in nanoseconds.
    pub(super) placed_ns: (u64, u64),
    pub(super) evidence: Evidence,
}

/// A pair of CPU and vCPU, with its odds.
#[derive(Debug)]
pub(super) struct Weighed {
    pub(super) tried: Tried,
    pub(super) odds: Odds,
    /// Whether the pair is accepted.
    pub(super) is_joined: bool,
    /// CPU whose proof this pair relies on; `None` if the pair's own odds decide.
    pub(super) leans_on: Option<u32>,
}

/// A VM that may be the guest, with its odds.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) vm: Vcpu,
    pub(super) pairs: Vec<Weighed>,
    pub(super) odds: Odds,
}

impl Judged {
    fn of(
        pairs: Vec<Tried>,
        rivals: &BTreeMap<u32, Rivals>,
        reported: &ReportedVcpus,
    ) -> Option<Judged> {
        let vm = pairs.first()?.vcpu.clone();
        let weighed = pairs.into_iter().map(|tried| Weighed {
            odds: odds_of_pair(&tried, rivals, reported),
            tried,
            is_joined: false,
            leans_on: None,
        });
        let mut pairs: Vec<Weighed> = weighed.collect();
        // All CPUs of the guest are vCPUs of one VM. Therefore one refused pair refuses the VM, and
        // one proven pair proves the VM.
        let odds = || pairs.iter().map(|pair| &pair.odds);
        let least = odds().min_by(|a, b| a.decades.total_cmp(&b.decades))?;
        let most = odds().max_by(|a, b| a.decades.total_cmp(&b.decades))?;
        let odds = match least.verdict() {
            PairingVerdict::Refused => least.clone(),
            _ => most.clone(),
        };
        if odds.verdict() == PairingVerdict::Proven {
            take(&mut pairs);
        }
        Some(Judged { vm, pairs, odds })
    }
}

/// Returns all VMs that were recorded at the same time as the guest, the best first.
///
/// # Errors If no VM was recorded at the same time as the guest.
pub(super) fn judge(
    candidates: Vec<Vec<Tried>>,
    rivals: &BTreeMap<u32, Rivals>,
    reported: &ReportedVcpus,
    host_span_ns: (u64, u64),
) -> Result<Vec<Judged>, JoinError> {
    let mut apart = None;
    let mut judged = Vec::new();
    for pairs in candidates {
        let (together, others): (Vec<Tried>, Vec<Tried>) =
            pairs.into_iter().partition(|tried| tried.overlap.ns > 0);
        apart = apart.or(others.into_iter().next());
        judged.extend(Judged::of(together, rivals, reported));
    }
    judged.sort_by(|a, b| b.odds.decades.total_cmp(&a.odds.decades));
    match (judged.is_empty(), apart) {
        (false, _) => Ok(judged),
        (true, Some(apart)) => Err(JoinError::NoOverlap {
            vcpu: name_of(&apart.vcpu),
            guest_mono_ns: apart.placed_ns,
            host_mono_ns: host_span_ns,
        }),
        (true, None) => Err(JoinError::NothingObserved),
    }
}

/// Accepts pairs of a proven VM. A pair with a proof of its own is accepted. A pair with positive
/// odds that are too low relies on the best pair of the VM, if both have the same clock.
fn take(pairs: &mut [Weighed]) {
    let best = pairs
        .iter()
        .max_by(|a, b| a.odds.decades.total_cmp(&b.odds.decades));
    let Some(best) = best.map(|pair| (pair.tried.cpu, pair.tried.clock.clone())) else {
        return;
    };
    for pair in pairs {
        let is_proven = pair.odds.verdict() == PairingVerdict::Proven;
        let leans = !is_proven && pair.odds.decades > 0.0 && pair.tried.clock.is_like(&best.1);
        pair.is_joined = is_proven || leans;
        pair.leans_on = leans.then_some(best.0);
    }
}

/// Returns the odds that this vCPU is this CPU, over the best alternative. Fewer than [`FAILURES`]
/// failed tests cannot refuse the pair.
fn odds_of_pair(tried: &Tried, rivals: &BTreeMap<u32, Rivals>, reported: &ReportedVcpus) -> Odds {
    let odds = least_odds(tried, rivals, reported);
    let Evidence {
        tested,
        inside,
        contradicted,
        ..
    } = tried.evidence;
    let failures = tested - inside + contradicted;
    match failures < FAILURES && odds.verdict() == PairingVerdict::Refused {
        true => Odds {
            decades: REFUSED,
            ..odds
        },
        false => odds,
    }
}

fn least_odds(tried: &Tried, rivals: &BTreeMap<u32, Rivals>, reported: &ReportedVcpus) -> Odds {
    let evidence = &tried.evidence;
    let mut all = against_clocks(evidence);
    if PairingVerdict::of(evidence.misfit) == PairingVerdict::Refused {
        all.push(Odds {
            decades: evidence.misfit,
            against: Alternative::Failures,
        });
    }
    let rivals = rivals.get(&tried.cpu);
    if let Some(best) = rivals.and_then(|rivals| rivals.of(tried.vcpu.id))
        && let Some(vcpu) = reported
            .get(best.vcpu)
            .and_then(|reported| reported.vcpu.as_ref())
    {
        all.push(Odds {
            decades: against(evidence.decades, best.decades, best.mean),
            against: Alternative::Vcpu {
                vcpu: vcpu.number,
                vm: vcpu.vm_name.clone(),
                vmm_pid: vcpu.vmm_pid,
            },
        });
    }
    Odds::least(all)
}

/// Returns the odds of a pair over chance, and over other clocks.
fn against_clocks(evidence: &Evidence) -> Vec<Odds> {
    let mut all = vec![Odds {
        decades: evidence.decades,
        against: Alternative::Chance,
    }];
    let Some(rivals) = evidence.rivals else {
        return all;
    };
    let ns = i128::from(rivals.offset) * 1_000_000_000 / i128::from(evidence.tsc_hz.max(1));
    let clock = Alternative::Clock {
        offset_ns: i64::try_from(ns).unwrap_or(i64::MAX),
    };
    all.push(Odds {
        decades: match rivals.ahead >= 0.0 {
            true => rivals.ahead,
            // One of so many offsets fits a little better by chance.
            false => (-rivals.mean).min(0.0),
        },
        against: clock.clone(),
    });
    if PairingVerdict::of(rivals.within) == PairingVerdict::Refused {
        all.push(Odds {
            decades: rivals.within,
            against: clock,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{VcpuClock, VcpuId};

    use super::*;

    fn clock(offset_tsc: i64) -> GuestClock {
        let mut clock = GuestClock::default();
        clock.add(&VcpuClock {
            vcpu: VcpuId(0),
            before_until_mono_ns: 0,
            from_mono_ns: 0,
            offset_tsc,
            ratio: 1,
            ratio_frac_bits: 0,
        });
        clock
    }

    /// Returns a pair with these odds and this clock.
    fn weighed(cpu: u32, decades: f64, offset_tsc: i64) -> Weighed {
        Weighed {
            tried: Tried {
                cpu,
                vcpu: Vcpu {
                    id: VcpuId(cpu),
                    tid: 70 + cpu,
                    vmm_pid: 70,
                    number: Some(cpu),
                    vm: 1,
                    vm_name: "web".into(),
                    identity: Default::default(),
                    sees_kvm: true,
                },
                clock: clock(offset_tsc),
                there_ns: None,
                overlap: Overlap::default(),
                placed_ns: (0, 0),
                evidence: Evidence::default(),
            },
            odds: Odds {
                decades,
                against: Alternative::Chance,
            },
            is_joined: false,
            leans_on: None,
        }
    }

    #[test]
    fn who_has_too_few_odds_leans_on_a_sibling_with_the_same_clock() {
        let mut pairs = [
            weighed(0, 7.0, -9),
            weighed(1, 40.0, -5),
            weighed(2, 0.3, -5),
            weighed(3, 0.3, -6),
            weighed(4, 0.0, -5),
        ];
        take(&mut pairs);
        let reported = pairs.map(|pair| (pair.is_joined, pair.leans_on));
        let expected = [
            (true, None),
            (true, None),
            (true, Some(1)),
            (false, None),
            (false, None),
        ];
        assert_eq!(reported, expected);
    }
}
