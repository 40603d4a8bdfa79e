//! The latest wake-ups as trees that name both sides, phase by phase, and add up.

use vmnoise_explain::{LatencyTree, PhaseBranch};

use super::super::branches::{Branch, Cause, draw};
use super::{Joined, called};
use crate::output::timerlat::budget;
use crate::units::{seconds, us};

/// All of them, the latest first.
pub fn render(joined: &Joined<'_>, trees: &[LatencyTree]) -> String {
    let mut out = match trees.len() {
        0 => return String::new(),
        1 => "\nThe longest latency, in us\n".to_owned(),
        count => format!("\nThe {count} longest latencies, in us\n"),
    };
    for tree in trees {
        let flaw = match tree.witnessed {
            true => "",
            false => "; the host did not witness it",
        };
        out += &format!(
            "{:>12}  {} at {}{flaw}\n",
            us(tree.wakeup.latency_ns),
            called(tree.wakeup.cpu, &joined.run.pairs),
            seconds(tree.wakeup.at_ns),
        );
        let phases: Vec<Branch> = tree.phases.iter().map(|it| phase(it, tree)).collect();
        draw(&phases, "", &mut out);
    }
    out
}

fn phase(phase: &PhaseBranch, tree: &LatencyTree) -> Branch {
    let cause = Cause {
        guest: &phase.guest,
        side: ", guest",
        exits: &phase.exits,
        since: "the expiry",
        steal_ns: phase.steal_ns,
        residual_ns: phase.residual_ns,
        residual: tree.residual,
    };
    Branch {
        ns: phase.dur_ns,
        words: match phase.phase {
            Some(_) => budget::phase(phase.phase).to_owned(),
            None => "phases not told apart".to_owned(),
        },
        parts: cause.branches(),
    }
}
