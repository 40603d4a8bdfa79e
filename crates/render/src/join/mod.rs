//! Result of a join of a guest's run with its host's run, for people and programs.

pub mod caveats;
mod culprits;
mod document;
mod latency;
mod pairs;
pub mod refusal;
#[cfg(test)]
mod tests;
mod thesis;
mod trees;

use anyhow::Result;
use vmnoise_events::{RunFacts, human};
use vmnoise_explain::{JoinedRun, VcpuPair};

use self::document::JoinDocument;
use super::osnoise_table::OsnoiseTable;
use super::{cells, json, rtla, text};
use crate::format::Format;

/// Facts of both recordings, and the result of the join.
#[derive(Debug, Clone, Copy)]
pub struct JoinResult<'a> {
    /// Facts of the guest's run.
    pub guest: &'a RunFacts,
    /// Facts of the host's run.
    pub host: &'a RunFacts,
    /// Result of the join.
    pub run: &'a JoinedRun,
}

impl JoinResult<'_> {
    /// Prints the result.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub fn print(&self, format: Format) -> Result<()> {
        let mut out = Vec::new();
        match (format, &self.run.latencies) {
            (Format::Text, None) => out.extend(self.text().bytes()),
            (Format::Text, Some(latencies)) => {
                out.extend(latency::render(self, latencies).bytes());
            }
            (Format::Json, None) => json::write(&mut out, &JoinDocument::new(self))?,
            (Format::Json, Some(latencies)) => {
                let document = latency::document::JoinedLatencyDocument::new(self, latencies);
                json::write(&mut out, &document)?;
            }
        }
        super::write(&out)
    }

    fn text(&self) -> String {
        let run = self.run;
        let threshold = human(self.guest.options.threshold_ns);
        let title =
            format!("A guest's gaps of {threshold} and more, and what its host did in them");
        let mut out = self.headline(&title);
        out += &pairs::render(&run.pairing, pairs::OF_GAPS);
        out += &pairs::coverage(&run.joined, run.above_ns);
        out += "\n";
        let mut table = OsnoiseTable::default();
        table.settle(&run.summary.cpus);
        out += &table.render(rtla::measured(&run.summary), true);
        for cpu in &run.summary.cpus {
            out += &format!(
                "\nWhere the noise of {} went\n{}",
                called(cpu.cpu, &run.pairs),
                text::shares(cpu)
            );
        }
        out += &culprits::render(&run.culprits, run.above_ns, culprits::OF_GAPS);
        out += &trees::render(self);
        if let Some(thesis) = &run.thesis {
            out += &thesis::render(thesis);
        }
        out += &format!("\n{}", text::periodic(&run.summary));
        out + &caveats::render(self)
    }

    fn headline(&self, title: &str) -> String {
        let machine = |who: &str, facts: &RunFacts| {
            let below = facts.host.hypervisor.as_ref();
            let below = below.map_or(String::new(), |name| format!(", a guest of {name}"));
            let host = &facts.host;
            format!(
                "{who} {}, kernel {}{below}, from {}\n",
                host.cpu_model, host.kernel, facts.started_at
            )
        };
        format!(
            "{title}\n{}{}",
            machine(" guest:", self.guest),
            machine(" host: ", self.host),
        )
    }
}

/// Formats a CPU of the guest, with its vCPU: `CPU 0 (vCPU 0 of l2)`.
fn called(cpu: u32, pairs: &[VcpuPair]) -> String {
    match pairs.iter().find(|pair| pair.cpu == cpu) {
        Some(VcpuPair { vcpu, vm, .. }) => {
            let number = cells::number(vcpu.map(u64::from));
            format!("CPU {cpu} (vCPU {number} of {vm})")
        }
        None => format!("CPU {cpu} (no vCPU was found for it)"),
    }
}

/// Formats a part, its whole, and the percentage.
fn part_of(part: u64, whole: u64) -> String {
    match percent_of(part, whole) {
        Some(percent) => format!("{part} of {whole} ({percent:.2} %)"),
        None => format!("{part} of {whole}"),
    }
}

/// Returns a part in percent of the whole; `None` if the whole is 0.
fn percent_of(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}
