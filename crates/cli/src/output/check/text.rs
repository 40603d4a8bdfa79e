//! For people.

use super::{Checked, words};
use crate::output::table;

/// Ends with a newline.
pub(super) fn render(checked: &Checked<'_>) -> String {
    let judged = &checked.judged;
    let mut text = format!(
        "{}: {}: {}\n",
        words::verdict(judged.verdict),
        checked.file,
        words::run(checked)
    );
    if !judged.judgements.is_empty() {
        text += &table::of(&judged.judgements, |it| {
            it.words("limit of", |it| it.requirement.quantity.to_string().into())
                .figure("at most", |it| {
                    words::value(Some(it.requirement.at_most), it.requirement.quantity.unit())
                })
                .figure("has", |it| {
                    words::value(it.value, it.requirement.quantity.unit())
                })
                .name("", |it| Some(words::verdict(it.verdict)))
        });
    }
    for judgement in &judged.judgements {
        for line in words::why(checked, judgement) {
            text += &format!(" {}: {line}\n", judgement.requirement.quantity);
        }
    }
    for reason in &judged.reasons {
        text += &format!(" {reason}\n");
    }
    if let Some(ask_for) = words::ask_for(checked) {
        text += &format!(" {ask_for}\n");
    }
    text
}
