//! Verdict as text for people.

use super::{CheckResult, words};
use crate::table;

/// Renders the verdict; the text ends with a newline.
pub(super) fn render(checked: &CheckResult<'_>) -> String {
    let judged = &checked.judged;
    let mut text = format!(
        "{}: {}: {}\n",
        words::verdict(judged.verdict),
        checked.file,
        words::run(checked)
    );
    if !judged.judgements.is_empty() {
        let has_cpus = judged.judgements.iter().any(|it| it.cpu.is_some());
        text += &table::of(&judged.judgements, |it| {
            let it = it
                .words("limit of", |it| it.requirement.quantity.to_string().into())
                .figure("at most", |it| {
                    words::value(Some(it.requirement.at_most), it.requirement.quantity.unit())
                })
                .figure("has", |it| {
                    words::value(it.value, it.requirement.quantity.unit())
                });
            let it = match has_cpus {
                true => it.count("CPU", |it| it.cpu.map(u64::from)),
                false => it,
            };
            it.name("", |it| Some(words::verdict(it.verdict)))
        });
    }
    for (line, limits) in &whys(checked) {
        text += &format!(" {}: {line}\n", limits.join(", "));
    }
    for reason in &judged.reasons {
        text += &format!(" {reason}\n");
    }
    if let Some(ask_for) = words::ask_for(checked) {
        text += &format!(" {ask_for}\n");
    }
    text
}

/// Returns each line of explanation once, with all limits to which it applies. One gap may break
/// several limits.
fn whys(checked: &CheckResult<'_>) -> Vec<(String, Vec<String>)> {
    let mut whys: Vec<(String, Vec<String>)> = Vec::new();
    for judgement in &checked.judged.judgements {
        let limit = judgement.requirement.quantity.to_string();
        for line in words::why(checked, judgement) {
            match whys.iter_mut().find(|(known, _)| *known == line) {
                Some((_, limits)) => limits.push(limit.clone()),
                None => whys.push((line, vec![limit.clone()])),
            }
        }
    }
    whys
}
