//! What is the same on every page: style, scripts and figures.

use crate::charts::Chart;
use crate::library;

/// Fills the base of a page.
pub(crate) struct Frame<'a> {
    pub(crate) title: String,
    pub(crate) tool_version: &'a str,
    pub(crate) style: &'static str,
    pub(crate) plotter: String,
    pub(crate) script: &'static str,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(title: String, tool_version: &'a str) -> Frame<'a> {
        Frame {
            title,
            tool_version,
            style: include_str!("../page/page.css"),
            plotter: library::script(),
            script: include_str!("../page/page.js"),
        }
    }
}

/// A chart in its place.
pub(crate) struct Figure {
    pub(crate) id: String,
    pub(crate) chart: Chart,
}

impl Figure {
    pub(crate) fn new(id: String, mut chart: Chart) -> Figure {
        for view in &mut chart.views {
            view.json = harmless(&view.json);
        }
        Figure { id, chart }
    }
}

/// Names come from other people's processes: none may end the script that holds it.
pub(crate) fn harmless(json: &str) -> String {
    json.replace('<', "\\u003c")
}
