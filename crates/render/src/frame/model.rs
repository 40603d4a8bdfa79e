//! State of the frame, independent of the terminal: its data, and the choices that the user made by
//! keys.

use std::collections::{BTreeMap, VecDeque};

use vmnoise_events::human;

use super::list::List;
use super::snapshot::{FrameGap, FrameRow, FrameWords, Snapshot};

/// Number of points kept for a curve: more than the width of any terminal.
const POINTS: usize = 1024;

/// List that receives the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    #[default]
    Rows,
    Gaps,
}

/// Budget that fills the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenBudget {
    /// Gap of the budget; new snapshots do not change it.
    pub gap: FrameGap,
    /// Number of parts above the visible ones.
    pub above: usize,
}

/// State of the whole frame.
#[derive(Debug, Clone, Default)]
pub struct Model {
    latest: Snapshot,
    /// Snapshot that is shown while the display is frozen.
    frozen: Option<Snapshot>,
    /// Curves by the keys of their rows.
    pub curves: BTreeMap<u64, VecDeque<f64>>,
    /// List that receives the keys.
    pub pane: Pane,
    /// State of the upper list.
    pub rows: List,
    /// State of the lower list.
    pub gaps: List,
    /// Number of columns of each list.
    columns: [usize; 2],
    /// Whether letters go to the filter of the active list.
    pub typing: bool,
    /// Whether the screen shows the help about keys.
    pub help: bool,
    /// Budget that fills the screen.
    pub opened: Option<OpenBudget>,
    /// Whether the user wants to end the run.
    pub quits: bool,
    /// Latest notice.
    pub notice: Option<String>,
}

impl Model {
    /// Creates the model for the time before the first period ends.
    pub fn of(words: &FrameWords, period_ns: u64) -> Model {
        let headline = format!("measuring: new numbers every {}", human(period_ns));
        Model {
            latest: Snapshot {
                headline,
                ..Snapshot::default()
            },
            columns: [words.row_columns.len(), words.gap_columns.len()],
            ..Model::default()
        }
    }

    /// Adds the snapshot of a period.
    pub fn take(&mut self, snapshot: Snapshot) {
        for (key, level) in &snapshot.levels {
            let curve = self.curves.entry(*key).or_default();
            if curve.len() == POINTS {
                curve.pop_front();
            }
            curve.push_back(*level);
        }
        self.latest = snapshot;
    }

    /// Returns the snapshot that is shown.
    pub fn shown(&self) -> &Snapshot {
        self.frozen.as_ref().unwrap_or(&self.latest)
    }

    /// Returns whether the display is frozen.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Freezes the display, or continues with the latest snapshot.
    pub fn freeze_or_go_on(&mut self) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(self.latest.clone()),
        };
    }

    /// Returns the list that receives the keys.
    pub fn list(&mut self) -> &mut List {
        match self.pane {
            Pane::Rows => &mut self.rows,
            Pane::Gaps => &mut self.gaps,
        }
    }

    /// Sorts the list that receives the keys by its next column.
    pub fn sort(&mut self) {
        let columns = self.columns[self.pane as usize];
        self.list().sort_by_next(columns);
    }

    /// Returns the chosen gap.
    pub fn chosen_gap(&self) -> Option<&FrameGap> {
        let gaps = &self.shown().gaps;
        Some(&gaps[self.gaps.index(&lines(gaps))?])
    }

    /// Returns the chosen row.
    pub fn chosen_row(&self) -> Option<&FrameRow> {
        let rows = &self.shown().rows;
        Some(&rows[self.rows.index(&Vec::from_iter(rows))?])
    }

    /// Scrolls the open budget. If no budget is open, moves in the list that receives the keys.
    pub fn go(&mut self, by: isize) {
        if let Some(OpenBudget { gap, above }) = &mut self.opened {
            let last = gap.parts.len().saturating_sub(1);
            *above = above.saturating_add_signed(by).min(last);
            return;
        }
        let shown = self.frozen.as_ref().unwrap_or(&self.latest);
        match self.pane {
            Pane::Rows => self.rows.go(by, &Vec::from_iter(&shown.rows)),
            Pane::Gaps => self.gaps.go(by, &lines(&shown.gaps)),
        }
    }
}

/// Returns the lines of these gaps.
pub fn lines(gaps: &[FrameGap]) -> Vec<&FrameRow> {
    gaps.iter().map(|gap| &gap.row).collect()
}
