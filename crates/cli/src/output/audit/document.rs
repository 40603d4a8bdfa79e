//! `vmnoise.audit/1` (docs/json.md).

use serde::Serialize;
use vmnoise_audit::{Finding, Verdict};
use vmnoise_events::Share;

use super::Audited;

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    cpus: &'a [u32],
    noise_ns: Option<u64>,
    explained_ns: Option<u64>,
    lost_events: u64,
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
    write: Option<WriteOf<'a>>,
    command: Option<CommandOf<'a>>,
    reboot: Option<&'a str>,
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
    pub(super) fn new(audited: &'a Audited) -> Document<'a> {
        let audit = &audited.audit;
        Document {
            schema: "vmnoise.audit/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            kernel: &audited.facts.kernel,
            hypervisor: audited.facts.hypervisor.as_deref(),
            cpus: &audited.cpus,
            noise_ns: audited.noise_ns,
            explained_ns: audit.explained_ns,
            lost_events: audited.lost_events,
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
            Verdict::Explains(explained) => ("explains", Some(explained), None),
            Verdict::CouldMatter => ("could_matter", None, None),
            Verdict::CannotBeRead(path) => ("cannot_be_read", None, Some(&**path)),
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
                })
                .collect(),
        }
    }
}
