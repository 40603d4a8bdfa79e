//! JSON document `vmnoise.pairing/1`: the reason why the recordings of a guest and a host cannot be
//! joined, with the evidence.

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Pairing, PairingFailure};

use crate::json;

/// Document of a refused join. The head describes the guest's run.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: json::Head<'a>,
    host: Host<'a>,
    why: String,
    #[serde(flatten)]
    pairing: &'a Pairing,
}

#[derive(Debug, Serialize)]
struct Host<'a> {
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
}

/// Prints the document.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(guest: &RunFacts, host: &RunFacts, unpaired: &PairingFailure) -> Result<()> {
    let mut out = Vec::new();
    let document = Document {
        head: json::Head::new("vmnoise.pairing/1", guest),
        host: Host {
            tool_version: &host.tool_version,
            kernel: &host.host.kernel,
            hypervisor: host.host.hypervisor.as_deref(),
            started_at: &host.started_at,
        },
        why: unpaired.to_string(),
        pairing: &unpaired.pairing,
    };
    json::write(&mut out, &document)?;
    crate::write(&out)
}
