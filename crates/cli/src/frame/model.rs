//! What the frame shows and what was done to it by keys: pure, whatever terminal there is.

use std::collections::{BTreeMap, VecDeque};

use super::list::List;
use super::snapshot::{Gap, Row, Snapshot, Words};
use crate::units::human;

/// Points of a curve that are kept: more than any terminal is wide.
const POINTS: usize = 1024;

/// Who has the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    #[default]
    Rows,
    Gaps,
}

/// A budget that fills the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// Whose it is; it stays, whatever comes.
    pub gap: Gap,
    /// Parts above the screen.
    pub above: usize,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Model {
    latest: Snapshot,
    /// What is shown while time stands still.
    frozen: Option<Snapshot>,
    /// One curve for each row, by its key.
    pub curves: BTreeMap<u64, VecDeque<f64>>,
    /// Who has the keys.
    pub pane: Pane,
    /// The upper list.
    pub rows: List,
    /// The lower list.
    pub gaps: List,
    /// How many columns the two have.
    columns: [usize; 2],
    /// Whether letters go to the filter of the list that has the keys.
    pub typing: bool,
    /// Whether the keys are explained.
    pub help: bool,
    /// The budget that fills the screen.
    pub opened: Option<Opened>,
    /// Whether the run is to end.
    pub quits: bool,
    /// What went wrong last.
    pub notice: Option<String>,
}

impl Model {
    /// Nothing to see before the first period is over.
    pub fn of(words: &Words, period_ns: u64) -> Model {
        let headline = format!("measuring: numbers come each {}", human(period_ns));
        Model {
            latest: Snapshot {
                headline,
                ..Snapshot::default()
            },
            columns: [words.row_columns.len(), words.gap_columns.len()],
            ..Model::default()
        }
    }

    /// A period is over.
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

    /// What is shown.
    pub fn shown(&self) -> &Snapshot {
        self.frozen.as_ref().unwrap_or(&self.latest)
    }

    /// Whether time stands still.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Stops what is shown, or lets it go on with the latest.
    pub fn freeze_or_go_on(&mut self) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(self.latest.clone()),
        };
    }

    /// The list that has the keys.
    pub fn list(&mut self) -> &mut List {
        match self.pane {
            Pane::Rows => &mut self.rows,
            Pane::Gaps => &mut self.gaps,
        }
    }

    /// Sorts that list by its next column.
    pub fn sort(&mut self) {
        let columns = self.columns[self.pane as usize];
        self.list().sort_by_next(columns);
    }

    /// The gap that is chosen.
    pub fn chosen_gap(&self) -> Option<&Gap> {
        let gaps = &self.shown().gaps;
        Some(&gaps[self.gaps.index(&lines(gaps))?])
    }

    /// The row that is chosen.
    pub fn chosen_row(&self) -> Option<&Row> {
        let rows = &self.shown().rows;
        Some(&rows[self.rows.index(&Vec::from_iter(rows))?])
    }

    /// Moves in the budget that is open, or else in the list that has the keys.
    pub fn go(&mut self, by: isize) {
        if let Some(Opened { gap, above }) = &mut self.opened {
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

/// The lines of gaps in their list.
pub fn lines(gaps: &[Gap]) -> Vec<&Row> {
    gaps.iter().map(|gap| &gap.row).collect()
}
