//! The page that compares recordings: differences, effect sizes, and figures over time.

use askama::Template;
use vmnoise_judge::compare::{
    ComparedFigure as Of, ComparisonVerdict, FigureRow, LatencyContext, RecordingKind,
};

use crate::beside::{ComparePage, RecordingComparison, signed, value, words};
use crate::charts::{self, Chart};
use crate::figures::{duration, percent};
use crate::findings::Finding;
use crate::frame::{Figure, Frame};
use crate::tables::{self, Table};
use crate::two_groups;

#[derive(Template)]
#[template(path = "compare.html")]
struct Filled<'a> {
    frame: Frame<'a>,
    subtitle: String,
    headline: String,
    findings: Vec<Finding>,
    figures: Vec<Figure>,
    tables: Vec<Table>,
    limits: &'a [String],
}

impl ComparePage<'_> {
    /// Returns the page as text.
    ///
    /// # Errors
    /// If the template cannot be filled, which is a bug.
    pub fn render(&self) -> Result<String, askama::Error> {
        let files: Vec<&str> = self.runs.iter().map(|run| run.file).collect();
        let charts: Vec<Chart> = charts::compare(self);
        let figures = (0..).zip(charts).map(|(nth, chart)| Figure {
            id: format!("chart{nth}"),
            chart,
        });
        let filled = Filled {
            frame: Frame::new(format!("{} – vmnoise", files.join(", ")), self.tool_version),
            subtitle: format!(
                "{}: {}, {}",
                files.join(if self.groups.is_some() {
                    ", "
                } else {
                    " compared with "
                }),
                match self.kind {
                    RecordingKind::Gaps =>
                        format!("gaps of {} and more", duration(self.threshold_ns)),
                    RecordingKind::Wakeups | RecordingKind::Exits => words(self.kind).to_owned(),
                },
                match self.groups {
                    None => format!("in windows of {}", duration(self.window_ns)),
                    Some(_) => "run by run".into(),
                }
            ),
            headline: self.headline(),
            findings: self.findings(),
            figures: figures.collect(),
            tables: tables::compare(self),
            limits: &self.limits,
        };
        filled.render()
    }

    fn headline(&self) -> String {
        if let Some(groups) = &self.groups {
            return two_groups::headline(groups);
        }
        let differ = |pair: &&RecordingComparison<'_>| {
            pair.rows
                .iter()
                .any(|row| row.verdict == ComparisonVerdict::Different)
        };
        let different = self.pairs.iter().filter(differ).count();
        match (self.pairs.as_slice(), different) {
            ([], _) => format!("The figures of {}.", self.file(0)),
            ([pair], 0) => format!(
                "No difference between {} and {} is shown.",
                self.file(pair.second),
                self.file(0)
            ),
            ([pair], _) => {
                format!(
                    "{} differs from {}{}.",
                    self.file(pair.second),
                    self.file(0),
                    gist(pair.rows)
                )
            }
            (pairs, _) => format!(
                "{different} of {} differ from {}.",
                pairs.len(),
                self.file(0)
            ),
        }
    }

    /// Returns the differences as sentences, the largest effect first.
    fn findings(&self) -> Vec<Finding> {
        if let Some(groups) = &self.groups {
            return two_groups::findings(groups);
        }
        let rows = self
            .pairs
            .iter()
            .flat_map(|pair| pair.rows.iter().map(move |row| (pair, row)));
        let mut different: Vec<(&RecordingComparison<'_>, &FigureRow)> = rows
            .filter(|(_, row)| row.verdict == ComparisonVerdict::Different)
            .collect();
        let size = |row: &FigureRow| row.delta.unwrap_or(0.0).abs();
        different.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
        let findings = different.into_iter().map(|(pair, row)| Finding {
            figure: row
                .shift
                .map_or_else(|| "-".into(), |shift| signed(shift, row.figure.unit())),
            text: format!(
                "{} of {}: {}, while {} has {}; the effect is {}",
                row.figure.name(),
                self.file(pair.second),
                value(row.second, row.figure.unit()),
                self.file(0),
                value(row.first, row.figure.unit()),
                size_in_words(size(row)),
            ),
        });
        findings.collect()
    }
}

/// Returns the most important difference as the end of a sentence.
fn gist(rows: &[FigureRow]) -> String {
    let figures = |of: Of| {
        let row = rows.iter().find(|row| row.figure == of)?;
        row.first.zip(row.second)
    };
    if let Some((first, second)) = figures(Of::Noise) {
        let (first, second) = (percent(first), percent(second));
        return format!(": it loses {second} of its time, not {first}");
    }
    let latest = Of::Latency(LatencyContext::User, 10_000);
    if let Some((first, second)) = figures(latest.clone()) {
        let of = |ns| value(Some(ns), latest.unit());
        return format!(": it is at most {} late, not {}", of(second), of(first));
    }
    String::new()
}

/// Returns the usual name for this size of Cliff's delta.
const fn size_in_words(delta: f64) -> &'static str {
    match delta {
        0.474.. => "large",
        0.33.. => "medium",
        0.147.. => "small",
        _ => "negligible",
    }
}
