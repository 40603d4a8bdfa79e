//! What can be changed at once, as two scripts of a shell.

use vmnoise_audit::{Finding, Write};

use super::Audited;

const HEAD: &str = "#!/bin/sh
# Written by vmnoise audit: read it before you run it, as root.
set -u

# An interrupt may be bound to its CPU by its driver: then it stays.
change() {
\techo \"$1\" > \"$2\" || echo \"$2 stays as it is\" >&2
}
";

/// Their names, and what is in them: the one changes, the other changes back, in the opposite order.
pub fn scripts(audited: &Audited) -> [(&'static str, String); 2] {
    let findings = &audited.audit.findings;
    let apply = findings
        .iter()
        .map(|finding| commands(finding, |it| &it.to));
    let undo = findings
        .iter()
        .rev()
        .map(|finding| commands(finding, |it| &it.was));
    [
        ("apply.sh", format!("{HEAD}{}", apply.collect::<String>())),
        ("undo.sh", format!("{HEAD}{}", undo.collect::<String>())),
    ]
}

/// Those of one finding, under its name; nothing where there is none.
fn commands(finding: &Finding, value: fn(&Write) -> &String) -> String {
    let rule = &finding.rule;
    // Whoever wants it takes the sign away.
    let sign = if rule.remedy.gives_up_protection {
        "# "
    } else {
        ""
    };
    let writes = finding
        .changes
        .iter()
        .filter_map(|change| change.now.as_ref());
    let lines: String = writes
        .map(|write| format!("{sign}change {} {}\n", value(write), write.file))
        .collect();
    if lines.is_empty() {
        return lines;
    }
    let note = match rule.note.is_empty() {
        true => String::new(),
        false => format!("# {}\n", rule.note),
    };
    format!("\n# {}: {}\n{note}{lines}", rule.id, rule.title)
}
