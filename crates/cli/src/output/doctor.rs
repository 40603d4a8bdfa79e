//! The rung table of `vmnoise doctor`.

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{HostFacts, Rung};

use super::json;
use crate::output::format::Format;

/// `vmnoise.doctor/1`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    host: &'a HostFacts,
    rungs: &'a [Rung],
}

/// Prints the machine and its rungs.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(host: &HostFacts, rungs: &[Rung], format: Format) -> Result<()> {
    if format == Format::Text {
        return super::write(text(host, rungs).as_bytes());
    }
    let document = Document {
        schema: "vmnoise.doctor/1",
        tool_version: env!("CARGO_PKG_VERSION"),
        kernel: &host.kernel,
        hypervisor: host.hypervisor.as_deref(),
        host,
        rungs,
    };
    let mut out = Vec::new();
    json::write(&mut out, &document)?;
    super::write(&out)
}

fn text(host: &HostFacts, rungs: &[Rung]) -> String {
    let mut text = format!(
        "{} on {}, kernel {}, KVM module {}\n\n",
        host.cpu_model,
        host.hypervisor.as_deref().unwrap_or("bare metal"),
        host.kernel,
        host.kvm_module.as_deref().unwrap_or("-"),
    );
    for rung in rungs {
        let mark = if rung.best { "ok " } else { "-- " };
        text += &format!("{mark} {:<28} {}\n", rung.probe, rung.rung);
        for (label, note) in [("limit", &rung.limit), ("to climb", &rung.remedy)] {
            if !note.is_empty() {
                text += &format!("     {label}: {note}\n");
            }
        }
    }
    text
}
