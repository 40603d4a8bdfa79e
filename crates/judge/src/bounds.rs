//! Lower and upper bounds of the time that a share or a culprit took in a run. Upper bounds of the
//! figures of all gaps together.

use vmnoise_events::{MeasuringCommand, Share};
use wildmatch::WildMatch;

use crate::check::CulpritPattern;
use crate::compare::{ComparedFigure, RunSample, Window};

const RESIDUAL: [Share; 3] = [Share::Hw, Share::HvOrHw, Share::Unexplained];

/// Bounds of the time of a share or of culprits, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    /// Time that is counted for the share or the culprits.
    pub(crate) booked_ns: u64,
    pub(crate) at_least_ns: u64,
    pub(crate) at_most_ns: u64,
    /// Shares that may contain more time of this share or culprit. Contains the share itself if
    /// some of the share's time has no culprit's name.
    pub(crate) booked_as: Vec<Share>,
    /// Time, in nanoseconds, that the clock error may have added to or subtracted from the counted
    /// time.
    pub(crate) clock_ns: u64,
    /// Whether no culprit in the run matches the pattern.
    pub(crate) is_nobody: bool,
}

impl Bounds {
    /// Returns the bounds of a share; `None` if the share was not watched.
    pub(crate) fn of_share(sample: &RunSample, share: Share) -> Option<Bounds> {
        let booked_ns = sample.whole.share_ns(share)?;
        Some(Bounds::new(sample, Some(share), booked_ns, 0))
    }

    /// Returns the bounds of all culprits whose names match the pattern; `None` if their share was
    /// not watched.
    pub(crate) fn of_culprit(sample: &RunSample, culprit: &CulpritPattern) -> Option<Bounds> {
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
            // Shares whose time never has a culprit's name are left out. The owner of this time is
            // hidden, or is not on this machine.
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

    /// Computes the bounds. `nameless_ns` is the time of the share that has no culprit's name.
    fn new(sample: &RunSample, share: Option<Share>, booked_ns: u64, nameless_ns: u64) -> Bounds {
        let whole = &sample.whole;
        // Each edge of a gap may be off by the clock error, which adds time to an activity or cuts
        // time off. The clock error between guest and host also affects time that the host took.
        let joined = sample.summary.coverage.host.filter(|_| is_of_host(share));
        let of_join_ns = joined.map_or(0, |it| it.clock_bound_ns);
        let own_bound_ns = match sample.summary.coverage.workload {
            // The clock of the probes stamps wake-ups, so there is no error between two clocks.
            MeasuringCommand::Timerlat => Some(0),
            _ => sample.summary.coverage.clock.bound_ns,
        };
        let clock_ns = match own_bound_ns {
            Some(bound_ns) => bound_ns
                .max(of_join_ns)
                .saturating_mul(whole.lengths.count()),
            None => u64::MAX,
        };
        let clock_ns = clock_ns.min(whole.noise_ns);
        let mut booked_as = hidden(sample, share);
        let hidden = booked_as.iter().map(|share| whole.booked_ns(*share));
        let mut more_ns = hidden.fold(nameless_ns, u64::saturating_add);
        // Gaps that are too short for the clock error between guest and host count as residual, but
        // may belong to the host.
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
        // This share may contain time of other owners whose records were lost.
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
            // The upper bound is at most the time of all gaps.
            at_most_ns: at_most_ns.min(whole.noise_ns.max(booked_ns)),
            booked_as,
            clock_ns,
            is_nobody: false,
        }
    }
}

/// Returns the largest possible noise or number of gaps, in the figure's unit; `None` if unknown.
/// Gaps of `threshold_ns` may have taken all of `unplaced_ns`. No gap lies only partly in this
/// time, because the recorder reads the clock before and after it.
pub(crate) fn largest_figure(
    figure: &ComparedFigure,
    window: &Window,
    unplaced_ns: u64,
    threshold_ns: u64,
) -> Option<f64> {
    let value = figure.of(window)?;
    let unplaced = unplaced_ns as f64;
    let all = window.runtime_ns as f64 + unplaced;
    let largest = match figure {
        ComparedFigure::Noise => (window.noise_ns as f64 + unplaced) * 100.0 / all,
        ComparedFigure::Gaps => {
            let hidden = unplaced / threshold_ns.max(1) as f64;
            (window.lengths.count() as f64 + hidden) * 1e9 / all
        }
        _ => value,
    };
    Some(largest.max(value))
}

impl CulpritPattern {
    /// Returns whether the pattern matches the whole name, or the name without its number.
    pub(crate) fn is(&self, name: &str) -> bool {
        let who = WildMatch::new(&self.who);
        let bare = name.rsplit_once(':').map(|(bare, _)| bare);
        who.matches(name) || bare.is_some_and(|bare| who.matches(bare))
    }
}

/// Returns the shares that may contain more time of `share`. `None` stands for culprits in any
/// share.
fn hidden(sample: &RunSample, share: Option<Share>) -> Vec<Share> {
    let coverage = &sample.summary.coverage;
    let mut hidden = match share {
        // These two shares mean that the owner is unknown.
        Some(Share::HvOrHw | Share::Unexplained) => return Vec::new(),
        // For NMIs, only the time of the handler is measured. KVM's time beyond its usual time is
        // counted as residual.
        None | Some(Share::Hw | Share::Kvm | Share::Nmi | Share::HostNmi) => RESIDUAL.to_vec(),
        Some(Share::Irq | Share::HostIrq) if coverage.watched.hidden_interrupts => {
            RESIDUAL.to_vec()
        }
        Some(Share::HostIrq) if coverage.host.is_some_and(|it| it.hidden_interrupts) => {
            RESIDUAL.to_vec()
        }
        // The guest's steal clock counts all time in which the vCPU waited. The join moves some of
        // this time to the shares of the culprits.
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
        // The host's recording does not cover the whole run.
        Some(_) if coverage.host.is_some() && is_of_host(share) => vec![Share::HvOrHw],
        Some(_) => Vec::new(),
    };
    // If the host watches the workload's machine, the steal clock counts time of the host's tasks.
    let is_watched = coverage.workload.is_witnessed_by_host() || coverage.host.is_some();
    if !hidden.is_empty() && is_watched {
        hidden.push(Share::Steal);
    }
    let whole = &sample.whole;
    hidden.retain(|other| Some(*other) != share && whole.booked_ns(*other) > 0);
    hidden
}

/// Returns whether this share contains the time whose owner is unknown.
fn takes_what_is_lost(sample: &RunSample, share: Share) -> bool {
    let coverage = &sample.summary.coverage;
    let is_watched = coverage.workload.is_witnessed_by_host() || coverage.host.is_some();
    share.is_residual() || share == Share::Steal && is_watched
}

/// Returns whether a host may have taken the time of this share from its guest.
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

/// Returns whether records were lost or came late, so that culprits may be unknown.
fn has_lost_names(sample: &RunSample) -> bool {
    let coverage = &sample.summary.coverage;
    let of_host = coverage.host.is_some_and(|it| it.lost_names > 0);
    of_host || coverage.lost.names > 0 || coverage.lost.gaps > 0
}
