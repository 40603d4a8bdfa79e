//! Table of `rtla osnoise top`, with additional columns for guests.

use std::collections::BTreeMap;
use std::time::Duration;

use vmnoise_explain::{CpuSummary, GuestColumns, InterferenceColumns, PeriodLine};

use super::{cells, rtla};

const TITLE: &str = "Operating System Noise";
const COLUMNS: &str = "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread";
/// Additional columns for guests; the whole table fits into 200 characters.
const GUEST_COLUMNS: [&str; 5] = ["STEAL", "VIRT", "HW_NOISE", "LW_EX", "HW_EX"];

/// Table with the figures of each CPU so far.
#[derive(Debug, Default)]
pub struct OsnoiseTable {
    rows: BTreeMap<u32, Row>,
}

#[derive(Debug, Default, Clone)]
struct Row {
    /// Number of periods; `None` if the run was not divided into periods. In that case
    /// `max_noise_ns` is unknown, too.
    periods: Option<u64>,
    runtime_ns: u64,
    noise_ns: u64,
    /// Largest noise of one period, in nanoseconds.
    max_noise_ns: Option<u64>,
    max_single_ns: u64,
    interference: InterferenceColumns,
    guest_columns: GuestColumns,
}

impl OsnoiseTable {
    /// Adds a period that has ended.
    pub fn add(&mut self, lines: &[PeriodLine]) {
        for line in lines {
            let row = self.rows.entry(line.cpu).or_default();
            row.periods = Some(row.periods.unwrap_or(0) + 1);
            row.runtime_ns += line.runtime_ns.unwrap_or(0);
            row.noise_ns += line.noise_ns;
            row.max_noise_ns = row.max_noise_ns.max(Some(line.noise_ns));
            row.max_single_ns = row.max_single_ns.max(line.max_gap_ns);
            row.interference += line.interference;
            row.guest_columns = line.columns_so_far;
        }
    }

    /// Counts the whole run as one period, if no more than one period has ended.
    pub fn close_period(&mut self, cpus: &[CpuSummary]) {
        for cpu in cpus {
            let row = self.rows.entry(cpu.cpu).or_default();
            if row.periods.unwrap_or(1) == 1 {
                row.periods = Some(1);
                row.max_noise_ns = row.max_noise_ns.max(Some(cpu.noise_ns));
            }
        }
    }

    /// Replaces the sums of the periods by the exact values of the summary.
    pub fn settle(&mut self, cpus: &[CpuSummary]) {
        for cpu in cpus {
            let row = self.rows.entry(cpu.cpu).or_default();
            row.runtime_ns = cpu.runtime_ns.unwrap_or(0);
            row.noise_ns = cpu.noise_ns;
            row.max_single_ns = cpu.max_gap_ns.unwrap_or(0);
            row.interference = cpu.interference;
            row.guest_columns = cpu.guest_columns;
        }
    }

    /// Renders the table of a run that lasted `elapsed`. With `in_a_guest`, the columns for guests
    /// are included.
    pub fn render(&self, elapsed: Duration, in_a_guest: bool) -> String {
        let mut out = format!(
            "{TITLE:>64}\nduration: {} | time is in us\n{COLUMNS}",
            rtla::clock(elapsed),
        );
        if in_a_guest {
            for column in GUEST_COLUMNS {
                out += &format!(" {column:>11}");
            }
        }
        out += "\n";
        for (cpu, row) in &self.rows {
            out += &row.render(*cpu);
            if in_a_guest {
                out += &row.render_guest();
            }
            out += "\n";
        }
        out
    }
}

impl Row {
    fn render(&self, cpu: u32) -> String {
        let InterferenceColumns {
            hw,
            nmi,
            irq,
            softirq,
            thread,
        } = self.interference;
        let [hw, nmi, irq, softirq, thread] = [hw, nmi, irq, softirq, thread].map(cells::number);
        format!(
            "{cpu:>3} #{:<6} {:>12} {:>12}   {}{:>12}{:>12}{hw:>12} {nmi:>12} {irq:>12} {softirq:>12} {thread:>12}",
            cells::number(self.periods),
            self.runtime_ns / 1000,
            self.noise_ns / 1000,
            rtla::available(self.runtime_ns / 1000, self.noise_ns / 1000),
            cells::number(self.max_noise_ns.map(|ns| ns / 1000)),
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
        let columns = columns.map(|column| format!(" {:>11}", cells::number(column)));
        columns.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_rtla() {
        let row = Row {
            periods: Some(4),
            runtime_ns: 4_000_000_999,
            noise_ns: 190_999,
            max_noise_ns: Some(90_000),
            max_single_ns: 9_999,
            interference: InterferenceColumns {
                hw: Some(18),
                nmi: None,
                irq: Some(1007),
                softirq: Some(18),
                thread: Some(1),
            },
            guest_columns: GuestColumns::default(),
        };
        let table = OsnoiseTable {
            rows: BTreeMap::from([(0, row)]),
        };
        let text = table.render(Duration::from_secs(3661), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "duration:   0 01:01:01 | time is in us");
        assert_eq!(
            lines[3],
            "  0 #4           4000000          190    99.99525          90           9          18            -         1007           18            1"
        );
    }
}
