//! For whatever reads the results of tests: a suite for the recording, a case for each limit.

use anyhow::Result;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use vmnoise_explain::check::Verdict;

use super::{Checked, words};

/// A document; a limit of which nobody can tell is an error of the test, no failure of the machine.
pub(super) fn render(checked: &Checked<'_>) -> Result<String> {
    let mut suite = TestSuite::new(format!("vmnoise check {}", checked.file));
    for judgement in &checked.judged.judgements {
        let quantity = &judgement.requirement.quantity;
        let at_most = words::value(Some(judgement.requirement.at_most), quantity.unit());
        let has = words::value(judgement.value, quantity.unit());
        let mut said = words::why(checked, judgement);
        said.extend(checked.judged.reasons.iter().map(ToString::to_string));
        said.extend(words::ask_for(checked));
        let kind = match judgement.verdict {
            Verdict::Pass | Verdict::Warn => None,
            Verdict::Fail => Some(NonSuccessKind::Failure),
            Verdict::CannotTell => Some(NonSuccessKind::Error),
        };
        let mut status = kind.map_or_else(TestCaseStatus::success, TestCaseStatus::non_success);
        if kind.is_some() {
            status
                .set_type(words::verdict(judgement.verdict))
                .set_message(format!("{quantity} is {has}, limit {at_most}"))
                .set_description(said.join("\n"));
        }
        let mut case = TestCase::new(format!("{quantity} at most {at_most}"), status);
        case.set_classname("vmnoise");
        if kind.is_none() {
            let lines = [format!("{}: {has}", words::verdict(judgement.verdict))];
            case.set_system_out(lines.into_iter().chain(said).collect::<Vec<_>>().join("\n"));
        }
        suite.add_test_case(case);
    }
    let mut report = Report::new("vmnoise");
    report.add_test_suite(suite);
    Ok(report.to_string()?)
}
