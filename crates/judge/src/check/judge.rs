//! Verdict of a budget on a run.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use serde::Serialize;
use vmnoise_events::coverage::{BlindSpot, Coverage, HiddenKind, Question};
use vmnoise_events::{Name, Share};

use super::budget::{Budget, Quantity, Requirement};
use super::estimate::{percentile, rate};
use super::evidence::BudgetEvidence;
use super::found::{Found, LimitVerdict, blind};
use super::reason::Reason;
use crate::bounds::Bounds;
use crate::compare::ComparedFigure;

/// Highest probability that chance alone causes a wrong verdict on any estimated quantity. Both
/// errors count: a kept limit is called broken, or a broken limit is called kept.
const RISK: f64 = 0.01;
/// Largest number of culprits that a verdict names.
const NAMED: usize = 3;

/// Verdict of a budget on a run.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckVerdict {
    /// Worst of all verdicts.
    pub verdict: LimitVerdict,
    /// Verdict on the run itself, without its limits.
    pub of_run: LimitVerdict,
    /// Verdicts on the limits, in the order of the budget.
    pub judgements: Vec<BudgetLimitResult>,
    /// Reasons that concern the whole run.
    pub reasons: Vec<Reason>,
    /// Recommended length of the run, in nanoseconds. A run of twice this length most likely
    /// decides each undecided percentile and rate. `None` if no length helps, or none is needed.
    pub ask_for_ns: Option<u64>,
}

/// Verdict on one limit of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetLimitResult {
    /// The judged limit.
    pub requirement: Requirement,
    /// Verdict on this limit.
    pub verdict: LimitVerdict,
    /// Number of the worst CPU, which decided. `None` if the run has one CPU, or observed threads.
    pub cpu: Option<u32>,
    /// Figure of this CPU, or of the run, in the quantity's unit; `None` if unknown.
    pub value: Option<f64>,
    /// Reasons for a verdict other than a plain PASS, and the assumptions of a PASS.
    pub reasons: Vec<Reason>,
    /// If the limit is broken: the culprits that took most of the longest gap, or of the run's
    /// time.
    pub blame: Vec<Blame>,
}

/// Culprit of a broken limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blame {
    /// Share in which the culprit's time is counted.
    pub share: Share,
    /// Name of the culprit; `None` for time without a name.
    pub name: Option<Name>,
    /// Time of the culprit, in nanoseconds.
    pub ns: u64,
}

impl CheckVerdict {
    /// Judges a run. The evidence must have been read for this budget.
    pub fn new(budget: &Budget, evidence: &BudgetEvidence) -> CheckVerdict {
        let estimated = budget.requirements.iter();
        let estimated = estimated.filter(|it| it.quantity.is_estimated()).count();
        // The risk is divided by the number of tests (Bonferroni). Each limit is tested on each
        // CPU.
        let risk = RISK / (estimated.max(1) * evidence.cpus.len().max(1)) as f64;
        let about_run = about_run(budget, evidence);
        let is_short = about_run
            .iter()
            .any(|it| matches!(it, Reason::Short { .. }));
        let mut ask_for_ns = Vec::new();
        let judged = budget.requirements.iter().enumerate();
        let judgements: Vec<BudgetLimitResult> = judged
            .map(|(place, requirement)| {
                let mut judgement = judge_worst(requirement, place, evidence, risk);
                // Reasons of the whole run are not repeated for each limit.
                judgement.reasons.retain(|it| !about_run.contains(it));
                if is_short {
                    judgement.verdict = judgement.verdict.max(LimitVerdict::CannotTell);
                }
                let of_cpu = evidence.of(judgement.cpu);
                let needed_ns = judgement.reasons.iter().filter_map(|reason| match reason {
                    Reason::TooFew { needed, .. } => {
                        Some(needed.and_then(|needed| length_for(of_cpu, needed)))
                    }
                    Reason::TooShort { needed_ns } | Reason::Unmet { needed_ns, .. } => {
                        Some(*needed_ns)
                    }
                    _ => None,
                });
                ask_for_ns.extend(needed_ns);
                judgement
            })
            .collect();
        ask_for_ns.extend(about_run.iter().filter_map(|reason| match reason {
            Reason::Short { asked_ns, .. } => Some(Some(*asked_ns)),
            _ => None,
        }));
        let worst = judgements.iter().map(|it| it.verdict).max();
        let of_run = if is_short || !blind_to_all(evidence).is_empty() {
            LimitVerdict::CannotTell
        } else if evidence.facts.shares_cpu {
            LimitVerdict::Warn
        } else {
            LimitVerdict::Pass
        };
        CheckVerdict {
            verdict: worst.unwrap_or(LimitVerdict::Pass).max(of_run),
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

/// Returns the reasons that concern the whole run, whatever its limits are.
fn about_run(budget: &Budget, evidence: &BudgetEvidence) -> Vec<Reason> {
    let length_ns = evidence.length_ns;
    let short = budget.runtime_ns.filter(|asked_ns| length_ns < *asked_ns);
    let short = short.map(|asked_ns| Reason::Short {
        length_ns,
        asked_ns,
    });
    let shared = evidence.facts.shares_cpu.then_some(Reason::SharedCpus);
    let others = [shared, unseen_below(evidence), of_gaps(budget, evidence)];
    let others = others.into_iter().flatten();
    let blind = blind(blind_to_all(evidence)).into_iter();
    short.into_iter().chain(blind).chain(others).collect()
}

/// Returns the blind spots that prevent every answer, whatever the question.
fn blind_to_all(evidence: &BudgetEvidence) -> Vec<BlindSpot> {
    let coverage = evidence.coverage();
    let mut spots = coverage.blind_spots(Question::Often(f64::INFINITY));
    let of_own_kernel = coverage.blind_spots(Question::TakenAs(Share::Irq));
    spots.retain(|it| it.hides() == HiddenKind::Time && of_own_kernel.contains(it));
    spots
}

/// Returns a warning if the budget limits a percentile of gaps but no rate. More short gaps make a
/// percentile smaller.
fn of_gaps(budget: &Budget, evidence: &BudgetEvidence) -> Option<Reason> {
    let is = |of: fn(&Quantity) -> bool| budget.requirements.iter().any(|it| of(&it.quantity));
    let has_percentile = is(|it| matches!(it, Quantity::Percentile(_)));
    let has_rate = is(|it| matches!(it, Quantity::GapsAbove(_)));
    let is_of_gaps = evidence.sample.summary.wakeups.is_none();
    (is_of_gaps && has_percentile && !has_rate).then_some(Reason::OfGaps)
}

fn unseen_below(evidence: &BudgetEvidence) -> Option<Reason> {
    let whole = &evidence.sample.whole;
    let ns = whole.share_ns(Share::HvOrHw).filter(|ns| *ns > 0)?;
    let is_below = evidence.coverage().watched.has_layer_below && ns <= whole.noise_ns;
    is_below.then(|| Reason::UnseenBelow {
        percent: ns as f64 * 100.0 / whole.noise_ns as f64,
    })
}

/// Returns the length of a run that has this number of values, in nanoseconds. The rate of values
/// is that of this run. `None` if the length is unknown.
fn length_for(evidence: &BudgetEvidence, values: u64) -> Option<u64> {
    let count = evidence.count();
    let ns = evidence.length_ns as f64 * values as f64 / count as f64;
    (count > 0 && ns < u64::MAX as f64).then_some(ns as u64)
}

/// Judges each CPU, and returns the worst result. A thread runs on one CPU, so a quieter second CPU
/// does not help.
fn judge_worst(
    requirement: &Requirement,
    place: usize,
    evidence: &BudgetEvidence,
    risk: f64,
) -> BudgetLimitResult {
    let of_cpus = evidence
        .cpus
        .iter()
        .map(|(cpu, evidence)| BudgetLimitResult {
            cpu: Some(*cpu),
            ..judge(requirement, place, evidence, risk)
        });
    let is_worse = |one: &BudgetLimitResult, other: &BudgetLimitResult| {
        let by_value = one.value.partial_cmp(&other.value);
        (one.verdict.cmp(&other.verdict)).then(by_value.unwrap_or(Ordering::Equal))
            == Ordering::Greater
    };
    // If verdicts are equal, the first one is kept.
    let worst = of_cpus.reduce(|worst, other| match is_worse(&other, &worst) {
        true => other,
        false => worst,
    });
    worst.unwrap_or_else(|| judge(requirement, place, evidence, risk))
}

fn judge(
    requirement: &Requirement,
    place: usize,
    evidence: &BudgetEvidence,
    risk: f64,
) -> BudgetLimitResult {
    let mut found = match &requirement.quantity {
        Quantity::Max => longest(requirement, evidence),
        Quantity::Percentile(_) => percentile(requirement, place, evidence, risk),
        Quantity::Noise => of_run(requirement, evidence, &ComparedFigure::Noise),
        Quantity::Gaps => of_run(requirement, evidence, &ComparedFigure::Gaps),
        Quantity::GapsAbove(ns) => rate(requirement, place, *ns, evidence, risk),
        Quantity::Share(share) => {
            let bounds = Bounds::of_share(&evidence.sample, *share);
            part(requirement, evidence, bounds, Question::TakenAs(*share))
        }
        Quantity::Culprit(culprit) => {
            let bounds = Bounds::of_culprit(&evidence.sample, culprit);
            let question = Question::TakenBy(culprit.share);
            part(requirement, evidence, bounds, question)
        }
    };
    // Even a broken limit proves nothing if the data are wrong.
    let unusable = unusable(evidence.coverage());
    if found.verdict == LimitVerdict::Fail && !unusable.is_empty() {
        found = Found::open(found.value, blind(unusable));
    }
    let is_above = |limit: f64| found.value.is_some_and(|value| value > limit);
    if found.verdict == LimitVerdict::Pass && requirement.warn_above.is_some_and(is_above) {
        found.verdict = LimitVerdict::Warn;
        found.reasons.push(Reason::AboveWarning);
    }
    let blame = match (found.verdict, &requirement.quantity) {
        (LimitVerdict::Fail, quantity) if quantity.is_broken_by_the_longest() => of_worst(evidence),
        (LimitVerdict::Fail, quantity) => of_all(evidence, quantity),
        _ => Vec::new(),
    };
    BudgetLimitResult {
        requirement: requirement.clone(),
        verdict: found.verdict,
        cpu: None,
        value: found.value,
        reasons: found.reasons,
        blame,
    }
}

/// Returns the blind spots that make all data of the recording wrong.
fn unusable(coverage: &Coverage) -> Vec<BlindSpot> {
    let mut spots = coverage.blind_spots(Question::Anything);
    spots.retain(BlindSpot::makes_data_unusable);
    spots
}

fn longest(requirement: &Requirement, evidence: &BudgetEvidence) -> Found {
    let max_ns = evidence.sample.whole.max_gap_ns as f64;
    if max_ns > requirement.at_most {
        return Found::broken(max_ns);
    }
    let question = Question::Longest(requirement.at_most);
    Found::kept_but_for(max_ns, evidence.coverage().blind_spots(question))
}

/// Judges a figure of all gaps together. The limit is kept only if it is also kept with all
/// unplaced time counted as taken.
fn of_run(requirement: &Requirement, evidence: &BudgetEvidence, figure: &ComparedFigure) -> Found {
    let spots = evidence.coverage().blind_spots(Question::Taken);
    let value = figure.of(&evidence.sample.whole);
    let Some((value, largest)) = value.zip(evidence.largest(figure)) else {
        return Found::open(None, [vec![Reason::NoRuntime], blind(spots)].concat());
    };
    let (unplaced, hidden): (Vec<_>, Vec<_>) = spots
        .into_iter()
        .partition(|it| it.hides() == HiddenKind::StatedTime);
    if value > requirement.at_most {
        Found::broken(value)
    } else if largest > requirement.at_most {
        Found::open(Some(value), [blind(hidden), blind(unplaced)].concat())
    } else {
        Found::kept_but_for(value, hidden)
    }
}

/// Judges the time of a share or of culprits.
fn part(
    requirement: &Requirement,
    evidence: &BudgetEvidence,
    bounds: Option<Bounds>,
    question: Question,
) -> Found {
    let runtime_ns = evidence.sample.whole.runtime_ns;
    let percent = |ns: u64| ns as f64 * 100.0 / runtime_ns as f64;
    let spots = evidence.coverage().blind_spots(question);
    let Some(bounds) = bounds else {
        return Found::open(None, blind(spots));
    };
    // If the gaps are longer than the runtime, the recording is damaged, and a smaller sum proves
    // nothing.
    if runtime_ns == 0 || evidence.sample.whole.noise_ns > runtime_ns {
        return Found::open(None, [vec![Reason::NoRuntime], blind(spots)].concat());
    }
    let value = percent(bounds.booked_ns);
    let (owners, hidden): (Vec<_>, Vec<_>) = spots
        .into_iter()
        .partition(|it| it.hides() == HiddenKind::Owners);
    if percent(bounds.at_least_ns) > requirement.at_most {
        Found::broken(value)
    } else if percent(bounds.at_most_ns) > requirement.at_most {
        let may_be = Reason::MayBe {
            at_most_percent: percent(bounds.at_most_ns),
            booked_as: bounds.booked_as,
            clock_percent: percent(bounds.clock_ns),
        };
        let reasons = [vec![may_be], blind(owners), blind(hidden)];
        Found::open(Some(value), reasons.concat())
    } else {
        let mut found = Found::kept_but_for(value, hidden);
        found
            .reasons
            .extend(bounds.is_nobody.then_some(Reason::Nobody));
        found
    }
}

fn of_worst(evidence: &BudgetEvidence) -> Vec<Blame> {
    let parts = evidence.worst(None).map(|it| &it.parts);
    let blame = parts.into_iter().flatten().map(|part| Blame {
        share: part.share,
        name: part.source.clone(),
        ns: part.ns,
    });
    largest(blame.collect())
}

/// Returns the culprits with the largest parts of the time that the quantity covers. Time without a
/// name is one entry per share.
fn of_all(evidence: &BudgetEvidence, quantity: &Quantity) -> Vec<Blame> {
    let (under, culprit) = match quantity {
        Quantity::Share(share) => (Some(*share), None),
        Quantity::Culprit(culprit) => (culprit.share, Some(culprit)),
        _ => (None, None),
    };
    let whole = &evidence.sample.whole;
    let cpus = &evidence.sample.summary.cpus;
    let sources = cpus.iter().flat_map(|cpu| &cpu.sources);
    // The same culprit may have taken time on several CPUs.
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
