//! For people.

use vmnoise_audit::{Change, Explained, Finding, Verdict, Write};
use vmnoise_tracer::host::cpu_list;

use super::Audited;
use crate::units::human;

/// Ends with a newline.
pub(super) fn render(audited: &Audited) -> String {
    let audit = &audited.audit;
    let mut text = format!(
        "{}, Linux {}, CPU {}{}\n",
        audited.facts.name.as_deref().unwrap_or("this machine"),
        audited.facts.kernel,
        cpu_list::format(&audited.cpus),
        score(audited)
    );
    if audited.lost_events > 0 {
        text += &format!(
            " {} records were lost: what a finding explains may be more\n",
            audited.lost_events
        );
    }
    let of = |is: fn(&Verdict) -> bool| audit.findings.iter().filter(move |it| is(&it.verdict));
    for finding in of(|it| matches!(it, Verdict::Explains(_))) {
        text += &format!("\n{}", described(finding, audited));
    }
    let mut could = of(|it| matches!(it, Verdict::CouldMatter)).peekable();
    if could.peek().is_some() {
        text += match audited.noise_ns {
            Some(_) => {
                "\nCould matter: it is not in this recording, or no recording tells it apart\n"
            }
            None => {
                "\nCould matter: a recording would tell (vmnoise osnoise -o run.vmn; vmnoise audit run.vmn)\n"
            }
        };
        text.extend(could.map(|finding| described(finding, audited)));
    }
    for finding in &audit.findings {
        if let Verdict::CannotBeRead(path) = &finding.verdict {
            text += &format!(
                "\ncannot be read: {}: /{path} needs the rights of root\n",
                finding.rule.id
            );
        }
    }
    text += &format!("\nAll well: {}\n", words(&audit.good));
    text += &format!("Not in this kernel: {}\n", words(&audit.absent));
    text
}

/// How much of the noise has a finding, and how much has none.
fn score(audited: &Audited) -> String {
    let (Some(noise_ns), Some(explained_ns)) = (audited.noise_ns, audited.audit.explained_ns)
    else {
        return String::new();
    };
    let percent = |ns: u64| ns as f64 * 100.0 / noise_ns.max(1) as f64;
    format!(
        ": of {} of noise {:.1} % has a finding, {:.1} % has none",
        human(noise_ns),
        percent(explained_ns),
        percent(noise_ns.saturating_sub(explained_ns))
    )
}

fn described(finding: &Finding, audited: &Audited) -> String {
    let rule = &finding.rule;
    let mut text = format!(" {}: {}\n", rule.id, rule.title);
    if let Verdict::Explains(explained) = &finding.verdict {
        text += &format!("   {}\n", took(explained, audited));
    }
    for (bad, change) in finding.bad.iter().zip(&finding.changes) {
        let name = if bad.name.is_empty() {
            String::new()
        } else {
            format!(" ({})", bad.name)
        };
        let found = if bad.found.is_empty() {
            "not set"
        } else {
            &bad.found
        };
        text += &format!("   /{}{name}: {found}\n", bad.path);
        text += &changed(change);
    }
    if !rule.note.is_empty() {
        text += &format!("   note: {}\n", rule.note);
    }
    text += &format!("   says who: {}\n", rule.says.join("; "));
    text
}

fn took(explained: &Explained, audited: &Audited) -> String {
    let percent = explained.ns as f64 * 100.0 / audited.noise_ns.unwrap_or(0).max(1) as f64;
    let who = explained.who.iter().take(3);
    let who: Vec<String> = who
        .map(|(share, name, ns)| match name.is_empty() {
            true => format!("{share} {}", human(*ns)),
            false => format!("{share} {name} {}", human(*ns)),
        })
        .collect();
    format!(
        "explains up to {} ({percent:.1} %): {}",
        human(explained.ns),
        who.join(", ")
    )
}

fn changed(change: &Change) -> String {
    let mut text = String::new();
    if let Some(Write { file, to, was }) = &change.now {
        text += &format!("     now: echo {to} > {file} (undo: echo {was} > {file})\n");
    }
    if let Some(command) = &change.command {
        text += &format!("     now: {} (undo: {})\n", command.run, command.undo);
    }
    if let Some(reboot) = &change.reboot {
        text += &format!("     at the next start: {reboot}\n");
    }
    text
}

fn words(names: &[String]) -> String {
    match names.is_empty() {
        true => "-".into(),
        false => names.join(" "),
    }
}
