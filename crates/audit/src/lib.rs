//! Settings of a machine that make noise: what each is, what it took of a recording, and how to change it.
//!
//! A fact is a file in `rules`: what it reads, what is good there and who says so, whom it explains, and what to
//! do. Nothing here changes anything.
#![forbid(unsafe_code)]

mod evidence;
mod finding;
mod look;
mod machine;
mod rule;
mod rules;
mod seen;
mod tasks;
mod threads;
#[cfg(test)]
mod tree;

pub use evidence::{Evidence, Explained};
pub use finding::{Audit, Change, Command, Finding, Verdict, Write};
pub use machine::Machine;
pub use rule::Rule;
pub use rules::{RuleError, all};
pub use seen::Bad;
