//! Parsers as in scripts for cyclictest and rtla, rewritten from the patterns that they search for:
//! the lines of tasks (shell scripts for LAVA by Linaro and others), the histogram (rteval, the
//! latency tests of CNF), and each value (`-v`).

use std::collections::BTreeMap;

/// Task in the last line of `cyclictest -q`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CyclictestTask {
    pub priority: u64,
    pub interval_us: u64,
    pub cycles: u64,
    pub min: u64,
    pub avg: u64,
    pub max: u64,
}

/// Parses lines `T: 0 ( 123) P:80 I:1000 C: …`: the number after each label, with or without
/// blanks.
pub fn tasks(text: &str) -> Vec<CyclictestTask> {
    let lines = text.lines().filter(|line| line.starts_with("T:"));
    let task = |line: &str| {
        let after = |label: &str| {
            let rest = line.split_once(label)?.1.trim_start();
            let digits = rest.find(|char: char| !char.is_ascii_digit());
            rest[..digits.unwrap_or(rest.len())].parse().ok()
        };
        let number = |label: &str| after(label).unwrap_or_else(|| panic!("{label} in {line}"));
        CyclictestTask {
            priority: number("P:"),
            interval_us: number("I:"),
            cycles: number("C:"),
            min: number("Min:"),
            avg: number("Avg:"),
            max: number("Max:"),
        }
    };
    lines.map(task).collect()
}

/// Histogram of cyclictest, as rteval reads it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RtevalHistogram {
    /// Counts by bucket, with a column for each task.
    pub buckets: BTreeMap<u64, Vec<u64>>,
    /// Values of `# Max Latencies:`, which the tests of CNF also compare with their limit.
    pub max: Vec<u64>,
    pub overflows: Vec<u64>,
    /// Value of `# Break value:`.
    pub broke: Option<u64>,
}

/// Parses a histogram: lines that begin with `#` are found by name, all others are rows of numbers.
pub fn histogram(text: &str) -> RtevalHistogram {
    let numbers = |text: &str| -> Vec<u64> {
        let words = text.split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    let mut read = RtevalHistogram::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ").and_then(|it| it.split_once(':')) {
            Some(("Max Latencies", rest)) => read.max = numbers(rest),
            Some(("Histogram Overflows", rest)) => read.overflows = numbers(rest),
            Some(("Break value", rest)) => read.broke = Some(numbers(rest)[0]),
            _ if line.starts_with('#') => {}
            _ => {
                let row = numbers(line);
                read.buckets.insert(row[0], row[1..].to_vec());
            }
        }
    }
    read
}

/// Parses lines `n:c:v` of `cyclictest -v`: task, wake-up, microseconds.
pub fn values(text: &str) -> Vec<[u64; 3]> {
    let fields = |line: &str| {
        let fields = line.split(':').map(|field| field.trim().parse().ok());
        fields.collect::<Option<Vec<u64>>>()?.try_into().ok()
    };
    text.lines().filter_map(fields).collect()
}

/// Histogram of `rtla timerlat hist` and its analysis, as rteval reads them.
#[derive(Debug, Default)]
pub struct Timerlat {
    /// Counts by bucket: IRQ, thread and user of each CPU.
    pub buckets: BTreeMap<u64, Vec<u64>>,
    /// Lines of each analysis by CPU: name, latency and, if present, its share.
    pub stopped: BTreeMap<u64, BTreeMap<String, (f64, Option<f64>)>>,
    /// Items listed below a line of the analysis.
    pub listed: Vec<(String, f64)>,
}

const OF_THE_TABLE: [&str; 8] = [
    "#", "Index", "over:", "count:", "min:", "avg:", "max:", "ALL:",
];

/// Parses the output. The line about the stop separates the histogram from the analysis. Before it,
/// an unknown line that begins with a number is a row of the histogram.
pub fn timerlat(text: &str) -> Timerlat {
    let mut read = Timerlat::default();
    let mut lines = text.lines();
    for line in lines.by_ref() {
        if line.starts_with("rtla timerlat hit stop tracing") {
            break;
        }
        if OF_THE_TABLE.iter().any(|name| line.starts_with(name)) {
            continue;
        }
        let numbers = line.split_whitespace().map(str::parse);
        if let Ok(row) = numbers.collect::<Result<Vec<u64>, _>>()
            && let Some((bucket, counts)) = row.split_first()
        {
            read.buckets.insert(*bucket, counts.to_vec());
        }
    }
    let mut cpu = None;
    let mut lists = false;
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Counted from the end.
        let field = |nth: usize| fields[fields.len() - nth].trim_matches(['(', ')', '%']);
        let number = |nth| field(nth).parse().unwrap_or_else(|_| panic!("{line}"));
        if line.starts_with("##") && fields[1] == "CPU" {
            cpu = Some(fields[2].parse().unwrap());
            continue;
        }
        let Some(cpu) = cpu else {
            continue;
        };
        if line.starts_with("------------------") {
            lists = false;
            continue;
        }
        let name = ["Softirq interference", "IRQ interference"];
        let name = name.into_iter().find(|name| line.starts_with(name));
        let name = name.unwrap_or_else(|| line.split(':').next().unwrap());
        let of_cpu = read.stopped.entry(cpu).or_default();
        match name {
            "Thread latency" => {
                of_cpu.insert(name.into(), (number(3), Some(number(1))));
            }
            "Timerlat IRQ duration"
            | "IRQ handler delay"
            | "Blocking thread"
            | "IRQ interference"
            | "Softirq interference" => {
                of_cpu.insert(name.into(), (number(4), Some(number(2))));
                let opens = [
                    "Blocking thread",
                    "IRQ interference",
                    "Softirq interference",
                ];
                lists = lists || opens.contains(&name);
            }
            "IRQ latency" | "Previous IRQ interference" => {
                of_cpu.insert(name.into(), (number(2), None));
            }
            _ if lists => {
                let who = fields[..fields.len() - 2].join(" ");
                read.listed.push((who, number(2)));
            }
            _ => {}
        }
    }
    read
}
