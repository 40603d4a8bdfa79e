//! Time cut into cells of one width, which doubles whenever there would be too many.

/// What a cell holds.
pub(crate) trait Cell: Default {
    /// Takes in the cell behind it, when both become one.
    fn merge(&mut self, later: Self);
}

/// Cells from a run's first instant on. What is earlier than that is in the first.
#[derive(Debug)]
pub(crate) struct Grid<C> {
    width_ns: u64,
    most: usize,
    cells: Vec<C>,
}

impl<C: Cell> Grid<C> {
    /// At most `most` cells (no less than 2), of `width_ns` (no less than 1) at first.
    pub(crate) fn new(width_ns: u64, most: usize) -> Grid<C> {
        Grid {
            width_ns: width_ns.max(1),
            most: most.max(2),
            cells: Vec::new(),
        }
    }

    /// Width of a cell, in nanoseconds.
    pub(crate) fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The cells, from the first instant on.
    pub(crate) fn into_cells(self) -> Vec<C> {
        self.cells
    }

    /// The cell that holds this instant, nanoseconds since the first.
    pub(crate) fn at(&mut self, at_ns: u64) -> &mut C {
        loop {
            let place = usize::try_from(at_ns / self.width_ns).unwrap_or(usize::MAX);
            if place < self.most {
                if place >= self.cells.len() {
                    self.cells.resize_with(place + 1, C::default);
                }
                return &mut self.cells[place];
            }
            self.double();
        }
    }

    /// From here on at most so many cells (no less than 2).
    pub(crate) fn limit(&mut self, most: usize) {
        self.most = most.max(2);
        self.thin_to(self.most);
    }

    /// Makes cells wider, until they are no narrower than `width_ns`.
    pub(crate) fn widen_to(&mut self, width_ns: u64) {
        while self.width_ns < width_ns {
            self.double();
        }
    }

    /// Makes cells wider, until there are no more than `most` (no less than 1).
    pub(crate) fn thin_to(&mut self, most: usize) {
        while self.cells.len() > most.max(1) {
            self.double();
        }
    }

    fn double(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let mut cells = std::mem::take(&mut self.cells).into_iter();
        while let Some(mut cell) = cells.next() {
            if let Some(later) = cells.next() {
                cell.merge(later);
            }
            self.cells.push(cell);
        }
    }
}

/// How many cells one more lane may have: `each`, as long as all lanes have no more than `all`. Where there
/// are twice as many lanes, those that are there get by with half.
pub(crate) fn room<C: Cell>(lanes: &mut [Grid<C>], each: usize, all: usize) -> usize {
    let count = lanes.len() + 1;
    let most = each.min(all / count.next_power_of_two());
    // Here the power of two has changed.
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
            for (place, count) in grid.cells.iter().enumerate() {
                let width_ns = grid.width_ns();
                let inside = times.iter().filter(|at_ns| *at_ns / width_ns == place as u64);
                prop_assert_eq!(inside.count() as u64, *count);
            }
            grid.thin_to(1);
            prop_assert_eq!(grid.into_cells(), vec![times.len() as u64]);
        }
    }
}
