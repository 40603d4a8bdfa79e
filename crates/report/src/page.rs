//! The page about recordings, and the data for its template.

use askama::Template;
use vmnoise_explain::Most;

use crate::charts::{self, Spikes};
use crate::figures::{duration, part_of, percent, seconds, times};
use crate::findings::{Finding, findings};
use crate::frame::{Figure, Frame};
use crate::headline::Headline;
use crate::limits;
use crate::run::ReportedRun;
use crate::shares::label;
use crate::tables::{Table, tables};
use crate::trees::trees;

/// Number of the longest gaps, wake-ups or exits that the page describes in words.
const TOLD: usize = 9;
/// Number of parts that the page lists for each of the longest gaps, wake-ups or exits. One more
/// line has the sum of all other parts.
const PARTS: usize = 6;
/// Limits on the number of lines of a gap, wake-up or exit that is shown as a tree.
const FEW: Most = Most {
    exits: 4,
    parts: 4,
    evenly: false,
};

/// A file that is not on the page.
#[derive(Debug)]
pub struct RefusedFile {
    /// Path of the file.
    pub file: String,
    /// Reason why the file is not on the page, in one line.
    pub why: String,
}

/// Contents of a page about recordings.
#[derive(Debug)]
pub struct Page {
    /// The recordings. Each becomes a section of the page.
    pub runs: Vec<ReportedRun>,
    /// Files that cannot be shown.
    pub refused: Vec<RefusedFile>,
    /// Version of the vmnoise that writes the page.
    pub tool_version: String,
}

impl Page {
    /// Returns the page as text.
    ///
    /// # Errors
    /// If the template cannot be filled, which is a bug.
    pub fn render(&self) -> Result<String, askama::Error> {
        let sections = self
            .runs
            .iter()
            .enumerate()
            .map(|(place, run)| Section::new(place, run));
        let filled = Filled {
            frame: Frame::new(self.title(), &self.tool_version),
            refused: &self.refused,
            beside: charts::beside(&self.runs).map(|chart| Figure {
                id: "beside".into(),
                chart,
            }),
            sections: sections.collect(),
        };
        filled.render()
    }

    fn title(&self) -> String {
        let files: Vec<&str> = self.runs.iter().map(|run| &*run.file).collect();
        format!("{} – vmnoise", files.join(", "))
    }
}

#[derive(Template)]
#[template(path = "page.html")]
struct Filled<'a> {
    frame: Frame<'a>,
    refused: &'a [RefusedFile],
    beside: Option<Figure>,
    sections: Vec<Section<'a>>,
}

struct Section<'a> {
    id: String,
    run: &'a ReportedRun,
    headline: Headline,
    findings: Vec<Finding>,
    spikes: Option<Spikes>,
    figures: Vec<Figure>,
    longest: Vec<Reported>,
    tables: Vec<Table>,
    facts: Vec<(&'static str, String)>,
}

impl<'a> Section<'a> {
    fn new(place: usize, run: &'a ReportedRun) -> Section<'a> {
        let id = format!("run{place}");
        let figures = charts::charts(run).into_iter().enumerate();
        let figures = figures.map(|(nth, chart)| Figure {
            id: format!("{id}-chart{nth}"),
            chart,
        });
        Section {
            run,
            headline: Headline::of(run),
            findings: findings(run),
            spikes: charts::spikes(run),
            figures: figures.collect(),
            longest: reported(run),
            tables: tables(run),
            facts: limits::facts(run),
            id,
        }
    }

    fn probe_statuses(&self) -> &'a [vmnoise_events::ProbeStatus] {
        &self.run.facts.probe_statuses
    }
}

/// One of the longest gaps, wake-ups or exits, as text.
struct Reported {
    heading: String,
    /// Caveat about the data; may be empty.
    flaw: String,
    lines: Vec<Said>,
}

/// Line about one part of a gap, wake-up or exit.
struct Said {
    depth: u8,
    time: String,
    of_all: String,
    what: String,
}

fn reported(run: &ReportedRun) -> Vec<Reported> {
    let mut spikes: Vec<_> = run.gathered.spikes.iter().collect();
    spikes.sort_by_key(|spike| (std::cmp::Reverse(spike.dur_ns), spike.start_mono_ns));
    spikes.truncate(TOLD);
    let trees = trees(run, FEW);
    let reported = spikes.into_iter().map(|spike| {
        let said = |depth: u8, ns: u64, what: String| Said {
            depth,
            time: duration(ns),
            of_all: percent(part_of(ns, spike.dur_ns)),
            what,
        };
        let line = |ns: u64, what: String| said(0, ns, what);
        let shown = spike.parts.iter().take(PARTS).map(|part| {
            let who = run.gathered.name(part).unwrap_or("");
            line(part.ns, format!("{} {who}", label(part.share)))
        });
        let mut parts: Vec<_> = shown.collect();
        let rest = spike.parts.get(PARTS..).unwrap_or_default();
        if !rest.is_empty() {
            let ns = rest.iter().map(|part| part.ns).sum();
            let words = times(rest.len() as u64, "smaller part", "smaller parts");
            parts.push(line(ns, words));
        }
        let mut flaw = String::new();
        let place = (run.gathered.lanes[spike.lane], spike.start_mono_ns);
        if let Some(tree) = trees.get(&place) {
            flaw.clone_from(&tree.flaw);
            let tree = tree.lines.iter();
            let tree = tree.map(|line| said(line.depth, line.ns, line.words.clone()));
            parts = tree.collect();
        }
        Reported {
            heading: format!(
                "{} on {} at {}",
                duration(spike.dur_ns),
                run.lane_name(spike.lane),
                seconds(run.at_ns(spike.start_mono_ns))
            ),
            flaw,
            lines: parts,
        }
    });
    reported.collect()
}
