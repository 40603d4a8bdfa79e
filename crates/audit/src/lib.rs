//! Audits the settings of a machine that cause noise. For each setting, the audit finds the
//! setting's state, the part of a recording that the setting explains, and the remedy.
//!
//! Each rule is a file in the folder `rules`. A rule contains the file to read, the good values and
//! their sources, the culprits that it explains, and the remedy. This crate never changes the
//! machine.
#![forbid(unsafe_code)]

mod cpus;
mod evidence;
mod finding;
mod joint;
mod look;
mod machine;
mod rule;
mod rules;
mod seen;
mod since_run;
mod tasks;
mod threads;
#[cfg(test)]
mod tree;

pub use evidence::{ExplainedNoise, NoiseEvidence};
pub use finding::{
    Audit, Change, Finding, FindingVerdict, ShellCommand, SinceRun, Write, explained_together,
};
pub use joint::{AuditedPair, VcpuPlace};
pub use machine::AuditMachine;
pub use rule::{AuditRule, MachineSide};
pub use rules::{RuleError, all, joint};
pub use seen::Bad;
