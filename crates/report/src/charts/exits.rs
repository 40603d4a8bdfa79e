//! Charts of exits by reason: the time that each reason takes, and the lengths of its exits.

use std::collections::BTreeMap;

use serde_json::json;
use vmnoise_events::Share;
use vmnoise_explain::{ExitsRun, ReasonExits};

use super::{Chart, View, axes, distribution};
use crate::figures::sum;
use crate::shares::{colour, label};

/// Number of reasons that the charts show.
const REASONS: usize = 12;

/// Groups the exits of all vCPUs by reason.
fn by_reason(run: &ExitsRun) -> Vec<(String, Vec<&ReasonExits>)> {
    let mut reasons: BTreeMap<&str, Vec<&ReasonExits>> = BTreeMap::new();
    let vcpus = run.exits.vms.iter().flat_map(|vm| &vm.vcpus);
    for reason in vcpus.flat_map(|vcpu| &vcpu.reasons) {
        reasons.entry(&reason.name).or_default().push(reason);
    }
    let mut reasons: Vec<(String, Vec<&ReasonExits>)> = reasons
        .into_iter()
        .map(|(name, of)| (name.to_owned(), of))
        .collect();
    reasons.sort_by_key(|(_, of)| std::cmp::Reverse(sum(of.iter().map(|it| it.total_ns))));
    reasons.truncate(REASONS);
    reasons
}

/// Returns a chart of the time of each exit reason, by share.
pub(super) fn reasons(run: &ExitsRun) -> Chart {
    let mut reasons = by_reason(run);
    reasons.reverse(); // Bars go from the bottom up.
    let names: Vec<String> = reasons
        .iter()
        .map(|(name, of)| {
            let count = sum(of.iter().map(|it| it.count));
            format!("{name} ({})", crate::figures::count(count))
        })
        .collect();
    let mut views = Vec::new();
    for (view, asleep) in [("without sleep", false), ("with sleep", true)] {
        let mut traces = Vec::new();
        // Parts of a bar, from its bottom to its top.
        for share in Share::OF_EXITS.into_iter().chain([Share::Unexplained]) {
            let sums: Vec<f64> = reasons
                .iter()
                .map(|(_, of)| sum(of.iter().filter_map(|it| it.shares_ns[share])) as f64 / 1e9)
                .collect();
            let is_left_out = share == Share::Halted && !asleep;
            if is_left_out || sums.iter().all(|it| *it == 0.0) {
                continue;
            }
            traces.push(json!({
                "type": "bar", "orientation": "h", "name": label(share), "x": sums, "y": names,
                "marker": {"color": colour(share)}, "hovertemplate": "%{x:.6f} s",
            }));
        }
        if !traces.is_empty() {
            let layout = json!({
                "barmode": "stack", "xaxis": axes::plain("all together (s)"), "yaxis": axes::names(),
            });
            views.push(View::new(view, traces, layout));
        }
    }
    Chart {
        title: "Why the guests were left",
        is_wide: false,
        note:
            "The time of each exit reason by share, all vCPUs together. The number of exits is in parentheses."
                .into(),
        views,
    }
}

/// Returns a chart of the lengths of exits, by reason.
pub(super) fn tails(run: &ExitsRun) -> Chart {
    let lines: Vec<(String, Vec<(u64, u64)>)> = by_reason(run)
        .into_iter()
        .map(|(name, of)| {
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            for (edge_ns, count) in of.iter().flat_map(|it| &it.histogram) {
                let all = counts.entry(*edge_ns).or_default();
                *all = sum([*all, *count]);
            }
            (name, counts.into_iter().collect())
        })
        .collect();
    Chart {
        title: "How long the exits of each reason were",
        is_wide: false,
        note: "The part of the exits for a reason that is longer than each length. The kernel counts every \
               exit, so lost records change nothing. Sleep that the guest asked for is included."
            .into(),
        views: match lines.is_empty() {
            true => Vec::new(),
            false => vec![distribution::tails(&lines, "length of an exit")],
        },
    }
}
