//! Between what a share, or somebody, can have had of a run: what is booked, and what may be theirs besides.

use vmnoise_events::Share;
use wildmatch::WildMatch;

use crate::check::Culprit;
use crate::compare::Sample;

const RESIDUAL: [Share; 3] = [Share::Hw, Share::HvOrHw, Share::Unexplained];

/// At least and at most, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    /// What is booked.
    pub(crate) booked_ns: u64,
    pub(crate) at_least_ns: u64,
    pub(crate) at_most_ns: u64,
    /// The shares that hold what may be theirs besides.
    pub(crate) booked_as: Vec<Share>,
    /// What the clocks may have moved from one share to another, either way.
    pub(crate) clock_ns: u64,
    /// Whether nobody has such a name.
    pub(crate) is_nobody: bool,
}

impl Bounds {
    /// Of a share; `None` where it was not witnessed.
    pub(crate) fn of_share(sample: &Sample, share: Share) -> Option<Bounds> {
        let booked_ns = sample.whole.share_ns(share)?;
        Some(Bounds::new(sample, Some(share), booked_ns, 0))
    }

    /// Of all whose names match; `None` where their share was not witnessed.
    pub(crate) fn of_culprit(sample: &Sample, culprit: &Culprit) -> Option<Bounds> {
        let whole = &sample.whole;
        if let Some(share) = culprit.share {
            whole.share_ns(share)?;
        }
        let cpus = &sample.summary.cpus;
        let sources = cpus.iter().flat_map(|cpu| &cpu.sources);
        let under = sources.filter(|it| culprit.share.is_none_or(|share| share == it.share));
        let (mut booked_ns, mut named_ns, mut is_nobody) = (0_u64, 0_u64, true);
        for source in under {
            named_ns = named_ns.saturating_add(source.total_ns);
            if culprit.is(&source.name) {
                booked_ns = booked_ns.saturating_add(source.total_ns);
                is_nobody = false;
            }
        }
        let all_ns = match culprit.share {
            Some(share) => whole.booked_ns(share),
            // Without what has no names at all: it is hidden, or nobody's on this machine.
            None => {
                let nameless = RESIDUAL.into_iter().chain([Share::Steal, Share::Throttled]);
                let nameless = nameless.map(|share| whole.booked_ns(share));
                whole
                    .noise_ns
                    .saturating_sub(nameless.fold(0, u64::saturating_add))
            }
        };
        let nameless_ns = all_ns.saturating_sub(named_ns);
        let bounds = Bounds::new(sample, culprit.share, booked_ns, nameless_ns);
        Some(Bounds {
            is_nobody,
            ..bounds
        })
    }

    /// `nameless_ns` is booked under the share, and to nobody.
    fn new(sample: &Sample, share: Option<Share>, booked_ns: u64, nameless_ns: u64) -> Bounds {
        let whole = &sample.whole;
        // One edge of a gap may have cut so much off an activity, or let so much of one in.
        // What a host took is known by the clock of the pair as well.
        let joined = sample.summary.coverage.host.filter(|_| is_of_host(share));
        let of_join_ns = joined.map_or(0, |it| it.clock_bound_ns);
        let clock_ns = match sample.summary.coverage.clock.bound_ns {
            Some(bound_ns) => bound_ns
                .max(of_join_ns)
                .saturating_mul(whole.lengths.count()),
            None => u64::MAX,
        };
        let clock_ns = clock_ns.min(whole.noise_ns);
        let mut booked_as = hidden(sample, share);
        let hidden = booked_as.iter().map(|share| whole.booked_ns(*share));
        let mut more_ns = hidden.fold(nameless_ns, u64::saturating_add);
        // Too short for that clock: it is booked as residual, and may be the host's.
        if !RESIDUAL.iter().all(|it| booked_as.contains(it)) {
            more_ns = more_ns.saturating_add(joined.map_or(0, |it| it.unsure_ns));
        }
        let mut at_least_ns = booked_ns.saturating_sub(clock_ns);
        let unbounded_ns = sample.summary.coverage.watched.unbounded_kvm_ns;
        match share {
            None | Some(Share::Kvm) => at_least_ns = at_least_ns.saturating_sub(unbounded_ns),
            Some(Share::Preempted | Share::HostIrq | Share::HostSoftirq | Share::HostNmi)
                if unbounded_ns > 0 =>
            {
                more_ns = more_ns.saturating_add(unbounded_ns);
                booked_as.push(Share::Kvm);
            }
            _ => {}
        }
        // What was lost of others is booked there.
        if has_lost_names(sample) && share.is_some_and(|share| takes_what_is_lost(sample, share)) {
            at_least_ns = 0;
        }
        if let Some(share) = share.filter(|_| nameless_ns > 0) {
            booked_as.push(share);
        }
        let at_most_ns = booked_ns.saturating_add(more_ns).saturating_add(clock_ns);
        Bounds {
            booked_ns,
            at_least_ns,
            // Nobody has more than all of it.
            at_most_ns: at_most_ns.min(whole.noise_ns.max(booked_ns)),
            booked_as,
            clock_ns,
            is_nobody: false,
        }
    }
}

impl Culprit {
    /// Whether this is who is meant, by the whole name or without the number behind it.
    pub(crate) fn is(&self, name: &str) -> bool {
        let who = WildMatch::new(&self.who);
        let bare = name.rsplit_once(':').map(|(bare, _)| bare);
        who.matches(name) || bare.is_some_and(|bare| who.matches(bare))
    }
}

/// The shares that may hold more of this one; `None` is of anybody under any share.
fn hidden(sample: &Sample, share: Option<Share>) -> Vec<Share> {
    let coverage = &sample.summary.coverage;
    let mut hidden = match share {
        // Nobody knows whose it is: that is what these say.
        Some(Share::HvOrHw | Share::Unexplained) => return Vec::new(),
        // A handler alone is timed of an NMI, and what KVM has beyond its usual part is residual.
        None | Some(Share::Hw | Share::Kvm | Share::Nmi | Share::HostNmi) => RESIDUAL.to_vec(),
        Some(Share::Irq | Share::HostIrq) if coverage.watched.hidden_interrupts => {
            RESIDUAL.to_vec()
        }
        Some(Share::HostIrq) if coverage.host.is_some_and(|it| it.hidden_interrupts) => {
            RESIDUAL.to_vec()
        }
        // The guest's steal clock counts whatever its host had done meanwhile, which has a name now.
        Some(Share::Steal) if coverage.host.is_some() => {
            let mut named = vec![
                Share::Preempted,
                Share::Throttled,
                Share::HostIrq,
                Share::HostSoftirq,
                Share::HostNmi,
                Share::HvOrHw,
            ];
            if has_lost_names(sample) {
                named.extend(RESIDUAL.iter().filter(|it| **it != Share::HvOrHw));
            }
            named
        }
        Some(_) if has_lost_names(sample) => RESIDUAL.to_vec(),
        // Its host did not record all the time.
        Some(_) if coverage.host.is_some() && is_of_host(share) => vec![Share::HvOrHw],
        Some(_) => Vec::new(),
    };
    // Where the workload's own machine is watched from outside, its tasks are what its steal clock counts.
    let is_watched = coverage.workload.is_witnessed_by_host() || coverage.host.is_some();
    if !hidden.is_empty() && is_watched {
        hidden.push(Share::Steal);
    }
    let whole = &sample.whole;
    hidden.retain(|other| Some(*other) != share && whole.booked_ns(*other) > 0);
    hidden
}

/// Whether time is booked under this share where nothing else is known of it.
fn takes_what_is_lost(sample: &Sample, share: Share) -> bool {
    let coverage = &sample.summary.coverage;
    let is_watched = coverage.workload.is_witnessed_by_host() || coverage.host.is_some();
    share.is_residual() || share == Share::Steal && is_watched
}

/// Whether a host may have taken it from its guest.
fn is_of_host(share: Option<Share>) -> bool {
    share.is_none_or(|share| {
        matches!(
            share,
            Share::Kvm
                | Share::Vmm
                | Share::Steal
                | Share::Preempted
                | Share::Blocked
                | Share::Throttled
                | Share::HostIrq
                | Share::HostSoftirq
                | Share::HostNmi
        )
    })
}

/// Whether records were lost or came late, so that who took time may be unknown.
fn has_lost_names(sample: &Sample) -> bool {
    let coverage = &sample.summary.coverage;
    let of_host = coverage.host.is_some_and(|it| it.lost_names > 0);
    of_host || coverage.lost.names > 0 || coverage.lost.gaps > 0
}
