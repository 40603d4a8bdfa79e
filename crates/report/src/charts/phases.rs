//! Charts of wake-ups by phase. For joined recordings, each phase is divided into the time of guest
//! and host.

use serde_json::{Value, json};
use vmnoise_explain::PhaseSides;

use super::{Chart, View, axes, drawn};
use crate::figures::{duration, part_of, percent};
use crate::phases::{self, CpuPhases, colour, label};
use crate::run::ReportedRun;
use crate::tables::some_of;

/// Returns the name, the colour and the time in nanoseconds of each side.
const fn sides(of: PhaseSides) -> [(&'static str, &'static str, u64); 3] {
    [
        ("the guest", "#1f9e89", of.guest_ns),
        ("its host", "#e4572e", of.host_ns),
        ("unknown", "#a7b0ba", of.unknown_ns),
    ]
}

/// Draws the phases of an average wake-up.
pub(super) fn phases(run: &ReportedRun) -> Chart {
    let all = phases::by_cpu(run);
    let lanes = drawn(run);
    let is_drawn = |cpu: &&CpuPhases| {
        lanes
            .iter()
            .any(|lane| run.gathered.lanes[*lane] == cpu.cpu)
    };
    let named = |cpu: &CpuPhases| (run.name_of(cpu.cpu), cpu.clone());
    let mut cpus: Vec<(String, CpuPhases)> = all.iter().filter(is_drawn).map(named).collect();
    if let Some(together) = phases::together(&all).filter(|_| all.len() > 1) {
        cpus.insert(0, (format!("all {}s", run.words().lane), together));
    }
    cpus.retain(|(_, cpu)| cpu.total_ns() > 0);
    let shown = some_of(lanes.len(), all.len(), run.words().lane);
    let is_joined = run.latencies().is_some();
    let what = match is_joined {
        true => "each phase, divided between guest and host",
        false => "its phases",
    };
    Chart {
        title: "What an average wake-up consists of",
        is_wide: true,
        note: format!("From the planned expiry to user space: {what}.{shown}"),
        views: match is_joined {
            true => cpus.iter().map(|(name, cpu)| by_side(name, cpu)).collect(),
            false if cpus.is_empty() => Vec::new(),
            false => vec![by_phase(&cpus)],
        },
    }
}

/// Draws a bar for each CPU, divided by phase.
fn by_phase(cpus: &[(String, CpuPhases)]) -> View {
    let names: Vec<&str> = cpus.iter().rev().map(|(name, _)| &**name).collect();
    let mut traces = Vec::new();
    for place in 0..6 {
        let sums = cpus.iter().rev().map(|(_, cpu)| {
            let ns = cpu.phases[place].total_ns.unwrap_or(0);
            (ns, cpu)
        });
        let phase = cpus[0].1.phases[place].phase;
        traces.extend(bars(label(phase), colour(phase), &names, sums));
    }
    stacked(traces, names.len())
}

/// Draws a bar for each phase, divided by side.
fn by_side(name: &str, cpu: &CpuPhases) -> View {
    let reported = cpu.phases.iter().rev();
    let reported = reported.filter(|it| it.total_ns.is_some_and(|ns| ns > 0));
    let names: Vec<&str> = reported.clone().map(|it| label(it.phase)).collect();
    let traces = sides(PhaseSides::default()).into_iter().enumerate();
    let traces = traces.filter_map(|(side, (what, colour, _))| {
        let of = reported
            .clone()
            .map(|it| sides(it.sides.unwrap_or_default()));
        let sums = of.map(|it| (it[side].2, cpu));
        bars(what, colour, &names, sums)
    });
    View {
        name: name.to_owned(),
        ..stacked(traces.collect(), names.len())
    }
}

/// Draws the parts of all bars that have one colour; `None` if all are empty.
fn bars<'a>(
    name: &str,
    colour: &'static str,
    names: &[&str],
    sums: impl Iterator<Item = (u64, &'a CpuPhases)>,
) -> Option<Value> {
    let sums: Vec<(u64, &CpuPhases)> = sums.collect();
    let spans = sums.iter().map(|(ns, cpu)| {
        let of_all = percent(part_of(*ns, cpu.total_ns()));
        format!(
            "{}, {of_all} of all lateness",
            duration(ns / cpu.count.max(1))
        )
    });
    let spans: Vec<String> = spans.collect();
    let means_s = sums.iter().map(|(ns, cpu)| mean_s(*ns, cpu.count));
    let means_s: Vec<f64> = means_s.collect();
    means_s.iter().any(|mean| *mean > 0.0).then(|| {
        json!({
            "type": "bar", "orientation": "h", "name": name, "x": means_s, "y": names,
            "marker": {"color": colour}, "hovertext": spans, "hovertemplate": "%{hovertext}",
        })
    })
}

fn stacked(traces: Vec<Value>, bars: usize) -> View {
    let layout = json!({
        "barmode": "stack", "height": 150 + 34 * bars.max(4),
        "xaxis": axes::plain_lengths("of an average wake-up"), "yaxis": axes::names(),
    });
    View::new("", traces, layout)
}

/// Returns the mean in seconds, rounded to a tenth of a nanosecond.
fn mean_s(total_ns: u64, count: u64) -> f64 {
    (total_ns as f64 * 10.0 / count.max(1) as f64).round() / 1e10
}
