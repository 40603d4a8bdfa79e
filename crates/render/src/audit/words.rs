//! Words for findings, shared by all formats except JSON. Names of files, interrupts and interfaces
//! come from the machine. So each line with such a name is a [`ShownLine`], without control
//! characters.

use vmnoise_audit::{Change, ExplainedNoise, Finding, FindingVerdict, SinceRun};
use vmnoise_events::{ShownLine, human};
use vmnoise_host::cpu_list;

use super::AuditSubject;

/// Returns the word for a verdict in node labels and in JUnit.
pub(super) const fn verdict(verdict: &FindingVerdict) -> &'static str {
    match verdict {
        FindingVerdict::Explains(_) => "explains",
        FindingVerdict::CouldMatter => "could-matter",
        FindingVerdict::CannotBeRead(_) => "cannot-be-read",
    }
}

/// Describes the machine: name, time of the recording, kernel and audited CPUs.
pub(super) fn machine(of: &AuditSubject) -> String {
    let then = of.recorded_at.iter();
    let rest = match of.is_here {
        true => " (settings that the recording lacks: as they are now)",
        false => "",
    };
    let then: String = then.map(|at| format!(" as it was at {at}{rest}")).collect();
    format!(
        "{}{then}, Linux {}, CPU {}",
        of.facts.name.as_deref().unwrap_or("this machine"),
        of.facts.kernel,
        cpu_list::format(&of.cpus)
    )
}

/// Formats the noise that a finding explains, with the three largest culprits: `explains up to
/// 9.069 ms (3.6 %): preempted bash:5837 2.198 ms`.
pub(super) fn took(explained: &ExplainedNoise, noise_ns: Option<u64>) -> String {
    let percent = explained.ns as f64 * 100.0 / noise_ns.unwrap_or(0).max(1) as f64;
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

/// Returns a line for each place, such as `/proc/irq/25/effective_affinity_list (ACPI:Ged): 1`, and
/// the lines of its remedy. If consecutive places have the same remedy, the remedy follows only the
/// last of these places.
pub(super) fn places(finding: &Finding) -> impl Iterator<Item = (ShownLine, Vec<ShownLine>)> + '_ {
    let changes = &finding.changes;
    let places = finding.bad.iter().zip(changes).enumerate();
    places.map(|(place, (bad, change))| {
        let is_repeated = changes.get(place + 1) == Some(change);
        let name = match bad.name.is_empty() {
            true => String::new(),
            false => format!(" ({})", bad.name),
        };
        let found = match bad.found.is_empty() {
            true => "not set",
            false => &bad.found,
        };
        let line = format!("{}{name}: {found}", path(&bad.path));
        let changes = match is_repeated {
            true => Vec::new(),
            false => changed(change),
        };
        (line.into(), changes)
    })
}

/// Returns the absolute path of a file. In an audit of a pair, the path already begins with
/// `guest:` or `host:`, and stays unchanged.
fn path(path: &str) -> String {
    match path.starts_with("guest:") || path.starts_with("host:") {
        true => path.to_owned(),
        false => format!("/{path}"),
    }
}

fn changed(change: &Change) -> Vec<ShownLine> {
    let since = change.since_run.iter().map(|it| match it {
        SinceRun::WellNow => "changed since the recording: it is good now".to_owned(),
        SinceRun::SetTo(found) => format!("changed since the recording: now {found}"),
        SinceRun::WellThen => "changed since the recording: it was good then".to_owned(),
    });
    let now = change.now.iter().map(|it| {
        format!(
            "now: echo {} > {} (undo: echo {} > {})",
            it.to, it.file, it.was, it.file
        )
    });
    let command = change.command.iter();
    let command = command.map(|it| format!("now: {} (undo: {})", it.run, it.undo));
    let reboot = change.reboot.iter();
    let reboot = reboot.map(|it| format!("at the next start: {it}"));
    let advice = change.advice.iter().map(|it| format!("to do: {it}"));
    since
        .chain(now)
        .chain(command)
        .chain(reboot)
        .chain(advice)
        .map(ShownLine::from)
        .collect()
}

/// Returns a line that says why a file could not be read.
pub(super) fn unread(unread: &str, is_recorded: bool) -> ShownLine {
    let why = match is_recorded {
        true => "is not in the recording: record as root",
        false => "may not be read: run as root, and not in a container",
    };
    format!("{} {why}", path(unread)).into()
}
