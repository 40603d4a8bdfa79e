//! Names of the parts of the budget of a command's threads, as the result shows them.

use vmnoise_events::{FamilyBooks, FamilyCulpritKind, FamilyTaken};

/// Returns the parts of a budget in order: name, time in nanoseconds, and whether others took this
/// time from the command.
pub(super) const fn parts(books: &FamilyBooks) -> [(&'static str, u64, bool); 10] {
    [
        ("ran", books.ran_ns, false),
        ("waited", books.waited_ns, true),
        ("throttled", books.throttled_ns, true),
        ("steal", books.steal_ns, true),
        ("irq", books.irq_ns, true),
        ("softirq", books.softirq_ns, true),
        ("nmi", books.nmi_ns, true),
        ("waited_own", books.waited_own_ns, false),
        ("asleep", books.asleep_ns, false),
        ("unseen", books.unseen_ns, false),
    ]
}

/// Returns the name of the part of the budget that contains a culprit's time.
pub(super) const fn part_of(kind: FamilyCulpritKind) -> &'static str {
    match kind {
        FamilyCulpritKind::Task => "waited",
        FamilyCulpritKind::Irq => "irq",
        FamilyCulpritKind::Softirq => "softirq",
    }
}

/// Returns the name of the part of the budget that contains a longest interval.
pub(super) const fn part_of_longest(taken: FamilyTaken) -> &'static str {
    match taken {
        FamilyTaken::Wait => "waited",
        FamilyTaken::Irq => "irq",
        FamilyTaken::Softirq => "softirq",
        FamilyTaken::Nmi => "nmi",
        FamilyTaken::Steal => "steal",
    }
}
