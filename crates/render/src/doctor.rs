//! Output of `vmnoise doctor`: the machine, and the status of each probe.

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{HostFacts, ProbeStatus};

use super::json;
use crate::format::Format;

/// JSON document `vmnoise.doctor/1`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    host: &'a HostFacts,
    #[serde(rename = "rungs")]
    probe_statuses: &'a [ProbeStatus],
}

/// Prints the machine and the status of its probes.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(host: &HostFacts, probe_statuses: &[ProbeStatus], format: Format) -> Result<()> {
    if format == Format::Text {
        return super::write(text(host, probe_statuses).as_bytes());
    }
    let document = Document {
        schema: "vmnoise.doctor/1",
        tool_version: env!("CARGO_PKG_VERSION"),
        kernel: &host.kernel,
        hypervisor: host.hypervisor.as_deref(),
        host,
        probe_statuses,
    };
    let mut out = Vec::new();
    json::write(&mut out, &document)?;
    super::write(&out)
}

fn text(host: &HostFacts, probe_statuses: &[ProbeStatus]) -> String {
    let mut text = format!(
        "{} on {}, kernel {}, KVM module {}\n\n",
        host.cpu_model,
        host.hypervisor.as_deref().unwrap_or("bare metal"),
        host.kernel,
        host.kvm_module.as_deref().unwrap_or("-"),
    );
    for probe_status in probe_statuses {
        let mark = if probe_status.best { "ok " } else { "-- " };
        text += &format!(
            "{mark} {:<28} {}\n",
            probe_status.probe, probe_status.in_use
        );
        for (label, note) in [
            ("limit", &probe_status.limit),
            ("to improve", &probe_status.remedy),
        ] {
            if !note.is_empty() {
                text += &format!("     {label}: {note}\n");
            }
        }
    }
    text
}
