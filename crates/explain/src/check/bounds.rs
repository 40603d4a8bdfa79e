//! Between what a share, or somebody, can have had of a run: what is booked, and what may be theirs besides.

use vmnoise_events::Share;
use wildmatch::WildMatch;

use super::budget::Culprit;
use super::evidence::Evidence;
use crate::summary::{CpuSummary, Summary};

/// At least and at most, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bounds {
    /// What is booked.
    pub(super) booked_ns: u64,
    pub(super) at_least_ns: u64,
    pub(super) at_most_ns: u64,
    /// The shares that hold what may be theirs besides.
    pub(super) booked_as: Vec<Share>,
    /// What the clocks may have moved from one share to another, either way.
    pub(super) clock_ns: u64,
}

impl Bounds {
    /// Of a share; `None` where it was not witnessed.
    pub(super) fn of_share(evidence: &Evidence, share: Share) -> Option<Bounds> {
        let booked_ns = evidence.sample.whole.share_ns(share)?;
        let summary = &evidence.sample.summary;
        // Nobody knows whose it is, which is what these shares say.
        let has_hidden = !matches!(share, Share::HvOrHw | Share::Unexplained);
        let mut booked_as = Vec::new();
        match share {
            Share::Hw => booked_as.extend([Share::HvOrHw, Share::Unexplained]),
            // KVM's part beyond the usual is booked there.
            Share::Kvm => booked_as.push(Share::Unexplained),
            _ if has_hidden && has_lost_names(summary) => booked_as.push(Share::Unexplained),
            _ => {}
        }
        let unbounded_ns = sum(summary, |cpu| cpu.unbounded_kvm_ns.unwrap_or(0));
        let mut bounds = Bounds::new(evidence, booked_ns, booked_as);
        match share {
            Share::Kvm => bounds.at_least_ns = bounds.at_least_ns.saturating_sub(unbounded_ns),
            Share::Preempted | Share::HostIrq | Share::HostSoftirq | Share::HostNmi
                if unbounded_ns > 0 =>
            {
                bounds.at_most_ns = bounds.at_most_ns.saturating_add(unbounded_ns);
                bounds.booked_as.push(Share::Kvm);
            }
            _ => {}
        }
        Some(bounds.within(evidence))
    }

    /// Of all whose names match; `None` where their share was not witnessed.
    pub(super) fn of_culprit(evidence: &Evidence, culprit: &Culprit) -> Option<Bounds> {
        let whole = &evidence.sample.whole;
        let summary = &evidence.sample.summary;
        let sources = summary.cpus.iter().flat_map(|cpu| &cpu.sources);
        let under = sources.filter(|it| culprit.share.is_none_or(|share| share == it.share));
        let who = WildMatch::new(&culprit.who);
        let (mut booked_ns, mut named_ns) = (0_u64, 0_u64);
        for source in under {
            named_ns = named_ns.saturating_add(source.total_ns);
            if who.matches(&source.name) {
                booked_ns = booked_ns.saturating_add(source.total_ns);
            }
        }
        let mut bounds = match culprit.share {
            Some(share) => {
                let mut of_share = Bounds::of_share(evidence, share)?;
                let nameless_ns = of_share.booked_ns.saturating_sub(named_ns);
                let own_ns = of_share.booked_ns.saturating_add(of_share.clock_ns);
                let beyond_ns = of_share.at_most_ns.saturating_sub(own_ns);
                if nameless_ns > 0 {
                    of_share.booked_as.push(share);
                }
                let booked_as = of_share.booked_as;
                let mut bounds = Bounds::new(evidence, booked_ns, Vec::new());
                let more_ns = nameless_ns.saturating_add(beyond_ns);
                bounds.at_most_ns = bounds.at_most_ns.saturating_add(more_ns);
                bounds.booked_as = booked_as;
                bounds
            }
            // Anybody may be behind what nobody is named for.
            None => {
                let hidden = [Share::HvOrHw, Share::Unexplained].to_vec();
                let mut bounds = Bounds::new(evidence, booked_ns, hidden);
                // What nobody on this machine can have had, or is in what is hidden already.
                let others = Share::ALL.into_iter().filter(|share| {
                    share.is_residual() || matches!(share, Share::Steal | Share::Throttled)
                });
                let others_ns = others.filter_map(|share| whole.share_ns(share));
                let others_ns = others_ns.fold(0, u64::saturating_add);
                let booked_to_all_ns = named_ns.saturating_add(others_ns);
                let nameless_ns = whole.noise_ns.saturating_sub(booked_to_all_ns);
                bounds.at_most_ns = bounds.at_most_ns.saturating_add(nameless_ns);
                bounds
            }
        };
        bounds.booked_as.sort_unstable();
        bounds.booked_as.dedup();
        Some(bounds.within(evidence))
    }

    /// Nobody has more than all of it.
    fn within(mut self, evidence: &Evidence) -> Bounds {
        let all_ns = evidence.sample.whole.noise_ns.max(self.booked_ns);
        self.at_most_ns = self.at_most_ns.min(all_ns);
        self
    }

    fn new(evidence: &Evidence, booked_ns: u64, booked_as: Vec<Share>) -> Bounds {
        let whole = &evidence.sample.whole;
        let summary = &evidence.sample.summary;
        let hidden = booked_as.iter().filter_map(|share| whole.share_ns(*share));
        let hidden_ns = hidden.fold(0, u64::saturating_add);
        // One edge of a gap may have cut so much off an activity, or let so much of one in.
        let bound_ns = summary.clock_bound_ns.unwrap_or(0);
        let clock_ns = bound_ns.saturating_mul(whole.lengths.count());
        let clock_ns = clock_ns.min(whole.noise_ns);
        Bounds {
            booked_ns,
            at_least_ns: booked_ns.saturating_sub(clock_ns),
            at_most_ns: booked_ns.saturating_add(hidden_ns).saturating_add(clock_ns),
            booked_as,
            clock_ns,
        }
    }
}

/// Whether records were lost, so that who took time may be unknown.
fn has_lost_names(summary: &Summary) -> bool {
    summary.lost_events > 0 || sum(summary, |cpu| cpu.incomplete_gaps.unwrap_or(0)) > 0
}

fn sum(summary: &Summary, of: impl Fn(&CpuSummary) -> u64) -> u64 {
    summary.cpus.iter().map(of).fold(0, u64::saturating_add)
}
