//! The page about many hosts: which hosts lose the most time, who takes this time, and which ranks
//! delay other ranks.

#[cfg(test)]
mod tests;
mod words;

use askama::Template;

use crate::charts;
use crate::findings::Finding;
use crate::fleet::{Fleet, FleetRun};
use crate::frame::{Figure, Frame};
use crate::page::RefusedFile;
use crate::tables::{self, Table};

/// Contents of the page about many hosts.
#[derive(Debug)]
pub struct FleetPage {
    /// Name of the data set.
    pub name: String,
    /// Runs that measured gaps.
    pub runs: Vec<FleetRun>,
    /// Number of runs of wake-ups or exits, which have no gaps.
    pub gapless_runs: usize,
    /// Files that could not be read.
    pub refused: Vec<RefusedFile>,
    /// Version of the vmnoise that writes the page.
    pub tool_version: String,
}

#[derive(Template)]
#[template(path = "fleet.html")]
struct Filled<'a> {
    frame: Frame<'a>,
    refused: &'a [RefusedFile],
    subtitle: String,
    headline: String,
    findings: Vec<Finding>,
    figures: Vec<Figure>,
    tables: Vec<Table>,
    limits: Vec<String>,
}

impl FleetPage {
    /// Returns the page as text.
    ///
    /// # Errors
    /// If the template cannot be filled, which is a bug.
    pub fn render(&self) -> Result<String, askama::Error> {
        let fleet = Fleet::new(&self.runs);
        let charts = (0..).zip(charts::fleet(&fleet));
        let figures = charts.map(|(nth, chart)| Figure {
            id: format!("chart{nth}"),
            chart,
        });
        let filled = Filled {
            frame: Frame::new(format!("{} – vmnoise", self.name), &self.tool_version),
            refused: &self.refused,
            subtitle: words::subtitle(self, &fleet),
            headline: words::headline(&fleet),
            findings: words::findings(&fleet),
            figures: figures.collect(),
            tables: tables::fleet(&fleet),
            limits: words::limits(self, &fleet),
        };
        filled.render()
    }
}
