//! Verdict as JUnit XML, with one test case for the run and one for each limit.

use anyhow::Result;
use vmnoise_judge::check::{BudgetLimitResult, LimitVerdict};

use super::{CheckResult, words};
use crate::junit;
use crate::junit::{Case, CaseOutcome, TestSuite};

/// Renders the document. The first test case has the verdict on the run itself, without its limits.
pub(super) fn render(checked: &CheckResult<'_>) -> Result<String> {
    let mut cases = vec![of_run(checked)];
    let judgements = checked.judged.judgements.iter();
    cases.extend(judgements.map(|it| of_limit(checked, it)));
    let name = format!("vmnoise check {}", checked.file);
    junit::render(&[TestSuite { name, cases }])
}

fn of_run(checked: &CheckResult<'_>) -> Case {
    let judged = &checked.judged;
    let mut said: Vec<String> = judged.reasons.iter().map(ToString::to_string).collect();
    said.extend(words::ask_for(checked));
    Case {
        name: "the run".into(),
        outcome: outcome(judged.of_run),
        verdict: words::verdict(judged.of_run),
        message: words::run(checked),
        said,
    }
}

fn of_limit(checked: &CheckResult<'_>, judgement: &BudgetLimitResult) -> Case {
    let quantity = &judgement.requirement.quantity;
    let at_most = words::value(Some(judgement.requirement.at_most), quantity.unit());
    let has = words::has(judgement);
    Case {
        name: format!("{quantity} at most {at_most}"),
        outcome: outcome(judgement.verdict),
        verdict: words::verdict(judgement.verdict),
        message: format!("{quantity} is {has}, limit {at_most}"),
        said: words::why(checked, judgement),
    }
}

const fn outcome(verdict: LimitVerdict) -> CaseOutcome {
    match verdict {
        LimitVerdict::Pass | LimitVerdict::Warn => CaseOutcome::Good,
        LimitVerdict::Fail => CaseOutcome::Failed,
        LimitVerdict::CannotTell => CaseOutcome::Unknown,
    }
}
