//! Histogram of exits by length, in the layout of rtla's histograms.

use std::time::Duration;

use clap::{Args, ValueEnum};
use vmnoise_console::units::us;
use vmnoise_explain::{ExitLengths, ExitsSummary, VcpuExits, VmExits, next_floor_ns};

use super::parts::{name, vcpus};

use crate::format::HistFrame;
use crate::rtla;

/// Minimum width of a column, as in rtla.
const CELL: usize = 9;

/// Column: its title, and the lengths of its exits.
type Column = (String, ExitLengths);

/// Options of the histogram.
#[derive(Debug, Clone, Copy, Args)]
pub struct ExitsHistOptions {
    /// Print one column for each of these
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Columns::Vcpu)]
    by: Columns,
    /// Parts around the buckets.
    #[command(flatten)]
    pub frame: HistFrame,
}

/// Kind of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Columns {
    /// vCPU, with all its reasons
    Vcpu,
    /// Reason, over all vCPUs
    Reason,
}

/// Renders the histogram, without the lines about probes and limitations.
pub fn render(measured: Duration, summary: &ExitsSummary, asked: ExitsHistOptions) -> String {
    let columns = match asked.by {
        Columns::Vcpu => by_vcpu(summary),
        Columns::Reason => by_reason(summary),
    };
    let mut all = ExitLengths::default();
    let reasons = vcpus(summary).flat_map(|(_, vcpu)| &vcpu.reasons);
    reasons.for_each(|reason| all.add(reason));
    let mut out = String::new();
    if !asked.frame.no_header {
        out += "# vmnoise exits histogram\n# Time unit is microseconds (us)\n";
        out += &format!("# Duration: {}\n", rtla::clock(measured));
        out += &row("Index", &columns, |(name, _)| name.clone());
    }
    for floor_ns in floors(&all, asked.frame.with_zeros) {
        out += &row(&us(floor_ns), &columns, |(_, lengths)| {
            lengths.count_from(floor_ns).to_string()
        });
    }
    if !asked.frame.no_summary {
        let or_unknown = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), us);
        out += &row("count:", &columns, |(_, lengths)| {
            lengths.count().to_string()
        });
        out += &row("min:", &columns, |(_, lengths)| {
            or_unknown(lengths.min_ns())
        });
        out += &row("avg:", &columns, |(_, lengths)| {
            or_unknown(lengths.mean_ns().map(|ns| ns.round() as u64))
        });
        out += &row("max:", &columns, |(_, lengths)| {
            or_unknown(lengths.max_ns())
        });
    }
    out
}

fn by_vcpu(summary: &ExitsSummary) -> Vec<Column> {
    let column = |(vm, vcpu): (&VmExits, &VcpuExits)| {
        let mut lengths = ExitLengths::default();
        vcpu.reasons.iter().for_each(|reason| lengths.add(reason));
        (name(vm, vcpu), lengths)
    };
    vcpus(summary).map(column).collect()
}

/// Returns a column for each reason. The reason with the largest total time comes first.
fn by_reason(summary: &ExitsSummary) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for reason in vcpus(summary).flat_map(|(_, vcpu)| &vcpu.reasons) {
        let index = columns.iter().position(|(name, _)| reason.name == *name);
        let index = index.unwrap_or_else(|| {
            columns.push((reason.name.to_string(), ExitLengths::default()));
            columns.len() - 1
        });
        columns[index].1.add(reason);
    }
    columns.sort_by_key(|(_, lengths)| std::cmp::Reverse(lengths.total_ns()));
    columns
}

/// Returns the lower bound of each row, in nanoseconds. With `with_zeros`, rows without exits are
/// included.
fn floors(all: &ExitLengths, with_zeros: bool) -> Vec<u64> {
    let floors: Vec<u64> = all.floors_ns().collect();
    match (floors.first(), floors.last()) {
        (Some(&first), Some(&last)) if with_zeros => {
            std::iter::successors(Some(first), |&floor| Some(next_floor_ns(floor)))
                .take_while(|&floor| floor <= last)
                .collect()
        }
        _ => floors,
    }
}

/// Returns one line: `name`, then a cell for each column.
fn row(name: &str, columns: &[Column], cell: impl Fn(&Column) -> String) -> String {
    let mut line = format!("{name:<11}");
    for column in columns {
        let width = column.0.len().max(CELL);
        line += &format!(" {:>width$}", cell(column));
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}
