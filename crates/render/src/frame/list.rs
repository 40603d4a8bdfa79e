//! State of a list in the frame: the lines that it shows, their order, and the chosen line.

use super::snapshot::FrameRow;

/// State of a list, without its lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// Column for sorting; `None` keeps the given order.
    pub sorted_by: Option<usize>,
    /// Text that a line must contain. Upper and lower case are equal.
    pub filter: String,
    /// Key of the chosen line; `None` is the first line.
    pub chosen: Option<u64>,
}

impl List {
    /// Returns the indices of the lines to show.
    pub fn shown(&self, rows: &[&FrameRow]) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let matches = |row: &FrameRow| {
            let cells = row.cells.iter().map(|cell| &cell.text);
            let mut texts = cells.chain(&row.found_by);
            wanted.is_empty() || texts.any(|text| text.to_lowercase().contains(&wanted))
        };
        let mut shown: Vec<usize> = (0..rows.len()).filter(|i| matches(rows[*i])).collect();
        if let Some(column) = self.sorted_by {
            shown.sort_by(|a, b| {
                let [a, b] = [a, b].map(|index| &rows[*index].cells[column]);
                let greatest_first = |a: Option<f64>, b: Option<f64>| {
                    let [a, b] = [a, b].map(|value| value.unwrap_or(f64::NEG_INFINITY));
                    b.total_cmp(&a)
                };
                greatest_first(a.value, b.value).then_with(|| a.text.cmp(&b.text))
            });
        }
        shown
    }

    /// Returns the position of the chosen line among the lines that are shown.
    pub fn place(&self, rows: &[&FrameRow]) -> Option<usize> {
        let shown = self.shown(rows);
        let chosen = shown.iter().position(|i| Some(rows[*i].key) == self.chosen);
        chosen.or_else(|| (!shown.is_empty()).then_some(0))
    }

    /// Returns the index of the chosen line.
    pub fn index(&self, rows: &[&FrameRow]) -> Option<usize> {
        Some(self.shown(rows)[self.place(rows)?])
    }

    /// Moves the choice down by `by` lines, or up if negative, at most to the last or first line.
    pub fn go(&mut self, by: isize, rows: &[&FrameRow]) {
        let shown = self.shown(rows);
        let Some(place) = self.place(rows) else {
            return;
        };
        let place = place.saturating_add_signed(by).min(shown.len() - 1);
        self.chosen = Some(rows[shown[place]].key);
    }

    /// Sorts by the next column; after the last column, restores the given order.
    pub fn sort_by_next(&mut self, columns: usize) {
        let next = self.sorted_by.map_or(0, |column| column + 1);
        self.sorted_by = Some(next).filter(|next| *next < columns);
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::column::Columns;

    use super::*;
    use crate::frame::snapshot::cells;

    fn row(key: u64, name: &str, value: Option<u64>) -> FrameRow {
        let columns = Columns::<(&str, Option<u64>)>::default()
            .name("name", |(name, _)| Some(name))
            .count("value", |(_, value)| *value);
        let cells = cells(&columns, &(name, value));
        let found_by = vec![format!("{name}-more")];
        FrameRow {
            key,
            cells,
            found_by,
        }
    }

    #[test]
    fn words_sort_from_a_and_numbers_from_the_greatest_with_unknown_ones_last() {
        let rows = [
            row(1, "c", Some(9)),
            row(2, "a", None),
            row(3, "b", Some(10)),
        ];
        let rows: Vec<&FrameRow> = rows.iter().collect();
        let mut list = List::default();
        assert_eq!(list.shown(&rows), [0, 1, 2]);
        list.sort_by_next(2);
        assert_eq!(list.shown(&rows), [1, 2, 0]);
        list.sort_by_next(2);
        assert_eq!(list.shown(&rows), [2, 0, 1]);
        list.sort_by_next(2);
        assert_eq!(list.sorted_by, None);
    }

    #[test]
    fn the_chosen_line_stays_chosen_when_others_come_and_go() {
        let rows = [row(1, "x", None), row(2, "y", None), row(3, "xy", None)];
        let rows: Vec<&FrameRow> = rows.iter().collect();
        let mut list = List::default();
        assert_eq!(list.index(&rows), Some(0));
        list.go(2, &rows);
        assert_eq!(list.index(&rows), Some(2));
        list.go(7, &rows);
        assert_eq!(list.index(&rows), Some(2));
        assert_eq!(list.index(&rows[1..]), Some(1));
        list.filter = "Y".into();
        assert_eq!(list.shown(&rows), [1, 2]);
        list.go(-9, &rows);
        assert_eq!(list.index(&rows), Some(1));
        list.filter = "xy-more".into();
        assert_eq!(list.shown(&rows), [2], "by what it does not show");
        list.filter = "nothing".into();
        assert_eq!(list.index(&rows), None);
        list.go(1, &rows);
    }
}
