//! Columns of tables: of CPUs and of latencies, defined once for text and page, and of exits,
//! defined separately for text and page.

use vmnoise_events::Share;
use vmnoise_events::column::Columns;

use crate::summary::CpuSummary;
use crate::wakeups::LatencyFigures;

/// Columns of an exit in text: the heading, and the shares whose times the column adds up.
pub const EXIT_COLUMNS: [(&str, &[Share]); 7] = [
    ("kvm", &[Share::Kvm]),
    ("vmm", &[Share::Vmm]),
    ("preempted", &[Share::Preempted]),
    ("host irq", &Share::HOST_INTERRUPTS),
    ("blocked", &[Share::Blocked]),
    ("throttled", &[Share::Throttled]),
    ("halted", &[Share::Halted]),
];

/// Columns of an exit on the page: the heading, and the shares whose times the column adds up.
pub const EXIT_COLUMNS_OF_PAGE: [(&str, &[Share]); 6] = [
    ("KVM", &[Share::Kvm]),
    ("VMM", &[Share::Vmm]),
    ("preempted", &[Share::Preempted]),
    ("held up", &[Share::Blocked, Share::Throttled]),
    ("interrupts", &Share::HOST_INTERRUPTS),
    ("asleep", &[Share::Halted]),
];

/// Output that shows a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablePlace {
    /// Text, for a terminal.
    Text,
    /// The page.
    Page,
}

impl TablePlace {
    /// Returns the heading for this output. A column with an empty heading is not shown.
    const fn either(self, text: &'static str, page: &'static str) -> &'static str {
        match self {
            TablePlace::Text => text,
            TablePlace::Page => page,
        }
    }
}

fn shown<R>(mut columns: Columns<'static, R>) -> Columns<'static, R> {
    columns.0.retain(|column| !column.title.is_empty());
    columns
}

/// Returns the columns of a CPU, except for the CPU's number.
pub fn cpu_columns(place: TablePlace) -> Columns<'static, CpuSummary> {
    let title = |text, page| place.either(text, page);
    let columns = Columns::<CpuSummary>::default()
        .time("runtime", |it| it.runtime_ns)
        .count("gaps", |it| it.gaps)
        .time("noise", |it| it.noise_ns)
        .percent(title("noise %", "of the time"), |it| it.noise_percent)
        .percent(title("CPU avail %", ""), |it| it.cpu_available_percent)
        .time("p50", |it| it.percentiles_ns.p50)
        .time(title("", "p90"), |it| it.percentiles_ns.p90)
        .time("p99", |it| it.percentiles_ns.p99)
        .time("p99.9", |it| it.percentiles_ns.p999)
        .time(title("max", "longest"), |it| it.max_gap_ns)
        .time("steal clock", |it| it.steal_clock_ns)
        .count(title("LW_EX", ""), CpuSummary::light_exits)
        .count(title("HW_EX", ""), CpuSummary::heavy_exits)
        .count(title("reloads", ""), |it| it.exits.reloads);
    shown(columns)
}

/// Row of the table of latencies: one CPU and one context.
#[derive(Debug, Clone, Copy)]
pub struct LatencyRow {
    /// CPU of the task.
    pub cpu: u32,
    /// Name of the context at which the latencies end.
    pub until: &'static str,
    /// Latencies; `None` if no latency was measured.
    pub figures: Option<LatencyFigures>,
}

impl LatencyRow {
    fn ns(&self, of: impl Fn(LatencyFigures) -> u64) -> Option<u64> {
        self.figures.map(of)
    }
}

/// Returns the columns of latencies.
pub fn latency_columns(place: TablePlace) -> Columns<'static, LatencyRow> {
    let title = |text, page| place.either(text, page);
    let columns = Columns::<LatencyRow>::default()
        .name("until", |row| Some(row.until))
        .count("wake-ups", |row| row.figures.map_or(0, |it| it.count))
        .time(title("min", "least"), |row| row.ns(|it| it.min_ns))
        .time("mean", |row| row.ns(|it| it.mean_ns))
        .time(title("", "p50"), |row| row.ns(|it| it.p50_ns))
        .time("p99", |row| row.ns(|it| it.p99_ns))
        .time("p99.9", |row| row.ns(|it| it.p999_ns))
        .time(title("max", "latest"), |row| row.ns(|it| it.max_ns));
    shown(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a share were in no column, the shown parts of an exit would not add up to its length.
    #[test]
    fn each_share_of_an_exit_is_in_one_column() {
        for columns in [&EXIT_COLUMNS[..], &EXIT_COLUMNS_OF_PAGE] {
            let shown = columns.iter().flat_map(|(_, shares)| shares.iter());
            let mut shown: Vec<Share> = shown.copied().collect();
            shown.sort_unstable();
            let mut all = Share::OF_EXITS;
            all.sort_unstable();
            assert_eq!(shown, all);
        }
    }
}
