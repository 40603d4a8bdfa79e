//! Audit as Markdown tables for a ticket. Text from the machine becomes code spans, without
//! characters that could end the span or the table cell.

use vmnoise_audit::{Finding, FindingVerdict};

use super::report::{Report, Section};
use super::words;

/// Renders the report; the text ends with a newline.
pub(super) fn render(report: &Report<'_>) -> String {
    let lines = report.score.iter().cloned().chain(report.not_seen());
    let lines = lines.map(|line| format!("{line}\n\n"));
    let sections: Vec<String> = report.sections.iter().map(table).collect();
    lines.collect::<String>() + &sections.join("\n")
}

fn table(section: &Section<'_>) -> String {
    let mut text = format!("{}\n", code(&section.head));
    text += "\n| rule | what | verdict | where, and what to do |\n|---|---|---|---|\n";
    let findings = section.audit.findings.iter();
    text.extend(findings.map(|finding| row(finding, section)));
    text
}

fn row(finding: &Finding, section: &Section<'_>) -> String {
    let verdict = match &finding.verdict {
        FindingVerdict::Explains(explained) => code(&words::took(explained, section.noise_ns)),
        FindingVerdict::CouldMatter => "could matter".into(),
        FindingVerdict::CannotBeRead(path) => {
            format!(
                "cannot be read: {}",
                code(&words::unread(path, section.is_recorded))
            )
        }
    };
    let places = words::places(finding).flat_map(|(place, changes)| {
        let changes = changes.into_iter().map(|change| code(&change));
        std::iter::once(code(&place)).chain(changes)
    });
    let places: Vec<String> = places.collect();
    let rule = &finding.rule;
    format!(
        "| {} | {} | {verdict} | {} |\n",
        code(&rule.id),
        code(&rule.title),
        places.join("<br>")
    )
}

/// Returns the text as a code span, without characters that could end the span or the table cell.
/// `|` is replaced, not escaped, because Markdown dialects escape it differently.
fn code(text: &str) -> String {
    let text = text.replace(['`', '|', '\r', '\n'], "\u{fffd}");
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_code_it_stands_in() {
        for foreign in ["a`b", "a|b", "a\nb", "``", "\\`", "@team", "<b>", "\\"] {
            let code = code(foreign);
            let inner = &code[1..code.len() - 1];
            assert!(!inner.contains(['`', '|', '\n']), "{code}");
        }
    }
}
