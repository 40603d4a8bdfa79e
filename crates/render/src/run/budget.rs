//! Budget of a command's threads, in the words of the result.

use vmnoise_events::{FamilyBooks, FamilyCulpritKind, FamilyTaken};

/// Returns the parts of a budget in order, each with whether the time was taken from the command.
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

/// Returns the part of the budget to which a culprit's time belongs.
pub(super) const fn part_of(kind: FamilyCulpritKind) -> &'static str {
    match kind {
        FamilyCulpritKind::Task => "waited",
        FamilyCulpritKind::Irq => "irq",
        FamilyCulpritKind::Softirq => "softirq",
    }
}

/// Returns the part of the budget to which a longest interval belongs.
pub(super) const fn part_of_longest(taken: FamilyTaken) -> &'static str {
    match taken {
        FamilyTaken::Wait => "waited",
        FamilyTaken::Irq => "irq",
        FamilyTaken::Softirq => "softirq",
        FamilyTaken::Nmi => "nmi",
        FamilyTaken::Steal => "steal",
    }
}
