//! Content of an audit, shared by text, Markdown and JUnit. The audit is of one machine, or of a
//! guest and its host.

use vmnoise_audit::Audit;
use vmnoise_events::coverage::{BlindSpot, Question};
use vmnoise_events::human;

use super::{AuditedMachine, PairAudited, words};

/// Content of the whole audit.
pub(super) struct Report<'a> {
    /// Line with the part of the noise that findings explain; `None` without a recording.
    pub score: Option<String>,
    /// Blind spots of the recording; for a pair, of the guest's recording.
    pub blind_spots: Vec<BlindSpot>,
    /// Sections: one for a single machine, three for a guest and its host.
    pub sections: Vec<Section<'a>>,
}

/// Findings of one machine, or of guest and host together.
pub(super) struct Section<'a> {
    /// Heading: the machine and its CPUs, or `guest and host together`.
    pub head: String,
    /// Result of each rule.
    pub audit: &'a Audit,
    /// Noise in the recording, in nanoseconds; `None` without a recording.
    pub noise_ns: Option<u64>,
    /// Whether all settings come from a recording, and none from the present machine.
    pub is_recorded: bool,
}

impl<'a> Report<'a> {
    pub(super) fn of_one(audited: &'a AuditedMachine) -> Report<'a> {
        let explained = audited.noise_ns.zip(audited.audit.explained_ns);
        Report {
            score: explained.map(|(noise_ns, explained_ns)| score(noise_ns, explained_ns)),
            blind_spots: blind_spots(audited),
            sections: vec![Section::new("", audited)],
        }
    }

    pub(super) fn of_pair(audited: &'a PairAudited) -> Report<'a> {
        let both = Section {
            head: "guest and host together".into(),
            audit: &audited.both,
            noise_ns: Some(audited.noise_ns),
            is_recorded: true,
        };
        Report {
            score: Some(score(audited.noise_ns, audited.explained_ns)),
            blind_spots: blind_spots(&audited.guest),
            sections: vec![
                both,
                Section::new("guest: ", &audited.guest),
                Section::new("host: ", &audited.host),
            ],
        }
    }

    /// Returns a line for each blind spot.
    pub(super) fn not_seen(&self) -> impl Iterator<Item = String> {
        let spots = self.blind_spots.iter();
        spots.map(|spot| format!("findings may explain more: {spot}"))
    }
}

fn blind_spots(audited: &AuditedMachine) -> Vec<BlindSpot> {
    let coverages = audited.coverage.iter();
    coverages
        .flat_map(|it| it.blind_spots(Question::Anything))
        .collect()
}

impl<'a> Section<'a> {
    fn new(side: &str, audited: &'a AuditedMachine) -> Section<'a> {
        Section {
            head: format!("{side}{}", words::machine(&audited.of)),
            audit: &audited.audit,
            noise_ns: audited.noise_ns,
            is_recorded: !audited.of.is_here,
        }
    }
}

fn score(noise_ns: u64, explained_ns: u64) -> String {
    let percent = |ns: u64| ns as f64 * 100.0 / noise_ns.max(1) as f64;
    format!(
        "{:.1} % of {} of noise has a finding, {:.1} % has none",
        percent(explained_ns),
        human(noise_ns),
        percent(noise_ns.saturating_sub(explained_ns))
    )
}
