//! The longest gaps as trees that name both sides and add up.

use vmnoise_events::Workload;
use vmnoise_explain::GapTree;

use super::branches::{Cause, draw};
use super::{Joined, called};
use crate::units::{seconds, us};

/// All of them, longest first.
pub fn render(joined: &Joined<'_>) -> String {
    let run = joined.run;
    // A microVM has no kernel: what was witnessed beside its gaps is its host's.
    let side = match joined.guest.workload {
        Workload::Microvm => "",
        _ => ", guest",
    };
    let mut out = match run.trees.len() {
        0 => return String::new(),
        1 => "\nThe longest gap, in us\n".to_owned(),
        count => format!("\nThe {count} longest gaps, in us\n"),
    };
    for tree in &run.trees {
        out += &format!(
            "{:>12}  {} at {}{}\n",
            us(tree.gap.dur_ns),
            called(tree.gap.cpu, &run.pairs),
            seconds(tree.gap.at_ns),
            flaws(tree),
        );
        let cause = Cause {
            guest: &tree.guest,
            side,
            exits: &tree.exits,
            since: "the gap's begin",
            steal_ns: tree.steal_ns,
            residual_ns: tree.residual_ns,
            residual: tree.residual,
        };
        draw(&cause.branches(), "", &mut out);
    }
    out
}

/// What must be known before a tree is believed.
fn flaws(tree: &GapTree) -> String {
    let mut flaws = String::new();
    if !tree.witnessed {
        flaws += "; the host did not witness it";
    }
    match tree.gap.lost_activities {
        None | Some(0) => {}
        Some(lost) => flaws += &format!("; {lost} of the guest's activities lost"),
    }
    flaws
}
