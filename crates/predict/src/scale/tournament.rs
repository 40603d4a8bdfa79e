//! Largest of several values that change one by one.

/// Tree in which each node has the larger value of its two children. The cost of a change grows
/// with the logarithm of the number of values.
#[derive(Debug)]
pub(super) struct Tournament {
    /// Nodes of the tree. The root is at index 1, and the values begin at index `first`.
    winners: Vec<u64>,
    first: usize,
}

impl Tournament {
    /// Returns a tree with this number of values, all 0.
    pub(super) fn new(count: usize) -> Tournament {
        let first = count.next_power_of_two();
        Tournament {
            winners: vec![0; 2 * first],
            first,
        }
    }

    /// Changes the value at this index.
    pub(super) fn set(&mut self, place: usize, value: u64) {
        let mut at = self.first + place;
        self.winners[at] = value;
        while at > 1 {
            let winner = self.winners[at].max(self.winners[at ^ 1]);
            at /= 2;
            if self.winners[at] == winner {
                break;
            }
            self.winners[at] = winner;
        }
    }

    /// Returns the largest value.
    pub(super) fn best(&self) -> u64 {
        self.winners[1]
    }

    /// Returns the index of the largest value; if several values are equal, the smallest index.
    pub(super) fn winner(&self) -> usize {
        let mut at = 1;
        while at < self.first {
            at *= 2;
            at += usize::from(self.winners[at] < self.winners[at + 1]);
        }
        at - self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_greatest_whatever_changes() {
        let mut random = fastrand::Rng::with_seed(1);
        for count in [1, 2, 3, 5, 8] {
            let mut tournament = Tournament::new(count);
            let mut values = vec![0; count];
            for _ in 0..200 {
                let place = random.usize(..count);
                values[place] = random.u64(..50);
                tournament.set(place, values[place]);
                assert_eq!(Some(&tournament.best()), values.iter().max());
                assert_eq!(values[tournament.winner()], tournament.best());
            }
        }
    }
}
