//! The law of exits. The parts of an exit add up to its length and to its split. The pieces of each
//! of the longest exits leave no hole.

use vmnoise_explain::{ExitBudget, ExitsRun};

/// Asserts that a result obeys the law, which holds for any stream.
pub fn obeys_the_law(budgets: &[ExitBudget], run: &ExitsRun) {
    for budget in budgets {
        let of = |share| -> u128 {
            let parts = budget.parts.iter().filter(|part| part.share == share);
            parts.map(|part| u128::from(part.ns)).sum()
        };
        for (share, ns) in budget.exit.split.iter() {
            assert_eq!(of(share), u128::from(ns), "{} of {:?}", share, budget);
        }
        let all: u128 = budget.parts.iter().map(|part| u128::from(part.ns)).sum();
        assert_eq!(all, u128::from(budget.exit.dur_ns()));
        assert!(budget.parts.is_sorted_by(|a, b| a.ns >= b.ns));
        assert!(budget.parts.iter().all(|part| part.ns > 0));
    }
    assert_eq!(run.reported, budgets.len() as u64);
    for longest in &run.longest {
        let exit = &longest.exit.exit;
        let mut at_ns = exit.start_mono_ns;
        for piece in &longest.pieces {
            assert_eq!(piece.start_mono_ns, at_ns, "a hole");
            assert!(piece.end_mono_ns > at_ns);
            at_ns = piece.end_mono_ns;
        }
        assert_eq!(at_ns, exit.end_mono_ns);
    }
}
