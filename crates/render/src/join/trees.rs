//! Longest gaps as trees with the culprits of both sides; the parts add up.

use vmnoise_console::units::{seconds, us};
use vmnoise_events::MeasuringCommand;
use vmnoise_explain::JoinTree;

use super::{JoinResult, called};
use crate::tree::{MOST, Words, draw};

/// Renders all trees, longest first.
pub fn render(joined: &JoinResult<'_>) -> String {
    let run = joined.run;
    // A microVM has no kernel: all activities around its gaps are the host's.
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

/// Returns the defects of the data behind a tree.
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
