//! JSON documents `vmnoise.audit/1` and `vmnoise.audit-pair/1` (docs/json.md).

use serde::Serialize;
use vmnoise_audit::{Audit, Finding, FindingVerdict, SinceRun};
use vmnoise_events::Share;
use vmnoise_events::coverage::Coverage;

use super::{AuditSubject, AuditedMachine, PairAudited};

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    #[serde(flatten)]
    machine: Machine<'a>,
    noise_ns: Option<u64>,
    explained_ns: Option<u64>,
    lost_events: u64,
    blind_spots: Option<&'a Coverage>,
    #[serde(flatten)]
    found: Found<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct PairDocument<'a> {
    schema: &'static str,
    tool_version: &'static str,
    noise_ns: u64,
    explained_ns: u64,
    lost_events: u64,
    blind_spots: Option<&'a Coverage>,
    both: Found<'a>,
    guest: Side<'a>,
    host: Side<'a>,
}

#[derive(Debug, Serialize)]
struct Side<'a> {
    #[serde(flatten)]
    machine: Machine<'a>,
    explained_ns: Option<u64>,
    #[serde(flatten)]
    found: Found<'a>,
}

#[derive(Debug, Serialize)]
struct Machine<'a> {
    name: Option<&'a str>,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    recorded_at: Option<&'a str>,
    cpus: &'a [u32],
}

#[derive(Debug, Serialize)]
struct Found<'a> {
    findings: Vec<FindingOf<'a>>,
    good: &'a [String],
    absent: &'a [String],
}

#[derive(Debug, Serialize)]
struct FindingOf<'a> {
    rule: &'a str,
    title: &'a str,
    says: &'a [String],
    note: &'a str,
    verdict: &'static str,
    explained_ns: Option<u64>,
    who: Vec<Who<'a>>,
    cannot_read: Option<&'a str>,
    places: Vec<Place<'a>>,
}

#[derive(Debug, Serialize)]
struct Who<'a> {
    share: Share,
    name: &'a str,
    ns: u64,
}

#[derive(Debug, Serialize)]
struct Place<'a> {
    path: &'a str,
    instance: &'a str,
    name: &'a str,
    found: &'a str,
    since_run: Option<&'static str>,
    found_now: Option<&'a str>,
    write: Option<WriteOf<'a>>,
    command: Option<CommandOf<'a>>,
    reboot: Option<&'a str>,
    advice: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct WriteOf<'a> {
    file: &'a str,
    to: &'a str,
    was: &'a str,
}

#[derive(Debug, Serialize)]
struct CommandOf<'a> {
    run: &'a str,
    undo: &'a str,
    tid: Option<u32>,
}

impl<'a> Document<'a> {
    pub(super) fn new(audited: &'a AuditedMachine) -> Document<'a> {
        Document {
            schema: "vmnoise.audit/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            machine: Machine::new(&audited.of),
            noise_ns: audited.noise_ns,
            explained_ns: audited.audit.explained_ns,
            lost_events: audited.lost_events,
            blind_spots: audited.coverage.as_ref(),
            found: Found::new(&audited.audit),
        }
    }
}

impl<'a> PairDocument<'a> {
    pub(super) fn new(audited: &'a PairAudited) -> PairDocument<'a> {
        PairDocument {
            schema: "vmnoise.audit-pair/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            noise_ns: audited.noise_ns,
            explained_ns: audited.explained_ns,
            lost_events: audited.guest.lost_events,
            blind_spots: audited.guest.coverage.as_ref(),
            both: Found::new(&audited.both),
            guest: Side::new(&audited.guest),
            host: Side::new(&audited.host),
        }
    }
}

impl<'a> Side<'a> {
    fn new(audited: &'a AuditedMachine) -> Side<'a> {
        Side {
            machine: Machine::new(&audited.of),
            explained_ns: audited.audit.explained_ns,
            found: Found::new(&audited.audit),
        }
    }
}

impl<'a> Machine<'a> {
    fn new(of: &'a AuditSubject) -> Machine<'a> {
        Machine {
            name: of.facts.name.as_deref(),
            kernel: &of.facts.kernel,
            hypervisor: of.facts.hypervisor.as_deref(),
            recorded_at: of.recorded_at.as_deref(),
            cpus: &of.cpus,
        }
    }
}

impl<'a> Found<'a> {
    fn new(audit: &'a Audit) -> Found<'a> {
        Found {
            findings: audit.findings.iter().map(FindingOf::new).collect(),
            good: &audit.good,
            absent: &audit.absent,
        }
    }
}

impl<'a> FindingOf<'a> {
    fn new(finding: &'a Finding) -> FindingOf<'a> {
        let rule = &finding.rule;
        let (verdict, explained, cannot_read) = match &finding.verdict {
            FindingVerdict::Explains(explained) => ("explains", Some(explained), None),
            FindingVerdict::CouldMatter => ("could_matter", None, None),
            FindingVerdict::CannotBeRead(path) => ("cannot_be_read", None, Some(&**path)),
        };
        let who = explained.iter().flat_map(|it| &it.who);
        let places = finding.bad.iter().zip(&finding.changes);
        FindingOf {
            rule: &rule.id,
            title: &rule.title,
            says: &rule.says,
            note: &rule.note,
            verdict,
            explained_ns: explained.map(|it| it.ns),
            who: who
                .map(|(share, name, ns)| Who {
                    share: *share,
                    name,
                    ns: *ns,
                })
                .collect(),
            cannot_read,
            places: places
                .map(|(bad, change)| Place {
                    path: &bad.path,
                    instance: &bad.instance,
                    name: &bad.name,
                    found: &bad.found,
                    since_run: change.since_run.as_ref().map(|it| match it {
                        SinceRun::WellNow => "well_now",
                        SinceRun::SetTo(_) => "set_to",
                        SinceRun::WellThen => "well_then",
                    }),
                    found_now: match &change.since_run {
                        Some(SinceRun::SetTo(found)) => Some(found),
                        _ => None,
                    },
                    write: change.now.as_ref().map(|it| WriteOf {
                        file: &it.file,
                        to: &it.to,
                        was: &it.was,
                    }),
                    command: change.command.as_ref().map(|it| CommandOf {
                        run: &it.run,
                        undo: &it.undo,
                        tid: it.thread.map(|(tid, _)| tid),
                    }),
                    reboot: change.reboot.as_deref(),
                    advice: change.advice.as_deref(),
                })
                .collect(),
        }
    }
}
