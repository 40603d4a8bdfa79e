//! Verdict as GitHub workflow commands, one in each line. GitHub shows each command as an
//! annotation of the workflow run.

use vmnoise_judge::check::LimitVerdict;

use super::{CheckResult, words};

/// Renders one annotation for each limit, or one for the whole run if there is no limit.
pub(super) fn render(checked: &CheckResult<'_>) -> String {
    let judged = &checked.judged;
    let about_run: Vec<String> = judged.reasons.iter().map(ToString::to_string).collect();
    let mut text = String::new();
    for judgement in &judged.judgements {
        let quantity = &judgement.requirement.quantity;
        let at_most = words::value(Some(judgement.requirement.at_most), quantity.unit());
        let has = words::has(judgement);
        let mut said = vec![format!("{quantity} is {has}, limit {at_most}")];
        said.extend(words::why(checked, judgement));
        said.extend(about_run.iter().cloned());
        said.extend(words::ask_for(checked));
        text += &annotation(judgement.verdict, &quantity.to_string(), checked, &said);
    }
    if judged.judgements.is_empty() {
        text += &annotation(judged.verdict, "duration", checked, &about_run);
    }
    text
}

fn annotation(
    verdict: LimitVerdict,
    what: &str,
    checked: &CheckResult<'_>,
    said: &[String],
) -> String {
    let command = match verdict {
        LimitVerdict::Pass => "notice",
        LimitVerdict::Warn | LimitVerdict::CannotTell => "warning",
        LimitVerdict::Fail => "error",
    };
    let title = format!("vmnoise {what}: {}", words::verdict(verdict));
    let message = format!("{}: {}", checked.file, said.join("\n"));
    format!(
        "::{command} title={}::{}\n",
        property(&title),
        data(&message)
    )
}

/// Escapes the message of a workflow command, which follows the last `::` (actions/toolkit,
/// packages/core, command.ts).
fn data(text: &str) -> String {
    let text = text.replace('%', "%25");
    text.replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command. Properties precede the last `::`.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
