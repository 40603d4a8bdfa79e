//! How scripts read cyclictest and rtla, written anew from what they look for: the lines of tasks (Linaro's
//! and others' shell scripts for LAVA), the histogram (rteval, the latency tests of CNF), each value (`-v`).

use std::collections::BTreeMap;

/// One task as the last line of `cyclictest -q` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    pub priority: u64,
    pub interval_us: u64,
    pub cycles: u64,
    pub min: u64,
    pub avg: u64,
    pub max: u64,
}

/// Lines `T: 0 ( 123) P:80 I:1000 C: …`, the number behind each label, blanks or not.
pub fn tasks(text: &str) -> Vec<Task> {
    let lines = text.lines().filter(|line| line.starts_with("T:"));
    let task = |line: &str| {
        let after = |label: &str| {
            let rest = line.split_once(label)?.1.trim_start();
            let digits = rest.find(|char: char| !char.is_ascii_digit());
            rest[..digits.unwrap_or(rest.len())].parse().ok()
        };
        let number = |label: &str| after(label).unwrap_or_else(|| panic!("{label} in {line}"));
        Task {
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

/// As rteval takes cyclictest's histogram.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket -> counts, a column for each task.
    pub buckets: BTreeMap<u64, Vec<u64>>,
    /// `# Max Latencies:`, which the tests of CNF hold against their limit, too.
    pub max: Vec<u64>,
    pub overflows: Vec<u64>,
    /// `# Break value:`.
    pub broke: Option<u64>,
}

/// Lines that begin with `#` are looked up by their names; all others are rows of numbers.
pub fn histogram(text: &str) -> Histogram {
    let numbers = |text: &str| -> Vec<u64> {
        let words = text.split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    let mut read = Histogram::default();
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

/// Lines `n:c:v` of `cyclictest -v`: task, wake-up, microseconds.
pub fn values(text: &str) -> Vec<[u64; 3]> {
    let fields = |line: &str| {
        let fields = line.split(':').map(|field| field.trim().parse().ok());
        fields.collect::<Option<Vec<u64>>>()?.try_into().ok()
    };
    text.lines().filter_map(fields).collect()
}

/// As rteval takes the histogram of `rtla timerlat hist`, and what stopped it.
#[derive(Debug, Default)]
pub struct Timerlat {
    /// Bucket -> counts: IRQ, thread, user of each CPU.
    pub buckets: BTreeMap<u64, Vec<u64>>,
    /// The CPU of each analysis -> its lines: name -> latency and, where it has one, its share.
    pub stopped: BTreeMap<u64, BTreeMap<String, (f64, Option<f64>)>>,
    /// What is listed below a line of the analysis.
    pub listed: Vec<(String, f64)>,
}

const OF_THE_TABLE: [&str; 8] = [
    "#", "Index", "over:", "count:", "min:", "avg:", "max:", "ALL:",
];

/// Behind the line that says so comes what stopped the run; before it what is no known line is a row of the
/// histogram, if it begins with a number.
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
        // From the end.
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
