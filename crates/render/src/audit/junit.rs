//! Audit as JUnit XML, with one test case for each rule:
//!
//! - failure: the rule explains noise
//! - skipped: the rule could matter, or its setting is not in this kernel
//! - error: a file of the rule cannot be read
//! - passed: the setting is good
//!
//! An additional case has the facts about the recording.

use anyhow::Result;
use vmnoise_audit::{Finding, FindingVerdict};

use super::report::{Report, Section};
use super::words;
use crate::junit;
use crate::junit::{Case, CaseOutcome, TestSuite};

pub(super) fn render(report: &Report<'_>) -> Result<String> {
    let mut suites: Vec<TestSuite> = report.sections.iter().map(suite).collect();
    if let (Some(first), Some(case)) = (suites.first_mut(), of_recording(report)) {
        first.cases.insert(0, case);
    }
    junit::render(&suites)
}

/// Returns a case with the score and the blind spots of the recording; `None` without a recording.
/// The case is skipped if the recording has blind spots, because the score is then a lower bound.
fn of_recording(report: &Report<'_>) -> Option<Case> {
    let message = report.score.clone()?;
    let said: Vec<String> = report.not_seen().collect();
    let (outcome, verdict) = match said.is_empty() {
        true => (CaseOutcome::Good, "complete"),
        false => (CaseOutcome::Skipped, "lower-bound"),
    };
    Some(Case {
        name: "the recording".into(),
        outcome,
        verdict,
        message,
        said,
    })
}

fn suite(section: &Section<'_>) -> TestSuite {
    let audit = section.audit;
    let findings = audit.findings.iter();
    let mut cases: Vec<Case> = findings.map(|it| of_finding(it, section)).collect();
    let plain = |name: &String, outcome, verdict, message: &str| Case {
        name: name.clone(),
        outcome,
        verdict,
        message: message.into(),
        said: Vec::new(),
    };
    let good = audit.good.iter();
    cases.extend(good.map(|it| plain(it, CaseOutcome::Good, "good", "the setting is good")));
    let absent = audit.absent.iter();
    cases.extend(absent.map(|it| plain(it, CaseOutcome::Skipped, "absent", "not in this kernel")));
    TestSuite {
        name: format!("vmnoise audit {}", section.head),
        cases,
    }
}

fn of_finding(finding: &Finding, section: &Section<'_>) -> Case {
    let rule = &finding.rule;
    let (outcome, mut said) = match &finding.verdict {
        FindingVerdict::Explains(explained) => (
            CaseOutcome::Failed,
            vec![words::took(explained, section.noise_ns)],
        ),
        FindingVerdict::CouldMatter => (CaseOutcome::Skipped, Vec::new()),
        FindingVerdict::CannotBeRead(path) => (
            CaseOutcome::Unknown,
            vec![words::unread(path, section.is_recorded).into()],
        ),
    };
    for (place, changes) in words::places(finding) {
        said.push(place.into());
        said.extend(changes.iter().map(|change| format!("  {change}")));
    }
    said.extend((!rule.note.is_empty()).then(|| format!("note: {}", rule.note)));
    said.push(format!("authority: {}", rule.says.join("; ")));
    Case {
        name: rule.id.clone(),
        outcome,
        verdict: words::verdict(&finding.verdict),
        message: rule.title.clone(),
        said,
    }
}
