//! Longest gaps, as trees with the culprits of guest and host. The parts of each tree add up to the
//! gap.

use vmnoise_console::units::{seconds, us};
use vmnoise_events::MeasuringCommand;
use vmnoise_explain::JoinTree;

use super::{JoinResult, called};
use crate::tree::{MOST, Words, draw};

/// Renders all trees, longest first.
pub fn render(joined: &JoinResult<'_>) -> String {
    let run = joined.run;
    // A microVM runs no kernel, so all activities in its gaps belong to the host.
    let words = Words {
        side: match joined.guest.workload {
            MeasuringCommand::Microvm => "",
            _ => ", guest",
        },
        since: "the gap's start",
    };
    let mut out = match run.trees.len() {
        0 => return String::new(),
        1 => "\nThe longest gap, in us\n".to_owned(),
        count => format!("\nThe {count} longest gaps, in us\n"),
    };
    for tree in &run.trees {
        out += &format!(
            "{:>12}  {} at {}{}\n",
            us(tree.of.dur_ns),
            called(tree.of.cpu, &run.pairs),
            seconds(tree.of.at_ns),
            flaws(tree),
        );
        draw(&tree.branches(MOST), words, "", &mut out);
    }
    out
}

/// Returns which data are missing for a tree: the host's recording, or activities of the guest.
fn flaws(tree: &JoinTree) -> String {
    let mut flaws = String::new();
    if !tree.witnessed {
        flaws += "; the host did not record it";
    }
    match tree.of.lost_activities() {
        0 => {}
        lost => flaws += &format!("; {lost} of the guest's activities lost"),
    }
    flaws
}
