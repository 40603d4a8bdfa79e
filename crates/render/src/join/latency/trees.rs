//! Wake-ups with the longest latencies, as trees by phase with the culprits of guest and host. The
//! parts of each tree add up to the latency.

use vmnoise_console::units::{seconds, us};
use vmnoise_explain::JoinTree;

use super::{JoinResult, called};
use crate::tree::{MOST, Words, draw};

const WORDS: Words = Words {
    side: ", guest",
    since: "the expiry",
};

/// Renders all trees, largest latency first.
pub fn render(joined: &JoinResult<'_>, trees: &[JoinTree]) -> String {
    let mut out = match trees.len() {
        0 => return String::new(),
        1 => "\nThe longest latency, in us\n".to_owned(),
        count => format!("\nThe {count} longest latencies, in us\n"),
    };
    for tree in trees {
        let flaw = match tree.witnessed {
            true => "",
            false => "; the host did not record it",
        };
        out += &format!(
            "{:>12}  {} at {}{flaw}\n",
            us(tree.of.dur_ns),
            called(tree.of.cpu, &joined.run.pairs),
            seconds(tree.of.at_ns),
        );
        draw(&tree.branches(MOST), WORDS, "", &mut out);
    }
    out
}
