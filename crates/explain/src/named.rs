//! Parts of a budget, and those who took them, with their names.

use serde::Serialize;
use vmnoise_events::{Name, Share};

use crate::phase::Phase;

/// A [`crate::Part`] with its source's name. As it is serialized, it has no phase and no CPU of a
/// host: the documents that have these say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedPart {
    /// As [`crate::Part::phase`].
    #[serde(skip)]
    pub phase: Option<Phase>,
    /// Under which share.
    pub share: Share,
    /// Who; `None` where nobody is named (steal, residual).
    pub source: Option<Name>,
    /// As [`crate::Part::host_cpu`].
    #[serde(skip)]
    pub host_cpu: Option<u32>,
    /// Net time in nanoseconds.
    pub ns: u64,
    /// How many activities it adds up; 0 for steal and the residual.
    pub count: u32,
}

/// What one source took of all gaps of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSummary {
    /// Under which share.
    pub share: Share,
    /// Who.
    pub name: Name,
    /// How often.
    pub count: u64,
    /// Net time in nanoseconds.
    pub total_ns: u64,
    /// The most it took at once, net, in nanoseconds.
    pub max_ns: u64,
}
