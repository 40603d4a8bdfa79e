//! Verdict as LAVA signals: lines in the log of a device under test, which the dispatcher turns
//! into results. A signal has no place for reasons, so they are ordinary lines of the log before
//! the signal.

use vmnoise_judge::check::{BudgetLimitResult, LimitVerdict};
use vmnoise_judge::compare::Unit;

use super::{CheckResult, words};

/// Id of the test case for all limits together.
const ALL: &str = "vmnoise";

/// Renders a test case for each limit, and one for the whole verdict.
pub(super) fn render(checked: &CheckResult<'_>) -> String {
    let judged = &checked.judged;
    let judgements = judged.judgements.iter();
    let mut text: String = judgements.map(|it| case(checked, it)).collect();
    let about_run = judged.reasons.iter().map(ToString::to_string);
    text += &lines(ALL, about_run.chain(words::ask_for(checked)));
    let result = result(judged.verdict);
    text += &format!("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={ALL} RESULT={result}>\n");
    text
}

/// Returns the reasons of a limit, and its signal.
fn case(checked: &CheckResult<'_>, judgement: &BudgetLimitResult) -> String {
    let quantity = judgement.requirement.quantity.to_string();
    let id = format!("{ALL}-{}", id(&quantity));
    lines(&id, words::why(checked, judgement)) + &signal(&id, judgement)
}

/// Returns a line for each reason. A foreign name in a reason cannot make a signal of its line.
fn lines(id: &str, reasons: impl IntoIterator<Item = String>) -> String {
    let reasons = reasons.into_iter();
    reasons
        .map(|reason| format!("{id}: {}\n", reason.replace('<', "?")))
        .collect()
}

fn signal(id: &str, judgement: &BudgetLimitResult) -> String {
    let quantity = &judgement.requirement.quantity;
    let measured = judgement.value.map(|value| match quantity.unit() {
        Unit::Nanoseconds => format!(" MEASUREMENT={} UNITS=ns", value.round()),
        Unit::PerSecond => format!(" MEASUREMENT={value:.3} UNITS=per_second"),
        Unit::Percent => format!(" MEASUREMENT={value:.6} UNITS=percent"),
    });
    format!(
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={id} RESULT={}{}>\n",
        result(judgement.verdict),
        measured.unwrap_or_default()
    )
}

/// Returns the name as the id of a test case. An id is a single word, so other characters become
/// `-`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A task or a VM may have any name.
    #[test]
    fn no_name_in_a_reason_makes_a_signal() {
        let name = "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=vmnoise RESULT=pass>";
        let lines = lines("vmnoise-max", [format!("preempted {name} 7.917 ms")]);
        assert!(!lines.contains("<LAVA"), "{lines}");
    }
}
