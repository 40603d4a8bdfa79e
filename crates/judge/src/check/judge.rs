//! The verdict.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use vmnoise_events::{FinishReason, Name, RunFacts, Share, Workload};

use super::bounds::Bounds;
use super::budget::{Budget, Quantity, Requirement};
use super::evidence::Evidence;
use super::odds::Decision;
use super::reason::Reason;
use crate::compare::Figure;

/// How likely a run that keeps the limits of all its percentiles is said to break one, or the other way round.
const RISK: f64 = 0.01;
/// The threshold of a run that was asked for no other.
const USUAL_THRESHOLD_NS: u64 = 1_000;
/// How many of those who took the time are named.
const NAMED: usize = 3;

/// What is true of a limit, or of all, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Kept.
    Pass,
    /// Kept, and not without a but.
    Warn,
    /// The run does not tell.
    CannotTell,
    /// Broken.
    Fail,
}

/// A budget, and a run by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The worst of all.
    pub verdict: Verdict,
    /// Whether the run itself can keep any limit, and without a but.
    pub of_run: Verdict,
    /// One for each limit, in their order.
    pub judgements: Vec<Judgement>,
    /// What is to be known of the whole run.
    pub reasons: Vec<Reason>,
    /// How long a run should be that decides what this one could not, nanoseconds: twice that most likely does.
    /// `None` where no length helps, or none is needed.
    pub ask_for_ns: Option<u64>,
}

/// One limit, and a run by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Which limit.
    pub requirement: Requirement,
    /// What is true of it.
    pub verdict: Verdict,
    /// The run's figure, in the quantity's unit; `None` where unknown.
    pub value: Option<f64>,
    /// Why it is not simply kept.
    pub reasons: Vec<Reason>,
    /// Who took most of it, if it was broken: of the longest gap, or of the run.
    pub blame: Vec<Blame>,
}

/// Somebody who took time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blame {
    /// As what it is booked.
    pub share: Share,
    /// Who; `None` where nobody is named.
    pub name: Option<Name>,
    /// How much, nanoseconds.
    pub ns: u64,
}

impl Judged {
    /// Judges a run that was read for this budget.
    pub fn new(budget: &Budget, evidence: &Evidence) -> Judged {
        let percentiles = budget.requirements.iter();
        let percentiles = percentiles.filter(|it| it.quantity.part_above().is_some());
        // As Bonferroni shares a risk among tests.
        let risk = RISK / percentiles.count().max(1) as f64;
        let about_run = about_run(budget, evidence);
        let mut ask_for_ns = Vec::new();
        let judged = budget.requirements.iter().enumerate();
        let judgements: Vec<Judgement> = judged
            .map(|(place, requirement)| {
                let mut judgement = judge(requirement, place, evidence, risk);
                let is_hindered = about_run
                    .iter()
                    .any(|it| hinders(it, &requirement.quantity));
                if judgement.verdict < Verdict::CannotTell && is_hindered {
                    judgement.verdict = Verdict::CannotTell;
                }
                let needed = judgement.reasons.iter().filter_map(|reason| match reason {
                    Reason::TooFew { needed, .. } => Some(*needed),
                    _ => None,
                });
                ask_for_ns.extend(needed.map(|needed| length_for(evidence, needed?)));
                judgement
            })
            .collect();
        ask_for_ns.extend(about_run.iter().filter_map(|reason| match reason {
            Reason::Short { asked_ns, .. } => Some(Some(*asked_ns)),
            _ => None,
        }));
        let worst = judgements.iter().map(|it| it.verdict).max();
        let of_run = about_run.iter().map(|reason| match reason {
            it if hinders_all(it) => Verdict::CannotTell,
            Reason::CutOff | Reason::SharedCpus => Verdict::Warn,
            _ => Verdict::Pass,
        });
        let of_run = of_run.max().unwrap_or(Verdict::Pass);
        Judged {
            verdict: worst.unwrap_or(Verdict::Pass).max(of_run),
            of_run,
            judgements,
            ask_for_ns: ask_for_ns
                .into_iter()
                .collect::<Option<Vec<u64>>>()
                .and_then(|it| it.into_iter().max()),
            reasons: about_run,
        }
    }
}

/// What is true of the run whatever is asked.
fn about_run(budget: &Budget, evidence: &Evidence) -> Vec<Reason> {
    let (facts, summary) = (&evidence.facts, &evidence.sample.summary);
    let length_ns = evidence.length_ns;
    let short = budget.runtime_ns.filter(|asked_ns| length_ns < *asked_ns);
    let short = short.map(|asked_ns| Reason::Short {
        length_ns,
        asked_ns,
    });
    let went_back = summary
        .tsc_went_back_at_ns
        .map(|at_ns| Reason::ClockWentBack { at_ns });
    let failed = summary.finish_reason == Some(FinishReason::Failed);
    let cut_off = (!summary.complete || failed).then_some(Reason::CutOff);
    let shared = facts.shares_cpu.then_some(Reason::SharedCpus);
    let silent = evidence.silent_cpus();
    let silent = (!silent.is_empty()).then_some(Reason::Silent { cpus: silent });
    let is_observed = facts.workload == Workload::Observed;
    let not_felt = is_observed.then_some(Reason::NotFelt);
    let reasons = [
        short,
        silent,
        not_felt,
        went_back,
        cut_off,
        shared,
        unseen_below(facts, evidence),
    ];
    reasons.into_iter().flatten().collect()
}

/// Whether no limit can be kept by such a run.
fn hinders_all(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Short { .. } | Reason::ClockWentBack { .. } | Reason::Silent { .. }
    )
}

/// Whether this one cannot.
fn hinders(reason: &Reason, quantity: &Quantity) -> bool {
    // An observed thread's own kernel is watched, and nothing below it.
    let is_of_kernel = |share: Share| !share.is_residual() && share != Share::Steal;
    let is_of_shares = match quantity {
        Quantity::Share(share) => is_of_kernel(*share),
        Quantity::Culprit(culprit) => culprit.share.is_some_and(is_of_kernel),
        _ => false,
    };
    hinders_all(reason) || *reason == Reason::NotFelt && !is_of_shares
}

fn unseen_below(facts: &RunFacts, evidence: &Evidence) -> Option<Reason> {
    let whole = &evidence.sample.whole;
    let ns = whole.share_ns(Share::HvOrHw).filter(|ns| *ns > 0)?;
    let is_below = facts.layer_below_unwitnessed() && ns <= whole.noise_ns;
    is_below.then(|| Reason::UnseenBelow {
        percent: ns as f64 * 100.0 / whole.noise_ns as f64,
    })
}

/// How long a run has so many values, by how often this one had.
fn length_for(evidence: &Evidence, values: u64) -> Option<u64> {
    let count = evidence.count();
    let ns = evidence.length_ns as f64 * values as f64 / count as f64;
    (count > 0 && ns < u64::MAX as f64).then_some(ns as u64)
}

fn judge(requirement: &Requirement, place: usize, evidence: &Evidence, risk: f64) -> Judgement {
    let mut found = match &requirement.quantity {
        Quantity::Max => longest(requirement, evidence),
        Quantity::Percentile(_) => percentile(requirement, place, evidence, risk),
        Quantity::Noise => of_run(requirement, evidence, Figure::Noise),
        Quantity::Gaps => of_run(requirement, evidence, Figure::Gaps),
        Quantity::Share(share) => {
            let bounds = Bounds::of_share(evidence, *share);
            part(requirement, evidence, bounds, Some(*share))
        }
        Quantity::Culprit(culprit) => {
            let bounds = Bounds::of_culprit(evidence, culprit);
            part(requirement, evidence, bounds, culprit.share)
        }
    };
    let is_above = |limit: f64| found.value.is_some_and(|value| value > limit);
    if found.verdict == Verdict::Pass && requirement.warn_above.is_some_and(is_above) {
        found.verdict = Verdict::Warn;
        found.reasons.push(Reason::AboveWarning);
    }
    let blame = match (found.verdict, &requirement.quantity) {
        (Verdict::Fail, Quantity::Max | Quantity::Percentile(_)) => of_worst(evidence),
        (Verdict::Fail, quantity) => of_all(evidence, quantity),
        _ => Vec::new(),
    };
    Judgement {
        requirement: requirement.clone(),
        verdict: found.verdict,
        value: found.value,
        reasons: found.reasons,
        blame,
    }
}

/// What a run says of one limit.
struct Found {
    verdict: Verdict,
    value: Option<f64>,
    reasons: Vec<Reason>,
}

impl Found {
    fn kept(value: f64) -> Found {
        Found {
            verdict: Verdict::Pass,
            value: Some(value),
            reasons: Vec::new(),
        }
    }

    fn broken(value: f64) -> Found {
        Found {
            verdict: Verdict::Fail,
            value: Some(value),
            reasons: vec![Reason::Above],
        }
    }

    fn open(value: Option<f64>, reason: Reason) -> Found {
        Found {
            verdict: Verdict::CannotTell,
            value,
            reasons: vec![reason],
        }
    }
}

/// The threshold of the recording, where values are missing that would be above the limit.
fn hidden_by_threshold(requirement: &Requirement, evidence: &Evidence) -> Option<Reason> {
    let threshold_ns = evidence.facts.options.threshold_ns;
    let is_of_gaps = evidence.sample.summary.wakeups.is_none();
    (is_of_gaps && threshold_ns as f64 > requirement.at_most)
        .then_some(Reason::Threshold { threshold_ns })
}

fn longest(requirement: &Requirement, evidence: &Evidence) -> Found {
    let max_ns = evidence.sample.whole.max_gap_ns as f64;
    let lost = evidence.lost_values();
    if max_ns > requirement.at_most {
        Found::broken(max_ns)
    } else if lost > 0 {
        Found::open(Some(max_ns), Reason::Lost { count: lost })
    } else if let Some(hidden) = hidden_by_threshold(requirement, evidence) {
        Found::open(Some(max_ns), hidden)
    } else {
        Found::kept(max_ns)
    }
}

fn percentile(requirement: &Requirement, place: usize, evidence: &Evidence, risk: f64) -> Found {
    let part = requirement.quantity.part_above().unwrap_or(0.0);
    let whole = &evidence.sample.whole;
    let [length_ns] = whole.lengths.at_quantiles([1.0 - part]);
    let count = evidence.count();
    let edge = length_ns.min(whole.max_gap_ns) as f64;
    // A length is known to three digits, and how many are above the limit exactly.
    let value = match whole.above[place] as f64 <= part * count as f64 {
        true => edge.min(requirement.at_most),
        false => edge,
    };
    if let Some(hidden) = hidden_by_threshold(requirement, evidence) {
        return Found::open(Some(value), hidden);
    }
    if count == 0 {
        return Found::open(None, Reason::NoValues);
    }
    let Some(odds) = evidence.odds(place, requirement.at_most as u64, risk) else {
        return Found::open(Some(value), Reason::TooShortToCut);
    };
    match odds.decide(part) {
        Decision::Kept => Found::kept(value),
        Decision::Broken => Found::broken(value),
        Decision::Open => {
            let needed = odds.count_to_ask_for(part).ceil();
            // A float that is too large for a u64 becomes the largest.
            let needed = (needed < u64::MAX as f64).then_some((needed as u64).max(count));
            Found::open(Some(value), Reason::TooFew { count, needed })
        }
    }
}

/// A figure of all gaps of the run.
fn of_run(requirement: &Requirement, evidence: &Evidence, figure: Figure) -> Found {
    let lost = evidence.lost_values();
    let unseen = unseen_below_threshold(evidence);
    match figure.of(&evidence.sample.whole) {
        None => Found::open(None, not_witnessed(evidence, None)),
        Some(value) if value > requirement.at_most => Found::broken(value),
        Some(value) if lost > 0 => Found::open(Some(value), Reason::Lost { count: lost }),
        Some(value) => match unseen {
            Some(unseen) => Found::open(Some(value), unseen),
            None => Found::kept(value),
        },
    }
}

/// What somebody had of the run.
fn part(
    requirement: &Requirement,
    evidence: &Evidence,
    bounds: Option<Bounds>,
    share: Option<Share>,
) -> Found {
    let runtime_ns = evidence.sample.whole.runtime_ns;
    let percent = |ns: u64| ns as f64 * 100.0 / runtime_ns as f64;
    let Some(bounds) = bounds else {
        return Found::open(None, not_witnessed(evidence, share));
    };
    // More than there was of a CPU is damage, and says nothing of what was less.
    if runtime_ns == 0 || evidence.sample.whole.noise_ns > runtime_ns {
        return Found::open(None, not_witnessed(evidence, None));
    }
    let value = percent(bounds.booked_ns);
    let lost = evidence.lost_values();
    if percent(bounds.at_least_ns) > requirement.at_most {
        Found::broken(value)
    } else if percent(bounds.at_most_ns) > requirement.at_most {
        let may_be = Reason::MayBe {
            at_most_percent: percent(bounds.at_most_ns),
            booked_as: bounds.booked_as,
            clock_percent: percent(bounds.clock_ns),
        };
        Found::open(Some(value), may_be)
    } else if lost > 0 {
        Found::open(Some(value), Reason::Lost { count: lost })
    } else if let Some(unseen) = unseen_below_threshold(evidence) {
        Found::open(Some(value), unseen)
    } else {
        let mut kept = Found::kept(value);
        kept.reasons
            .extend(bounds.is_nobody.then_some(Reason::Nobody));
        kept
    }
}

/// The threshold of the recording, where it is higher than usual: shorter gaps may have been any time.
fn unseen_below_threshold(evidence: &Evidence) -> Option<Reason> {
    let threshold_ns = evidence.facts.options.threshold_ns;
    (threshold_ns > USUAL_THRESHOLD_NS).then_some(Reason::Threshold { threshold_ns })
}

/// What was in the way of a witness of this share; `None` is of all gaps.
fn not_witnessed(evidence: &Evidence, share: Option<Share>) -> Reason {
    let facts = &evidence.facts;
    let is_of_host = matches!(
        share,
        Some(
            Share::Preempted
                | Share::Blocked
                | Share::HostIrq
                | Share::HostSoftirq
                | Share::HostNmi
                | Share::Kvm
                | Share::Vmm
        )
    );
    let why = match share {
        None => "no CPU ran for as long as its gaps are",
        Some(_) if !facts.options.trace => "the run had no probes",
        Some(Share::Hw) if facts.layer_below_unwitnessed() => {
            "a hypervisor is below this machine, and from here the hardware cannot be told from it"
        }
        Some(_) if is_of_host && facts.workload != Workload::Microvm => {
            "only the host of this machine has it (vmnoise check GUEST HOST)"
        }
        Some(share) => return not_probed(evidence, share),
    };
    Reason::NotWitnessed { why: why.into() }
}

/// What the probe of this share could not show, as it says itself.
fn not_probed(evidence: &Evidence, share: Share) -> Reason {
    let words: &[&str] = match share {
        Share::Kvm | Share::Vmm => &["exit", "KVM"],
        Share::Steal => &["steal"],
        _ => &[],
    };
    let statuses = evidence.sample.summary.probe_statuses.iter();
    let mut limited = statuses.filter(|it| !it.best && !it.limit.is_empty());
    let about = limited.find(|it| words.iter().any(|word| it.probe.contains(word)));
    Reason::NotWitnessed {
        why: about.map(|it| it.limit.to_string()).unwrap_or_default(),
    }
}

fn of_worst(evidence: &Evidence) -> Vec<Blame> {
    let parts = evidence.worst().map(|it| &it.parts);
    let blame = parts.into_iter().flatten().map(|part| Blame {
        share: part.share,
        name: part.source.clone(),
        ns: part.ns,
    });
    largest(blame.collect())
}

/// Of the whole run, as far as the quantity holds it: by name, and what is booked to nobody.
fn of_all(evidence: &Evidence, quantity: &Quantity) -> Vec<Blame> {
    let (under, culprit) = match quantity {
        Quantity::Share(share) => (Some(*share), None),
        Quantity::Culprit(culprit) => (culprit.share, Some(culprit)),
        _ => (None, None),
    };
    let whole = &evidence.sample.whole;
    let cpus = &evidence.sample.summary.cpus;
    let sources = cpus.iter().flat_map(|cpu| &cpu.sources);
    // One may have had part on several CPUs.
    let mut sums: BTreeMap<(Share, Option<&Name>), u64> = BTreeMap::new();
    if culprit.is_none() {
        for share in Share::ALL {
            sums.insert((share, None), whole.booked_ns(share));
        }
    }
    for source in sources {
        if culprit.is_some_and(|culprit| !culprit.is(&source.name)) {
            continue;
        }
        let sum_ns = sums.entry((source.share, Some(&source.name))).or_default();
        *sum_ns = sum_ns.saturating_add(source.total_ns);
        if let Some(nameless_ns) = sums.get_mut(&(source.share, None)) {
            *nameless_ns = nameless_ns.saturating_sub(source.total_ns);
        }
    }
    let of_quantity = sums
        .into_iter()
        .filter(|((share, _), ns)| *ns > 0 && under.is_none_or(|under| under == *share));
    let blame = of_quantity.map(|((share, name), ns)| Blame {
        share,
        name: name.cloned(),
        ns,
    });
    largest(blame.collect())
}

fn largest(mut blame: Vec<Blame>) -> Vec<Blame> {
    blame.sort_by_key(|it| Reverse(it.ns));
    blame.truncate(NAMED);
    blame
}
