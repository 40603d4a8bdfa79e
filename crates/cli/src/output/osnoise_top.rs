//! The table of `rtla osnoise top`, with the columns of a guest behind it.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{CpuSummary, GuestColumns, Interference, Summary, WorstGap};

use super::view::{Period, View};
use super::{rtla, screen, stop, text};
use crate::args::{Format, OsnoiseTopArguments};
use crate::recent_trace::RecentTrace;

const TITLE: &str = "Operating System Noise";
const COLUMNS: &str = "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread";
/// Narrow enough for 200 columns in all.
const GUEST_COLUMNS: [&str; 5] = ["STEAL", "VIRT", "HW_NOISE", "LW_EX", "HW_EX"];
/// Parts of the longest gap that are shown while the run goes on.
const LIVE_PARTS: usize = 8;

/// What one CPU has shown so far.
#[derive(Debug, Default, Clone)]
struct Row {
    periods: u64,
    runtime_ns: u64,
    noise_ns: u64,
    max_noise_ns: u64,
    max_single_ns: u64,
    interference: Interference,
    guest_columns: GuestColumns,
}

/// Redraws the table each period on a terminal; prints it once elsewhere.
#[derive(Debug)]
pub struct Top {
    format: Format,
    quiet: bool,
    keeps_trace: bool,
    in_a_guest: bool,
    rows: BTreeMap<u32, Row>,
}

impl Top {
    /// A table for these arguments.
    pub fn new(arguments: &OsnoiseTopArguments) -> Top {
        Top {
            format: arguments.format,
            quiet: arguments.quiet || !std::io::stdout().is_terminal(),
            keeps_trace: arguments.common.keeps_trace(),
            in_a_guest: false,
            rows: BTreeMap::new(),
        }
    }

    /// The rows with what the summary knows exactly.
    fn settle(&mut self, cpus: &[CpuSummary]) {
        for cpu in cpus {
            let row = self.rows.entry(cpu.cpu).or_default();
            row.runtime_ns = cpu.runtime_ns.unwrap_or(0);
            row.noise_ns = cpu.noise_ns;
            row.max_single_ns = cpu.max_gap_ns.unwrap_or(0);
            row.interference = cpu.interference;
            row.guest_columns = cpu.guest_columns;
            // A run shorter than a period has one all the same.
            row.periods = row.periods.max(1);
            row.max_noise_ns =
                row.max_noise_ns
                    .max(if row.periods == 1 { cpu.noise_ns } else { 0 });
        }
    }

    /// Whether the table is shown while the run goes on.
    fn draws(&self) -> bool {
        !self.quiet && self.format == Format::Text
    }

    fn table(&self, elapsed: Duration) -> String {
        let mut out = format!(
            "{TITLE:>64}\nduration: {} | time is in us\n{COLUMNS}",
            rtla::clock(elapsed),
        );
        if self.in_a_guest {
            for column in GUEST_COLUMNS {
                out += &format!(" {column:>11}");
            }
        }
        out += "\n";
        for (cpu, row) in &self.rows {
            out += &row.render(*cpu);
            if self.in_a_guest {
                out += &row.render_guest();
            }
            out += "\n";
        }
        out
    }
}

impl Row {
    fn render(&self, cpu: u32) -> String {
        let Interference {
            hw,
            nmi,
            irq,
            softirq,
            thread,
        } = self.interference;
        let [hw, nmi, irq, softirq, thread] = [hw, nmi, irq, softirq, thread].map(text::number);
        format!(
            "{cpu:>3} #{:<6} {:>12} {:>12}   {}{:>12}{:>12}{hw:>12} {nmi:>12} {irq:>12} {softirq:>12} {thread:>12}",
            self.periods,
            self.runtime_ns / 1000,
            self.noise_ns / 1000,
            rtla::available(self.runtime_ns / 1000, self.noise_ns / 1000),
            self.max_noise_ns / 1000,
            self.max_single_ns / 1000,
        )
    }

    fn render_guest(&self) -> String {
        let guest = &self.guest_columns;
        let us = |ns: Option<u64>| ns.map(|ns| ns / 1000);
        let columns = [
            us(guest.steal_ns),
            us(guest.virt_ns),
            us(guest.hw_noise_ns),
            guest.light_exits,
            guest.heavy_exits,
        ];
        let columns = columns.map(|column| format!(" {:>11}", text::number(column)));
        columns.concat()
    }
}

impl View for Top {
    fn wants_trace(&self) -> bool {
        self.keeps_trace
    }

    fn begin(&mut self, facts: &RunFacts) {
        self.in_a_guest = facts.host.hypervisor.is_some();
    }

    fn period(&mut self, period: &Period<'_>) {
        for line in period.lines {
            let row = self.rows.entry(line.cpu).or_default();
            row.periods += 1;
            row.runtime_ns += line.runtime_ns.unwrap_or(0);
            row.noise_ns += line.noise_ns;
            row.max_noise_ns = row.max_noise_ns.max(line.noise_ns);
            row.max_single_ns = row.max_single_ns.max(line.max_gap_ns);
            row.interference += line.interference;
            row.guest_columns += line.guest_columns;
        }
        if self.draws() {
            let table = self.table(period.since_start) + &longest_so_far(period.longest.as_ref());
            screen::redraw(&table);
        }
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        if self.format == Format::Json {
            return super::print(facts, summary, Format::Json);
        }
        self.settle(&summary.cpus);
        let mut out = stop::report(facts, summary, trace);
        out += &self.table(rtla::measured(summary));
        out += &longest(summary.worst.first());
        out += &format!(
            "\n{}\n{}",
            text::periodic(summary),
            text::honesty(facts, summary)
        );
        match self.draws() {
            true => super::write(screen::redrawn(&out).as_bytes()),
            false => super::write(out.as_bytes()),
        }
    }
}

/// Short, so that the table above it stays on the screen.
fn longest_so_far(gap: Option<&WorstGap>) -> String {
    let Some(gap) = gap else {
        return String::new();
    };
    let (shown, more) = gap.parts.split_at(gap.parts.len().min(LIVE_PARTS));
    let gap = WorstGap {
        parts: shown.to_vec(),
        ..gap.clone()
    };
    let more = match more.len() {
        0 => String::new(),
        more => format!("   … and {more} smaller\n"),
    };
    longest(Some(&gap)) + &more
}

fn longest(gap: Option<&WorstGap>) -> String {
    let tree = |gap| format!("\nThe longest gap\n{}", text::tree(gap));
    gap.map(tree).unwrap_or_default()
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
            guest_columns: GuestColumns::default(),
        };
        let top = Top {
            format: Format::Text,
            quiet: true,
            keeps_trace: false,
            in_a_guest: false,
            rows: BTreeMap::from([(0, row)]),
        };
        let text = top.table(Duration::from_secs(3661));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "duration:   0 01:01:01 | time is in us");
        assert_eq!(
            lines[3],
            "  0 #4           4000000          190    99.99525          90           9          18            -         1007           18            1"
        );
    }
}
