//! Settings of a machine that make noise: what each is, what it took of a recording, and how to change it.
//!
//! A fact is a file in `rules`: what it reads, what is good there and who says so, whom it explains, and what to
//! do. Nothing here changes anything.
#![forbid(unsafe_code)]

mod cpus;
mod evidence;
mod finding;
mod joint;
mod look;
mod machine;
mod recorded;
mod rule;
mod rules;
mod seen;
mod since_run;
mod tasks;
mod threads;
#[cfg(test)]
mod tree;

pub use evidence::{Evidence, Explained};
pub use finding::{Audit, Change, Command, Finding, SinceRun, Verdict, Write, explained_together};
pub use joint::{Pair, Placed};
pub use machine::Machine;
pub use recorded::{BOOT_ID, settings};
pub use rule::{Rule, Side};
pub use rules::{RuleError, all, joint};
pub use seen::Bad;
