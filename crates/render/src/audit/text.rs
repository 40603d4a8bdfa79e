//! Audit as text for people.

use vmnoise_audit::{Finding, FindingVerdict};

use super::report::{Report, Section};
use super::words;

/// Renders the report; the text ends with a newline.
pub(super) fn render(report: &Report<'_>) -> String {
    let not_seen: String = report.not_seen().map(|it| format!(" {it}\n")).collect();
    match (&report.sections[..], &report.score) {
        ([one], Some(score)) => format!("{}: {score}\n{not_seen}{}", one.head, body(one)),
        ([one], None) => format!("{}\n{not_seen}{}", one.head, body(one)),
        (several, score) => {
            let score: String = score.iter().map(|it| format!("{it}\n")).collect();
            let sections = several.iter();
            let sections = sections.map(|it| format!("\n{}\n{}", it.head, body(it)));
            format!("{score}{not_seen}{}", sections.collect::<String>())
        }
    }
}

fn body(section: &Section<'_>) -> String {
    let audit = section.audit;
    let mut text = String::new();
    let of =
        |is: fn(&FindingVerdict) -> bool| audit.findings.iter().filter(move |it| is(&it.verdict));
    for finding in of(|it| matches!(it, FindingVerdict::Explains(_))) {
        text += &format!("\n{}", described(finding, section));
    }
    let mut could = of(|it| matches!(it, FindingVerdict::CouldMatter)).peekable();
    if could.peek().is_some() {
        text += match section.noise_ns {
            Some(_) => {
                "\nCould matter: this recording has no such noise, or no recording can show it\n"
            }
            None => {
                "\nCould matter: make a recording to know (vmnoise osnoise -o run.vmn; vmnoise audit run.vmn)\n"
            }
        };
        text.extend(could.map(|finding| described(finding, section)));
    }
    for finding in &audit.findings {
        if let FindingVerdict::CannotBeRead(path) = &finding.verdict {
            let why = words::unread(path, section.is_recorded);
            text += &format!("\ncannot be read: {}: {why}\n", finding.rule.id);
        }
    }
    text += &format!("\nGood: {}\n", list(&audit.good));
    if !audit.absent.is_empty() {
        text += &format!("Not in this kernel: {}\n", list(&audit.absent));
    }
    text
}

fn described(finding: &Finding, section: &Section<'_>) -> String {
    let rule = &finding.rule;
    let mut text = format!(" {}: {}\n", rule.id, rule.title);
    if let FindingVerdict::Explains(explained) = &finding.verdict {
        text += &format!("   {}\n", words::took(explained, section.noise_ns));
    }
    for (place, changes) in words::places(finding) {
        text += &format!("   {place}\n");
        text.extend(changes.iter().map(|change| format!("     {change}\n")));
    }
    if !rule.note.is_empty() {
        text += &format!("   note: {}\n", rule.note);
    }
    text += &format!("   authority: {}\n", rule.says.join("; "));
    text
}

fn list(names: &[String]) -> String {
    match names.is_empty() {
        true => "-".into(),
        false => names.join(" "),
    }
}
