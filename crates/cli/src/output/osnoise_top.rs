//! The table of `rtla osnoise top`, with the columns of a guest behind it.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Budget, CpuSummary, Interference, PeriodLine, Summary};

use super::view::{OuterSteal, View};
use super::{rtla, text};
use crate::args::{Format, OsnoiseTopArguments};

const TITLE: &str = "Operating System Noise";
/// Back to the first corner of a cleared screen, as rtla does between tables.
const CLEAR: &str = "\x1bc";

/// What one CPU has shown so far.
#[derive(Debug, Default, Clone)]
struct Row {
    periods: u64,
    runtime_ns: u64,
    noise_ns: u64,
    max_noise_ns: u64,
    max_single_ns: u64,
    interference: Interference,
}

/// Redraws the table each period on a terminal; prints it once elsewhere.
#[derive(Debug)]
pub struct Top {
    format: Format,
    quiet: bool,
    runtime_ns: u64,
    rows: BTreeMap<u32, Row>,
    worst: Option<Budget>,
}

impl Top {
    /// A table for these arguments.
    pub fn new(arguments: &OsnoiseTopArguments) -> Top {
        let common = &arguments.common;
        Top {
            format: arguments.format,
            quiet: arguments.quiet || !std::io::stdout().is_terminal(),
            runtime_ns: common.runtime.unwrap_or(common.period),
            rows: BTreeMap::new(),
            worst: None,
        }
    }

    /// The rows with what the summary knows exactly.
    fn settle(&mut self, cpus: &[CpuSummary]) {
        for cpu in cpus {
            let row = self.rows.entry(cpu.cpu).or_default();
            row.runtime_ns = cpu.runtime_ns.unwrap_or(row.runtime_ns);
            row.noise_ns = cpu.noise_ns;
            row.max_single_ns = cpu.max_gap_ns.unwrap_or(0);
            row.interference = cpu.interference;
            // A run shorter than a period has one all the same.
            row.periods = row.periods.max(1);
            row.max_noise_ns =
                row.max_noise_ns
                    .max(if row.periods == 1 { cpu.noise_ns } else { 0 });
        }
    }
}

impl View for Top {
    fn begin(&mut self) {}

    fn gap(&mut self, budget: &Budget) {
        if self
            .worst
            .as_ref()
            .is_none_or(|worst| worst.dur_ns < budget.dur_ns)
        {
            self.worst = Some(budget.clone());
        }
    }

    fn period(&mut self, since_start: Duration, lines: &[PeriodLine], _outer_steal: &OuterSteal) {
        for line in lines {
            let row = self.rows.entry(line.cpu).or_default();
            row.periods += 1;
            row.runtime_ns += self.runtime_ns;
            row.noise_ns += line.noise_ns;
            row.max_noise_ns = row.max_noise_ns.max(line.noise_ns);
            row.max_single_ns = row.max_single_ns.max(line.max_gap_ns);
            row.interference += line.interference;
        }
        if !self.quiet && self.format == Format::Text {
            let table = table(since_start, &self.rows, &[]);
            // A terminal that is gone is told by the result.
            let _ = std::io::stdout().write_all(format!("{CLEAR}{table}").as_bytes());
            let _ = std::io::stdout().flush();
        }
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary) -> Result<()> {
        if self.format == Format::Json {
            return super::print(facts, summary, Format::Json);
        }
        self.settle(&summary.cpus);
        let mut out = String::new();
        if let Some(gap) = &summary.stopped_by {
            out += &format!("Stopped by this gap:\n{}\n", text::tree(gap));
        }
        out += &table(rtla::measured(summary), &self.rows, &summary.cpus);
        if let Some(gap) = summary.worst.first() {
            out += &format!("\nThe longest gap\n{}", text::tree(gap));
        }
        out += &format!(
            "\n{}\n{}",
            text::periodic(summary),
            text::honesty(facts, summary)
        );
        super::write(out.as_bytes())
    }
}

/// The table; `cpus` add what only the whole run knows, for a guest.
fn table(elapsed: Duration, rows: &BTreeMap<u32, Row>, cpus: &[CpuSummary]) -> String {
    let mut out = format!(
        "{TITLE:>64}\nduration: {} | time is in us\n{}",
        rtla::clock(elapsed),
        "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread",
    );
    let is_guest = !cpus.is_empty();
    if is_guest {
        for column in ["STEAL", "VIRT", "HW_NOISE", "LW_EX", "HW_EX"] {
            out += &format!(" {column:>12}");
        }
    }
    out += "\n";
    for (cpu, row) in rows {
        let available = rtla::available(row.runtime_ns / 1000, row.noise_ns / 1000);
        let Interference {
            hw,
            nmi,
            irq,
            softirq,
            thread,
        } = row.interference;
        let [hw, nmi, irq, softirq, thread] = [hw, nmi, irq, softirq, thread].map(text::number);
        out += &format!(
            "{cpu:>3} #{:<6} {:>12} {:>12}   {available}{:>12}{:>12}{hw:>12} {nmi:>12} {irq:>12} {softirq:>12} {thread:>12}",
            row.periods,
            row.runtime_ns / 1000,
            row.noise_ns / 1000,
            row.max_noise_ns / 1000,
            row.max_single_ns / 1000,
        );
        if let Some(guest) = cpus
            .iter()
            .find(|told| told.cpu == *cpu)
            .map(|told| &told.guest_columns)
        {
            let us = |ns: Option<u64>| ns.map(|ns| ns / 1000);
            let columns = [
                us(guest.steal_ns),
                us(guest.virt_ns),
                us(guest.hw_noise_ns),
                guest.light_exits,
                guest.heavy_exits,
            ];
            for column in columns {
                out += &format!(" {:>12}", text::number(column));
            }
        }
        out += "\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_rtla() {
        let row = Row {
            periods: 4,
            runtime_ns: 4_000_000_999,
            noise_ns: 190_999,
            max_noise_ns: 90_000,
            max_single_ns: 9_999,
            interference: Interference {
                hw: Some(18),
                nmi: None,
                irq: Some(1007),
                softirq: Some(18),
                thread: Some(1),
            },
        };
        let text = table(Duration::from_secs(3661), &BTreeMap::from([(0, row)]), &[]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "duration:   0 01:01:01 | time is in us");
        assert_eq!(
            lines[3],
            "  0 #4           4000000          190    99.99525          90           9          18            -         1007           18            1"
        );
    }
}
