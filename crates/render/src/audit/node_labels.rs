//! Feature file for Node Feature Discovery, with one label in each line. Its local source reads
//! such files from `features.d/`. The labels contain only rule names and fixed words, and no text
//! from the machine.

use vmnoise_audit::Audit;

use super::words;

/// Start of each label: the namespace `vmnoise.io`, and the start of the name. Node Feature
/// Discovery accepts every namespace except the namespaces of Kubernetes itself.
const NAMESPACE: &str = "vmnoise.io/audit.";

/// Renders the labels; the text ends with a newline.
pub(super) fn render(audit: &Audit) -> String {
    let findings = audit.findings.iter();
    let findings = findings.map(|it| (&it.rule.id, words::verdict(&it.verdict)));
    let good = audit.good.iter().map(|rule| (rule, "good"));
    let absent = audit.absent.iter().map(|rule| (rule, "absent"));
    let mut labels: Vec<(&String, &str)> = findings.chain(good).chain(absent).collect();
    labels.sort_unstable();
    labels
        .into_iter()
        .map(|(rule, value)| format!("{NAMESPACE}{rule}={value}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether Kubernetes accepts the text as the name or the value of a label. A label has
    /// at most 63 letters, digits, `-`, `_` and `.`, and begins and ends with a letter or a digit.
    fn is_label(text: &str) -> bool {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric();
        let is_inner = |letter: char| is_plain(letter) || "-_.".contains(letter);
        text.len() <= 63
            && text.starts_with(is_plain)
            && text.ends_with(is_plain)
            && text.chars().all(is_inner)
    }

    #[test]
    fn each_rule_has_a_name_that_kubernetes_takes() {
        let (_, first) = NAMESPACE.split_once('/').unwrap();
        for rule in vmnoise_audit::all().unwrap() {
            let name = format!("{first}{}", rule.id);
            assert!(is_label(&name), "{name}");
        }
        for value in [
            "explains",
            "could-matter",
            "cannot-be-read",
            "good",
            "absent",
        ] {
            assert!(is_label(value));
        }
    }
}
