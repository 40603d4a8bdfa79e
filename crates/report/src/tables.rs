//! Tables: readable as they are, and sortable where scripts run.

use hdrhistogram::Histogram;
use vmnoise_events::Share;
use vmnoise_explain::{Taken, VcpuExits};

use crate::figures::{count, duration, duration_or_dash, part_of, percent};
use crate::run::{Outcome, Run};
use crate::shares::label;

/// Rows of who took the time; the program's other outputs have all.
const TAKERS: usize = 200;

/// One field, and the number that it is sorted by.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) text: String,
    /// Unknown sorts below everything.
    pub(crate) rank: Option<f64>,
    pub(crate) is_number: bool,
}

/// A table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// What has to be said below it; may be empty.
    pub(crate) note: String,
    /// Name of each column, and whether it holds numbers.
    pub(crate) columns: Vec<(String, bool)>,
    pub(crate) rows: Vec<Vec<Field>>,
}

impl Table {
    fn new(title: &str, columns: &[(&str, bool)]) -> Table {
        Table {
            title: title.into(),
            note: String::new(),
            columns: columns
                .iter()
                .map(|(name, number)| ((*name).into(), *number))
                .collect(),
            rows: Vec::new(),
        }
    }
}

fn words(text: impl Into<String>) -> Field {
    Field {
        text: text.into(),
        rank: None,
        is_number: false,
    }
}

fn time(ns: impl Into<Option<u64>>) -> Field {
    let ns = ns.into();
    Field {
        text: duration_or_dash(ns),
        rank: ns.map(|ns| ns as f64),
        is_number: true,
    }
}

fn number(value: impl Into<Option<u64>>) -> Field {
    let value = value.into();
    Field {
        text: value.map_or_else(|| "-".into(), count),
        rank: value.map(|value| value as f64),
        is_number: true,
    }
}

fn share_of(value: Option<f64>) -> Field {
    Field {
        text: value.map_or_else(|| "-".into(), percent),
        rank: value,
        is_number: true,
    }
}

const NUMBER: bool = true;
const WORD: bool = false;

/// The tables that follow the charts.
pub(crate) fn tables(run: &Run) -> Vec<Table> {
    let mut tables = vec![overview(run), takers(run), shares(run)];
    match &run.outcome {
        Outcome::Exits(_) => tables.push(reasons(run)),
        Outcome::Joined(_) => tables.push(pairs(run)),
        Outcome::Gaps(_) | Outcome::Wakeups(_) => {}
    }
    tables.push(periodic(run));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Each lane, with its percentiles.
fn overview(run: &Run) -> Table {
    match &run.outcome {
        Outcome::Gaps(_) | Outcome::Joined(_) => gaps(run),
        Outcome::Wakeups(_) => latencies(run),
        Outcome::Exits(_) => vcpus(run),
    }
}

fn gaps(run: &Run) -> Table {
    let mut table = Table::new(
        "Percentiles of gaps, CPU by CPU",
        &[
            ("CPU", WORD),
            ("runtime", NUMBER),
            ("gaps", NUMBER),
            ("noise", NUMBER),
            ("of the time", NUMBER),
            ("p50", NUMBER),
            ("p90", NUMBER),
            ("p99", NUMBER),
            ("p99.9", NUMBER),
            ("longest", NUMBER),
            ("steal clock", NUMBER),
        ],
    );
    for cpu in run.summary().into_iter().flat_map(|summary| &summary.cpus) {
        let place = run.gathered.lanes.iter().position(|lane| *lane == cpu.cpu);
        let name = place.map_or_else(|| format!("CPU {}", cpu.cpu), |it| run.lane_name(it).into());
        table.rows.push(vec![
            words(name),
            time(cpu.runtime_ns),
            number(cpu.gaps),
            time(cpu.noise_ns),
            share_of(cpu.noise_percent),
            time(cpu.percentiles_ns.p50),
            time(cpu.percentiles_ns.p90),
            time(cpu.percentiles_ns.p99),
            time(cpu.percentiles_ns.p999),
            time(cpu.max_gap_ns),
            time(cpu.steal_clock_ns),
        ]);
    }
    table
}

fn latencies(run: &Run) -> Table {
    let mut table = Table::new(
        "Latencies, CPU by CPU",
        &[
            ("CPU", WORD),
            ("until", WORD),
            ("wake-ups", NUMBER),
            ("least", NUMBER),
            ("mean", NUMBER),
            ("p50", NUMBER),
            ("p99", NUMBER),
            ("p99.9", NUMBER),
            ("latest", NUMBER),
        ],
    );
    table.note =
        "From the planned expiry. The last line of a CPU is what it would have been had no \
                  task waited for the one before."
            .into();
    let wakeups = run.summary().and_then(|summary| summary.wakeups.as_ref());
    for cpu in wakeups.into_iter().flat_map(|wakeups| &wakeups.cpus) {
        for (until, figures) in [
            ("its interrupt", cpu.irq),
            ("switched in", cpu.thread),
            ("user space", cpu.user),
            ("user space, corrected", cpu.corrected),
        ] {
            let Some(it) = figures else { continue };
            table.rows.push(vec![
                words(format!("CPU {}", cpu.cpu)),
                words(until),
                number(it.count),
                time(it.min_ns),
                time(it.mean_ns),
                time(it.p50_ns),
                time(it.p99_ns),
                time(it.p999_ns),
                time(it.max_ns),
            ]);
        }
    }
    table
}

fn vcpus(run: &Run) -> Table {
    let mut table = Table::new(
        "Exits, vCPU by vCPU",
        &[
            ("vCPU", WORD),
            ("exits", NUMBER),
            ("to the VMM", NUMBER),
            ("in the guest", NUMBER),
            ("in exits", NUMBER),
            ("of its time", NUMBER),
            ("asleep", NUMBER),
            ("p50", NUMBER),
            ("p99", NUMBER),
            ("p99.9", NUMBER),
            ("longest", NUMBER),
        ],
    );
    table.note =
        "In exits: without the sleep that the guest asked for. Percentiles are of the exits \
                  that were recorded one by one."
            .into();
    let Outcome::Exits(exits) = &run.outcome else {
        return table;
    };
    for vm in &exits.exits.vms {
        for vcpu in &vm.vcpus {
            let place = run.gathered.lanes.iter().position(|tid| *tid == vcpu.tid);
            let lengths = place.map(|place| &run.gathered.lengths[place]);
            let noise_ns = noise_of(&vcpu.time_ns.taken);
            let all_ns = noise_ns + vcpu.time_ns.taken.halted + vcpu.time_ns.guest;
            table.rows.push(vec![
                words(vcpu_name(&vm.name, vcpu)),
                number(vcpu.exits),
                number(vcpu.heavy),
                time(vcpu.time_ns.guest),
                time(noise_ns),
                share_of(Some(part_of(noise_ns, all_ns))),
                time(vcpu.time_ns.taken.halted),
                time(lengths.map(|it| at(it, 0.5))),
                time(lengths.map(|it| at(it, 0.99))),
                time(lengths.map(|it| at(it, 0.999))),
                time(vcpu.reasons.iter().map(|reason| reason.max_ns).max()),
            ]);
        }
    }
    table
}

fn at(lengths: &Histogram<u64>, part: f64) -> u64 {
    lengths.value_at_quantile(part).min(lengths.max())
}

/// What a vCPU is called.
pub(crate) fn vcpu_name(vm: &str, vcpu: &VcpuExits) -> String {
    match vcpu.vcpu {
        Some(number) => format!("vCPU {number} of {vm}"),
        None => format!("thread {} of {vm}", vcpu.tid),
    }
}

/// What exits took, without the sleep that the guest asked for, in nanoseconds.
pub(crate) fn noise_of(taken: &Taken) -> u64 {
    [
        taken.kvm.unwrap_or(0),
        taken.vmm,
        taken.preempted,
        taken.blocked,
        taken.throttled,
        taken.host_irq,
        taken.host_softirq,
        taken.host_nmi,
    ]
    .iter()
    .sum()
}

fn takers(run: &Run) -> Table {
    if let Outcome::Joined(joined) = &run.outcome {
        let mut table = Table::new(
            "Who took it",
            &[
                ("side", WORD),
                ("who", WORD),
                ("as", WORD),
                ("its CPU", NUMBER),
                ("gaps", NUMBER),
                ("total", NUMBER),
                ("most at once", NUMBER),
                ("of the noise", NUMBER),
            ],
        );
        for it in joined.culprits.iter().take(TAKERS) {
            let side = match it.side {
                vmnoise_explain::Side::Guest => "guest",
                vmnoise_explain::Side::Host => "host",
                vmnoise_explain::Side::Unknown => "-",
            };
            table.rows.push(vec![
                words(side),
                words(it.name.as_deref().unwrap_or("-")),
                words(label(it.share)),
                number(it.cpu.map(u64::from)),
                number(it.gaps),
                time(it.total_ns),
                time(it.max_ns),
                share_of(Some(it.percent)),
            ]);
        }
        table.note = left_out(joined.culprits.len());
        return table;
    }
    let many = run.words().many;
    let mut table = Table::new(
        "Who took it",
        &[
            (run.words().lane, WORD),
            ("who", WORD),
            ("as", WORD),
            (many, NUMBER),
            ("total", NUMBER),
            ("most at once", NUMBER),
            ("of all", NUMBER),
        ],
    );
    let takers = run.takers();
    let total_ns: u64 = takers.iter().map(|taker| taker.total_ns).sum();
    for taker in takers.iter().take(TAKERS) {
        table.rows.push(vec![
            words(run.lane_name(taker.lane)),
            words(taker.name.as_deref().unwrap_or("-")),
            words(label(taker.share)),
            number(taker.moments),
            time(taker.total_ns),
            time(taker.max_ns),
            share_of(Some(part_of(taker.total_ns, total_ns))),
        ]);
    }
    table.note = left_out(takers.len());
    table
}

fn left_out(all: usize) -> String {
    match all.checked_sub(TAKERS) {
        None | Some(0) => String::new(),
        Some(more) => {
            format!("{more} smaller ones are left out; vmnoise explain --format json has them.")
        }
    }
}

/// Every share of each lane, `-` where nobody could see it.
fn shares(run: &Run) -> Table {
    let mut columns = vec![("share", WORD)];
    let mut totals: Vec<(String, Vec<Option<u64>>)> = Vec::new();
    if let Some(summary) = run.summary() {
        for cpu in &summary.cpus {
            let wakeups = summary.wakeups.as_ref();
            let of_wakeups = wakeups.and_then(|it| it.cpus.iter().find(|it| it.cpu == cpu.cpu));
            let shares = of_wakeups.map_or(&cpu.shares_ns, |it| &it.shares_ns);
            let known = Share::ALL.iter().map(|share| shares.get(*share));
            totals.push((format!("CPU {}", cpu.cpu), known.collect()));
        }
    }
    if totals.is_empty() || totals.len() > 16 {
        return Table::default();
    }
    let names: Vec<String> = totals.iter().map(|(name, _)| name.clone()).collect();
    columns.extend(names.iter().map(|name| (&**name, NUMBER)));
    let mut table = Table::new("Every share", &columns);
    table.note = "- is what could not be known here; it is not zero.".into();
    for (place, share) in Share::ALL.iter().enumerate() {
        let mut row = vec![words(label(*share))];
        row.extend(totals.iter().map(|(_, known)| time(known[place])));
        table.rows.push(row);
    }
    table
}

fn reasons(run: &Run) -> Table {
    let mut table = Table::new(
        "Exits by reason",
        &[
            ("vCPU", WORD),
            ("reason", WORD),
            ("exits", NUMBER),
            ("to the VMM", NUMBER),
            ("total", NUMBER),
            ("least", NUMBER),
            ("mean", NUMBER),
            ("p99", NUMBER),
            ("longest", NUMBER),
            ("KVM", NUMBER),
            ("VMM", NUMBER),
            ("preempted", NUMBER),
            ("asleep", NUMBER),
        ],
    );
    let Outcome::Exits(exits) = &run.outcome else {
        return table;
    };
    for vm in &exits.exits.vms {
        for vcpu in &vm.vcpus {
            for it in &vcpu.reasons {
                table.rows.push(vec![
                    words(vcpu_name(&vm.name, vcpu)),
                    words(it.name.clone()),
                    number(it.count),
                    number(it.heavy),
                    time(it.total_ns),
                    time(it.min_ns),
                    time(it.mean_ns),
                    time(it.p99_ns),
                    time(it.max_ns),
                    time(it.shares_ns.kvm),
                    time(it.shares_ns.vmm),
                    time(it.shares_ns.preempted),
                    time(it.shares_ns.halted),
                ]);
            }
        }
    }
    table
}

fn pairs(run: &Run) -> Table {
    let mut table = Table::new(
        "Which vCPU each CPU is, and what says so",
        &[
            ("CPU", WORD),
            ("VM", WORD),
            ("vCPU", NUMBER),
            ("exits tested", NUMBER),
            ("of them in a gap", NUMBER),
            ("by chance", NUMBER),
            ("clock bound", NUMBER),
            ("recorded by both", NUMBER),
        ],
    );
    let Outcome::Joined(joined) = &run.outcome else {
        return table;
    };
    for pair in &joined.pairs {
        table.rows.push(vec![
            words(format!("CPU {}", pair.cpu)),
            words(pair.vm.clone()),
            number(pair.vcpu.map(u64::from)),
            number(pair.exits_tested),
            number(pair.exits_inside),
            share_of(Some(pair.by_chance_percent)),
            time(pair.bound_ns),
            time(pair.overlap_ns),
        ]);
    }
    table
}

fn periodic(run: &Run) -> Table {
    let mut table = Table::new(
        "Periods in what no witness explains",
        &[
            ("CPU", WORD),
            ("every", NUMBER),
            ("for", NUMBER),
            ("jitter", NUMBER),
            ("times", NUMBER),
            ("of what is left over", NUMBER),
        ],
    );
    for found in run
        .summary()
        .into_iter()
        .flat_map(|summary| &summary.periodic)
    {
        table.rows.push(vec![
            words(format!("CPU {}", found.cpu)),
            Field {
                text: format!("{:.6} ms", found.period_ns as f64 / 1e6),
                rank: Some(found.period_ns as f64),
                is_number: true,
            },
            time(found.mean_gap_ns),
            time(found.jitter_ns),
            number(found.gaps),
            share_of(Some(found.share_of_residual * 100.0)),
        ]);
    }
    table
}

/// A number in words for the note under a chart.
pub(crate) fn some_of(shown: usize, all: usize, what: &str) -> String {
    match shown < all {
        true => format!(" The {shown} noisiest of {all} {what}s are drawn; the table has all."),
        false => String::new(),
    }
}

/// A duration for a note.
pub(crate) fn about(ns: u64) -> String {
    duration(ns)
}
