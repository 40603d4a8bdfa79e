//! An audit, for people, as `vmnoise.audit/1`, and as scripts.

mod document;
mod script;
mod text;

use anyhow::Result;
use vmnoise_audit::Audit;
use vmnoise_events::HostFacts;

use super::format::Format;

pub use script::scripts;

/// A machine, audited.
pub struct Audited {
    /// Which machine.
    pub facts: HostFacts,
    /// The CPUs in question.
    pub cpus: Vec<u32>,
    /// The noise of the recording, nanoseconds; `None` without one.
    pub noise_ns: Option<u64>,
    /// Records that the run of the recording lost.
    pub lost_events: u64,
    /// What was found.
    pub audit: Audit,
}

/// Prints it.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(format: Format, audited: &Audited) -> Result<()> {
    match format {
        Format::Text => super::write(text::render(audited).as_bytes()),
        Format::Json => {
            let mut out = Vec::new();
            super::json::write(&mut out, &document::Document::new(audited))?;
            super::write(&out)
        }
    }
}
