//! Divides time into cells of equal width. The width doubles when there are too many cells.

/// Content of one cell of time.
pub(crate) trait Cell: Default {
    /// Adds the content of the next cell, when the grid combines two cells.
    fn merge(&mut self, later: Self);
}

/// Cells from the first non-empty cell to the last. Cell `n` begins at `n` times the width on the
/// clock, so cells can also be added at the front.
#[derive(Debug)]
pub(crate) struct Grid<C> {
    width_ns: u64,
    most: usize,
    /// Number `n` of the first cell.
    first: u64,
    cells: Vec<C>,
}

impl<C: Cell> Grid<C> {
    /// Returns an empty grid of at most `most` cells (at least 2). Cells are `width_ns` (at least
    /// 1) wide at first.
    pub(crate) fn new(width_ns: u64, most: usize) -> Grid<C> {
        Grid {
            width_ns: width_ns.max(1),
            most: most.max(2),
            first: 0,
            cells: Vec::new(),
        }
    }

    /// Returns the width of a cell in nanoseconds.
    pub(crate) fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Returns the number of the first cell, and all cells.
    pub(crate) fn into_cells(self) -> (u64, Vec<C>) {
        (self.first, self.cells)
    }

    /// Returns the cell that contains this instant. Adds cells, or widens them, if necessary.
    pub(crate) fn at(&mut self, mono_ns: u64) -> &mut C {
        loop {
            let number = mono_ns / self.width_ns;
            let (first, last) = match self.cells.len() as u64 {
                0 => (number, number),
                len => (number.min(self.first), number.max(self.first + (len - 1))),
            };
            if last - first < self.most as u64 {
                self.reach(first, last);
                return &mut self.cells[(number - first) as usize];
            }
            self.double();
        }
    }

    /// Limits the number of cells to `most` (at least 2). Widens the cells if necessary.
    pub(crate) fn limit(&mut self, most: usize) {
        self.most = most.max(2);
        self.thin_to(self.most);
    }

    /// Doubles the width of the cells until it is at least `width_ns`.
    pub(crate) fn widen_to(&mut self, width_ns: u64) {
        while self.width_ns < width_ns {
            self.double();
        }
    }

    /// Doubles the width of the cells until there are at most `most` (at least 1).
    pub(crate) fn thin_to(&mut self, most: usize) {
        while self.cells.len() > most.max(1) {
            self.double();
        }
    }

    /// Adds empty cells, so that there is a cell for each number from `first` to `last`.
    fn reach(&mut self, first: u64, last: u64) {
        if !self.cells.is_empty() && first < self.first {
            let earlier = std::iter::repeat_with(C::default);
            let count = (self.first - first) as usize;
            self.cells.splice(..0, earlier.take(count));
        }
        self.first = first;
        let len = (last - first) as usize + 1;
        if len > self.cells.len() {
            self.cells.resize_with(len, C::default);
        }
    }

    fn double(&mut self) {
        let numbers = self.first..;
        self.width_ns = self.width_ns.saturating_mul(2);
        self.first /= 2;
        let mut merged: Vec<C> = Vec::with_capacity(self.cells.len() / 2 + 1);
        for (number, cell) in numbers.zip(std::mem::take(&mut self.cells)) {
            match merged.last_mut() {
                Some(before) if number % 2 == 1 => before.merge(cell),
                _ => merged.push(cell),
            }
        }
        self.cells = merged;
    }
}

/// Returns the number of cells for one more grid: `each`, or fewer so that all grids together have
/// at most `all` cells. When the number of grids passes a power of two, limits the existing grids
/// to half as many cells.
pub(crate) fn room<C: Cell>(lanes: &mut [Grid<C>], each: usize, all: usize) -> usize {
    let count = lanes.len() + 1;
    let most = each.min(all / count.next_power_of_two());
    // The number of grids passes a power of two.
    if lanes.len().is_power_of_two() {
        lanes.iter_mut().for_each(|lane| lane.limit(most));
    }
    most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Cell for u64 {
        fn merge(&mut self, later: u64) {
            *self += later;
        }
    }

    proptest! {
        #[test]
        fn cells_stay_few_and_lose_nothing(times in prop::collection::vec(0u64.., 1..300), most in 2usize..40) {
            let mut grid = Grid::<u64>::new(1, most);
            for at_ns in &times {
                *grid.at(*at_ns) += 1;
            }
            prop_assert!(grid.cells.len() <= most);
            for (number, count) in (grid.first..).zip(&grid.cells) {
                let width_ns = grid.width_ns();
                let inside = times.iter().filter(|at_ns| *at_ns / width_ns == number);
                prop_assert_eq!(inside.count() as u64, *count);
            }
            grid.thin_to(1);
            prop_assert_eq!(grid.into_cells().1, vec![times.len() as u64]);
        }
    }
}
