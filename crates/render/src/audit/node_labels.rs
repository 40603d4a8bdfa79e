//! Feature file for Node Feature Discovery (`features.d/` of its local source), with a label in
//! each line. Names and values come from a fixed set of our own words; foreign names never appear.

use vmnoise_audit::Audit;

use super::words;

/// Namespace of the labels. Node Feature Discovery accepts any namespace except those of Kubernetes
/// itself.
const NAMESPACE: &str = "vmnoise.io/audit.";

/// Renders the labels; ends with a newline.
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

    /// Returns whether Kubernetes accepts the text as name or value of a label: at most 63 of these
    /// characters, of which the first and the last are letters or digits.
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
