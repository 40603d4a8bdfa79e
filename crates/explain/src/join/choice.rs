//! Which VM is the guest, once the data have spoken.

use vmnoise_events::Vcpu;

use super::crossing::Overlap;
use super::error::JoinError;
use super::evidence::{Evidence, Verdict};
use super::guest_clock::GuestClock;
use super::told::name_of;

/// One vCPU as one CPU of the guest.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) cpu: u32,
    pub(super) vcpu: Vcpu,
    pub(super) clock: GuestClock,
    pub(super) overlap: Overlap,
    /// Where the guest's recording lies on the host's CLOCK_MONOTONIC by that clock.
    pub(super) placed_ns: (u64, u64),
    pub(super) evidence: Evidence,
}

/// A VM that may be the guest.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) vm: String,
    pub(super) pairs: Vec<Tried>,
}

impl Judged {
    /// One CPU that is contradicted contradicts all: they are vCPUs of one VM.
    fn verdict(&self) -> Verdict {
        let verdicts = || self.pairs.iter().map(|tried| tried.evidence.verdict);
        let is = |verdict| verdicts().any(|of_pair| of_pair == verdict);
        match () {
            () if is(Verdict::Contradicted) => Verdict::Contradicted,
            () if is(Verdict::Confirmed) => Verdict::Confirmed,
            () => Verdict::Open,
        }
    }
}

/// All VMs that may be the guest, and what is told where none is.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) judged: Vec<Judged>,
    /// When the host recorded, its CLOCK_MONOTONIC in nanoseconds.
    pub(super) host_span_ns: (u64, u64),
    /// Of the guest.
    pub(super) threshold_ns: u64,
    /// Whether its tasks wake up, and feel no gaps.
    pub(super) is_timer: bool,
}

impl Choice {
    /// The pairs of the one VM that the data confirm, or that is left where they say too
    /// little.
    pub(super) fn choose(mut self) -> Result<Vec<Tried>, JoinError> {
        let mut apart = None;
        for judged in &mut self.judged {
            let pairs = std::mem::take(&mut judged.pairs);
            let (together, others): (Vec<Tried>, Vec<Tried>) =
                pairs.into_iter().partition(|tried| tried.overlap.ns > 0);
            judged.pairs = together;
            apart = apart.or(others.into_iter().next());
        }
        self.judged.retain(|judged| !judged.pairs.is_empty());
        for verdict in [Verdict::Confirmed, Verdict::Open] {
            let is_such = |judged: &Judged| judged.verdict() == verdict;
            let such = self.judged.iter().filter(|judged| is_such(judged));
            let vms: Vec<String> = such.map(|judged| judged.vm.clone()).collect();
            if vms.len() > 1 {
                let untested = verdict == Verdict::Open;
                return Err(JoinError::Ambiguous { vms, untested });
            }
            if let Some(place) = self.judged.iter().position(is_such) {
                let pairs = self.judged.swap_remove(place).pairs;
                return match (self.is_timer && verdict == Verdict::Open, &pairs[..]) {
                    (true, [tried, ..]) => Err(JoinError::Untested {
                        vcpu: name_of(&tried.vcpu),
                        cpu: tried.cpu,
                        tested: tried.evidence.tested,
                    }),
                    _ => Ok(pairs),
                };
            }
        }
        Err(self.refusal(apart))
    }

    /// Why none is left; `apart` is one whose recording is of another time.
    fn refusal(&self, apart: Option<Tried>) -> JoinError {
        let tried = self.judged.iter().flat_map(|judged| &judged.pairs);
        let wrong = tried.filter(|tried| tried.evidence.verdict == Verdict::Contradicted);
        let nearest = wrong.max_by(|a, b| {
            let inside = |tried: &Tried| tried.evidence.inside_percent();
            inside(a).total_cmp(&inside(b))
        });
        match (nearest, apart) {
            (Some(nearest), _) if self.is_timer => JoinError::Elsewhere {
                vcpu: name_of(&nearest.vcpu),
                cpu: nearest.cpu,
                tested: nearest.evidence.tested,
                away: nearest.evidence.tested - nearest.evidence.inside,
                by_chance_percent: (1.0 - nearest.evidence.chance) * 100.0,
            },
            (Some(nearest), _) => JoinError::Contradicted {
                vcpu: name_of(&nearest.vcpu),
                cpu: nearest.cpu,
                tested: nearest.evidence.tested,
                inside: nearest.evidence.inside,
                by_chance_percent: nearest.evidence.chance * 100.0,
                threshold_ns: self.threshold_ns,
            },
            (None, Some(apart)) => JoinError::NoOverlap {
                vcpu: name_of(&apart.vcpu),
                guest_mono_ns: apart.placed_ns,
                host_mono_ns: self.host_span_ns,
            },
            (None, None) => JoinError::NothingFelt,
        }
    }
}
