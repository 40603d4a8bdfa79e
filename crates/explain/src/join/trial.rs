//! One test of a clock that lays the exits of a vCPU over the gaps of a guest.

/// Begin and end, readings of the guest's counter.
pub(super) type Span = (u64, u64);

/// A gap, or a stretch between two gaps, that holds exits: the one of them that says most. It agrees
/// if all of them lie in the gap, and the guest ran in none of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) exit: Span,
    pub(super) chance: f32,
    pub(super) agrees: bool,
}

impl Trial {
    /// What fails says more than what agrees, and what chance would rather bring less.
    pub(super) fn merge(&mut self, exit: Span, chance: f32, agrees: bool) {
        if (agrees, chance) < (self.agrees, self.chance) {
            (self.exit, self.chance, self.agrees) = (exit, chance, agrees);
        }
    }
}
