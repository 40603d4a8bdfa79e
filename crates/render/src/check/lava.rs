//! Verdict as LAVA signals: lines in the log of a device under test, which the dispatcher turns
//! into results.

use vmnoise_judge::check::{BudgetLimitResult, LimitVerdict};
use vmnoise_judge::compare::Unit;

use super::CheckResult;

/// Renders a test case for each limit, and one for all limits together.
pub(super) fn render(checked: &CheckResult<'_>) -> String {
    let judged = &checked.judged;
    let mut text: String = judged.judgements.iter().map(signal).collect();
    let result = result(judged.verdict);
    text += &format!("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=vmnoise RESULT={result}>\n");
    text
}

fn signal(judgement: &BudgetLimitResult) -> String {
    let quantity = &judgement.requirement.quantity;
    let measured = judgement.value.map(|value| match quantity.unit() {
        Unit::Nanoseconds => format!(" MEASUREMENT={} UNITS=ns", value.round()),
        Unit::PerSecond => format!(" MEASUREMENT={value:.3} UNITS=per_second"),
        Unit::Percent => format!(" MEASUREMENT={value:.6} UNITS=percent"),
    });
    format!(
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=vmnoise-{} RESULT={}{}>\n",
        id(&quantity.to_string()),
        result(judgement.verdict),
        measured.unwrap_or_default()
    )
}

/// Returns an id, which must be a single word.
fn id(name: &str) -> String {
    let is_of_word = |it: char| it.is_ascii_alphanumeric() || "._".contains(it);
    name.chars()
        .map(|it| if is_of_word(it) { it } else { '-' })
        .collect()
}

const fn result(verdict: LimitVerdict) -> &'static str {
    match verdict {
        LimitVerdict::Pass | LimitVerdict::Warn => "pass",
        LimitVerdict::Fail => "fail",
        LimitVerdict::CannotTell => "unknown",
    }
}
