//! One test of a clock, which maps the exits of a vCPU to the gaps of a guest.

/// Start and end, as readings of the guest's counter.
pub(super) type Span = (u64, u64);

/// Test of a clock: a gap, or the time between two gaps, that contains exits. `exit` is the exit
/// with the most evidence. The test agrees if all its exits lie in the gap and the guest ran in
/// none of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) exit: Span,
    pub(super) chance: f32,
    pub(super) agrees: bool,
}

impl Trial {
    /// Merges another exit into this test, and keeps the exit with more evidence. A failure has
    /// more evidence than an agreement. Of two equal outcomes, the exit with the smaller
    /// probability of chance is kept.
    pub(super) fn merge(&mut self, exit: Span, chance: f32, agrees: bool) {
        if (agrees, chance) < (self.agrees, self.chance) {
            (self.exit, self.chance, self.agrees) = (exit, chance, agrees);
        }
    }
}
