//! The lines that `cyclictest -q` ends with (rt-tests 2.4), byte by byte, so that what reads
//! those reads ours.

use std::fmt::Write;

use vmnoise_events::{Policy, RunFacts};
use vmnoise_explain::LinearHistogram;
use vmnoise_tracer::host::Host;

use super::columns::Columns;

/// One line for each task.
#[derive(Debug)]
pub struct Cyclictest {
    nano: bool,
    /// Thread ids by CPU, as far as they are there to be found.
    tids: Vec<(u32, u32)>,
}

impl Cyclictest {
    pub fn new(nano: bool) -> Cyclictest {
        Cyclictest {
            nano,
            tids: Vec::new(),
        }
    }

    /// The tasks are there from now on.
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

    pub fn render(&self, facts: &RunFacts, columns: &Columns) -> String {
        let mut out = String::new();
        let timer = facts.options.timer.as_ref();
        if let Some(us) = timer.and_then(|timer| timer.dma_latency_us) {
            out += &format!("# /dev/cpu_dma_latency set to {us}us\n");
        }
        let per = if self.nano { 1 } else { 1_000 };
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

/// cyclictest's histogram of the latencies in user space, one column for each task.
/// `overflows` are the numbers of the wake-ups beyond the last bucket, by column, of which
/// it prints as many as there are buckets.
pub fn histogram(columns: &[LinearHistogram], overflows: &[Vec<u64>], nano: bool) -> String {
    let mut out = String::from("# Histogram\n");
    let buckets = columns.first().map_or(0, |column| column.counts().len());
    for bucket in 0..buckets {
        let counts = columns
            .iter()
            .map(|column| format!("{:06}", column.counts()[bucket]));
        let _ = writeln!(out, "{bucket:06} {}", counts.collect::<Vec<_>>().join("\t"));
    }
    let row = |name: &str, cell: &dyn Fn(&LinearHistogram) -> String| {
        let cells: String = columns
            .iter()
            .map(|column| format!(" {}", cell(column)))
            .collect();
        format!("# {name}:{cells}\n")
    };
    let per = if nano { 1 } else { 1_000 };
    let us = |ns: Option<u64>| format!("{:05}", ns.unwrap_or(0) / per);
    out += &row("Total", &|column| {
        format!("{:09}", column.counts().iter().sum::<u64>())
    });
    out += &row("Min Latencies", &|column| us(column.min_ns()));
    out += &row("Avg Latencies", &|column| us(column.mean_ns()));
    out += &row("Max Latencies", &|column| us(column.max_ns()));
    out += &row("Histogram Overflows", &|column| {
        format!("{:05}", column.overflow())
    });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::facts;
    use crate::output::timerlat::fixtures::unseen;
    use vmnoise_events::TimerOptions;
    use vmnoise_events::fixtures::timer;

    #[test]
    fn a_line_is_that_of_cyclictest() {
        let mut columns = Columns::default();
        for latency_ns in [21_000, 697_999, 37_500] {
            columns.add(&unseen(0, latency_ns));
        }
        let mut facts = facts();
        facts.options.priority = Some(Policy::Fifo(95));
        facts.options.timer = Some(TimerOptions {
            dma_latency_us: Some(0),
            ..timer(1_000_000)
        });
        let cyclictest = Cyclictest {
            nano: false,
            tids: vec![(0, 10_259)],
        };
        // As rt-tests 2.4 printed it, but for the numbers.
        let expected = "# /dev/cpu_dma_latency set to 0us\n\
            T: 0 (10259) P:95 I:1000 C:      3 Min:     21 Act:   37 Avg:  252 Max:     697\n";
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
        let text = histogram(&[first, second], &[vec![3, 4], vec![]], false);
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
    }
}
