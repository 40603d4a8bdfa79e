//! Output in the format of cyclictest (rt-tests 2.4), byte for byte, so that existing parsers can
//! read it.

use std::fmt::Write;

use vmnoise_events::{Policy, RunFacts};
use vmnoise_explain::{Interval, LinearHistogram};
use vmnoise_host::Host;

use super::columns::CpuColumns;

/// Output options that vmnoise accepts if it is called as `cyclictest`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CyclictestWords {
    /// Whether only the final result is printed. A histogram then replaces the lines of the tasks.
    pub quiet: bool,
    /// Whether each wake-up is printed immediately.
    pub verbose: bool,
    /// Whether the histogram has a column for all tasks together.
    pub sums: bool,
}

impl CyclictestWords {
    /// Returns whether the tasks' lines are printed at the end.
    pub fn has_lines(&self, histogram: bool) -> bool {
        match self.verbose {
            true => self.quiet && !histogram,
            false => !(self.quiet && histogram),
        }
    }
}

/// Formatter of the lines of all tasks.
#[derive(Debug)]
pub struct Cyclictest {
    nano: bool,
    /// CPU and thread id of each task that was found.
    tids: Vec<(u32, u32)>,
}

impl Cyclictest {
    /// Creates the formatter; with `nano` all times are in nanoseconds.
    pub fn new(nano: bool) -> Cyclictest {
        Cyclictest {
            nano,
            tids: Vec::new(),
        }
    }

    /// Reads the thread ids of the tasks. The tasks must exist already.
    pub fn begin(&mut self, facts: &RunFacts) {
        let host = Host::here();
        let own = std::process::id();
        let tid = |&cpu: &u32| {
            let threads = host.threads_named(&format!("vmnoise-timer{cpu}")).ok()?;
            let thread = threads.iter().find(|thread| thread.pid == own)?;
            Some((cpu, thread.tid))
        };
        self.tids = facts.options.cpus.iter().filter_map(tid).collect();
    }

    /// Returns the line about `/dev/cpu_dma_latency`; empty if the run does not set it.
    pub fn held(facts: &RunFacts) -> String {
        let timer = facts.options.timer.as_ref();
        let us = timer.and_then(|timer| timer.dma_latency_us);
        us.map_or_else(String::new, |us| {
            format!("# /dev/cpu_dma_latency set to {us}us\n")
        })
    }

    /// Returns the lines that precede the values of all wake-ups.
    pub fn verbose_head(facts: &RunFacts) -> String {
        let host = Host::here();
        let [all, online] = [host.present_cpus(), host.online_cpus()];
        let [all, online] = [all, online].map(|cpus| cpus.map_or(0, |cpus| cpus.len()));
        let mut out = format!("Max CPUs = {all}\nOnline CPUs = {online}\n");
        out += &Cyclictest::held(facts);
        let timer = facts.options.timer.as_ref();
        let period_us = timer.map_or(0, |timer| timer.period_ns / 1_000);
        for index in 0..facts.options.cpus.len() {
            let _ = writeln!(out, "Thread {index} Interval: {period_us}");
        }
        out
    }

    /// Formats one wake-up: the index of the task, the number of the wake-up, and the latency.
    pub fn value(&self, task: usize, wakeup: u64, latency_ns: u64) -> String {
        format!("{task:8}:{wakeup:8}:{:8}\n", latency_ns / self.per())
    }

    /// Formats the wake-up that ended the run, and the thread ids of all tasks.
    pub fn broke(&self, broken: &Interval) -> String {
        let ids = self.tids.iter().map(|(_, tid)| format!(" {tid:05}"));
        let mut out = format!("# Thread Ids:{}\n", ids.collect::<String>());
        let tid = self.tids.iter().find(|(cpu, _)| *cpu == broken.cpu);
        if let Some((_, tid)) = tid {
            out += &format!("# Break thread: {tid}\n");
        }
        out + &format!("# Break value: {}\n", broken.dur_ns / self.per())
    }

    fn per(&self) -> u64 {
        if self.nano { 1 } else { 1_000 }
    }

    /// Renders the line of each task.
    pub fn render(&self, facts: &RunFacts, columns: &CpuColumns) -> String {
        let mut out = String::new();
        let timer = facts.options.timer.as_ref();
        let per = self.per();
        let period_us = timer.map_or(0, |timer| timer.period_ns / 1_000);
        for (index, (cpu, contexts)) in columns.iter().enumerate() {
            let figures = &contexts.user;
            let tid = self.tids.iter().find(|(of, _)| *of == cpu);
            let tid = tid.map_or(0, |(_, tid)| *tid);
            let _ = writeln!(
                out,
                "T:{index:2} ({tid:5}) P:{:2} I:{period_us} C:{:7} Min:{:7} Act:{:5} Avg:{:5} Max:{:8}",
                priority(facts.options.priority),
                figures.count,
                figures.min_ns / per,
                figures.current_ns / per,
                figures.mean_ns().unwrap_or(0) / per,
                figures.max_ns / per,
            );
        }
        out
    }
}

fn priority(policy: Option<Policy>) -> i32 {
    match policy {
        Some(Policy::Fifo(priority) | Policy::RoundRobin(priority)) => priority,
        _ => 0,
    }
}

/// Renders cyclictest's histogram of the latencies in user space, with one column for each task.
/// `overflows` contains, for each column, the numbers of the first wake-ups beyond the last bucket.
/// `sums` adds a column for all tasks together.
pub fn histogram(
    columns: &[LinearHistogram],
    overflows: &[Vec<u64>],
    nano: bool,
    sums: bool,
) -> String {
    let mut out = String::from("# Histogram\n");
    let buckets = columns.first().map_or(0, |column| column.counts().len());
    for bucket in 0..buckets {
        let counts = columns.iter().map(|column| column.counts()[bucket]);
        let counts = with(counts.collect(), sums.then_some(add));
        let counts = counts.iter().map(|count| format!("{count:06}"));
        let _ = writeln!(out, "{bucket:06} {}", counts.collect::<Vec<_>>().join("\t"));
    }
    // cyclictest prints neither a minimum nor a mean for all tasks together.
    let row = |name: &str, width: usize, of_all: Option<Fold>, cell: Cell<'_>| {
        let cells = with(columns.iter().map(cell).collect(), of_all);
        let cells = cells.iter().map(|cell| format!(" {cell:0width$}"));
        format!("# {name}:{}\n", cells.collect::<String>())
    };
    let per = if nano { 1 } else { 1_000 };
    let shown = |ns: Option<u64>| ns.unwrap_or(0) / per;
    let added = sums.then_some(add as Fold);
    let largest = sums.then_some(u64::max as Fold);
    out += &row("Total", 9, added, &|column| column.counts().iter().sum());
    out += &row("Min Latencies", 5, None, &|column| shown(column.min_ns()));
    out += &row("Avg Latencies", 5, None, &|column| shown(column.mean_ns()));
    out += &row("Max Latencies", 5, largest, &|it| shown(it.max_ns()));
    out += &row("Histogram Overflows", 5, added, &LinearHistogram::overflow);
    out += "# Histogram Overflow at cycle number:\n";
    for (index, (column, cycles)) in columns.iter().zip(overflows).enumerate() {
        let shown: String = cycles.iter().map(|cycle| format!(" {cycle:05}")).collect();
        let others = column.overflow() - cycles.len() as u64;
        let others = match others {
            0 => String::new(),
            others => format!(" # {others:05} others"),
        };
        let _ = writeln!(out, "# Thread {index}:{shown}{others}");
    }
    out.push('\n');
    out
}

type Fold = fn(u64, u64) -> u64;
type Cell<'a> = &'a dyn Fn(&LinearHistogram) -> u64;

fn add(one: u64, other: u64) -> u64 {
    one + other
}

/// Appends the value for all tasks together, which `of_all` computes; nothing without `of_all`.
fn with(mut cells: Vec<u64>, of_all: Option<Fold>) -> Vec<u64> {
    let all = of_all.and_then(|of_all| cells.iter().copied().reduce(of_all));
    cells.extend(all);
    cells
}

#[cfg(test)]
mod tests {
    use vmnoise_events::TimerOptions;
    use vmnoise_events::fixtures::{self, timer};

    use super::*;
    use crate::timerlat::fixtures::unseen;

    #[test]
    fn a_line_is_that_of_cyclictest() {
        let mut columns = CpuColumns::default();
        for latency_ns in [21_000, 697_999, 37_500] {
            columns.add(&unseen(0, latency_ns));
        }
        let mut facts = fixtures::polling_facts();
        facts.options.priority = Some(Policy::Fifo(95));
        facts.options.timer = Some(TimerOptions {
            dma_latency_us: Some(0),
            ..timer(1_000_000)
        });
        let cyclictest = Cyclictest {
            nano: false,
            tids: vec![(0, 10_259)],
        };
        // Copied from the output of rt-tests 2.4, except for the numbers.
        assert_eq!(
            Cyclictest::held(&facts),
            "# /dev/cpu_dma_latency set to 0us\n"
        );
        let expected =
            "T: 0 (10259) P:95 I:1000 C:      3 Min:     21 Act:   37 Avg:  252 Max:     697\n";
        assert_eq!(cyclictest.render(&facts, &columns), expected);
    }

    #[test]
    fn a_histogram_is_that_of_cyclictest() {
        let mut first = LinearHistogram::new(1_000, 3);
        for ns in [1_500, 1_900, 2_000, 9_000, 8_000] {
            first.record(ns);
        }
        let mut second = LinearHistogram::new(1_000, 3);
        second.record(0);
        let columns = [first, second];
        let cycles = [vec![3, 4], vec![]];
        let text = histogram(&columns, &cycles, false, false);
        let expected = "# Histogram
000000 000000\t000001
000001 000002\t000000
000002 000001\t000000
# Total: 000000003 000000001
# Min Latencies: 00001 00000
# Avg Latencies: 00004 00000
# Max Latencies: 00009 00000
# Histogram Overflows: 00002 00000
# Histogram Overflow at cycle number:
# Thread 0: 00003 00004
# Thread 1:

";
        assert_eq!(text, expected);
        let summed = histogram(&columns, &cycles, false, true);
        let lines: Vec<&str> = summed.lines().collect();
        assert_eq!(lines[2], "000001 000002\t000000\t000002");
        assert_eq!(lines[4], "# Total: 000000003 000000001 000000004");
        assert_eq!(lines[5], "# Min Latencies: 00001 00000");
        assert_eq!(lines[7], "# Max Latencies: 00009 00000 00009");
        assert_eq!(lines[8], "# Histogram Overflows: 00002 00000 00002");
    }
}
