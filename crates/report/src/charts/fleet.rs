//! Charts of hosts, culprits and ranks of a fleet.

use serde_json::{Value, json};
use vmnoise_events::Share;

use super::{Chart, View, axes};
use crate::figures::{part_of, percent, sum};
use crate::fleet::{Fleet, Judged, Lot};
use crate::shares::{colour, label};

/// Largest number of bars in a chart.
const BARS: usize = 20;
const USUAL: &str = "#7f8f9f";
const OUT: &str = "#e4572e";

/// Returns the charts in the order of the page.
pub(crate) fn fleet(fleet: &Fleet) -> Vec<Chart> {
    let mut charts = vec![hosts(fleet), worst(fleet), takers(fleet), ranks(fleet)];
    charts.retain(|chart| !chart.views.is_empty());
    charts
}

/// Draws a point for each host, ordered by its loss: the smallest first.
fn hosts(fleet: &Fleet) -> Chart {
    let judged = &fleet.judged_hosts;
    let rising = judged.places.iter().rev();
    let points = (1..).zip(rising.map(|place| (*place, &fleet.hosts[*place])));
    Chart {
        title: "How much of its time each host lost",
        is_wide: false,
        note: "A point for each host, the quietest first. Hosts that stand out from their group are red.".into(),
        views: scatter(judged, points.collect(), "hosts, the smallest loss first"),
    }
}

/// Draws a point for each rank, ordered by the rank's number.
fn ranks(fleet: &Fleet) -> Chart {
    let judged = &fleet.judged_ranks;
    let mut places = judged.places.clone();
    places.sort_unstable();
    let points = places.into_iter().map(|place| {
        let lot = &fleet.ranks[place];
        (lot.rank, (place, lot))
    });
    Chart {
        title: "How much of its time each rank lost",
        is_wide: false,
        note: "All ranks wait for the one that loses most. Ranks that stand out are red.".into(),
        views: scatter(judged, points.collect(), "rank"),
    }
}

fn scatter(judged: &Judged, points: Vec<(u64, (usize, &Lot))>, along: &str) -> Vec<View> {
    let traces = [
        ("does not stand out", USUAL, false),
        ("stands out", OUT, true),
    ];
    let traces = traces.into_iter().filter_map(|(name, colour, is_out)| {
        let points = points.iter();
        let points: Vec<&(u64, (usize, &Lot))> = points
            .filter(|(_, (place, _))| judged.out.contains(place) == is_out)
            .collect();
        let lost = |lot: &Lot| lot.noise_percent().unwrap_or(0.0);
        let words = points
            .iter()
            .map(|(_, (_, lot))| format!("{}: {}", lot.name, percent(lost(lot))));
        (!points.is_empty()).then(|| {
            json!({
                "type": "scatter", "mode": "markers", "name": name,
                "x": points.iter().map(|(at, _)| *at).collect::<Vec<u64>>(),
                "y": points.iter().map(|(_, (_, lot))| short(lost(lot))).collect::<Vec<f64>>(),
                "marker": {"color": colour, "size": if is_out { 9 } else { 5 }},
                "text": words.collect::<Vec<String>>(), "hovertemplate": "%{text}",
            })
        })
    });
    let traces: Vec<Value> = traces.collect();
    // A chart needs at least two points.
    if points.len() < 2 {
        return Vec::new();
    }
    let layout = json!({
        "xaxis": axes::plain(along),
        "yaxis": {"title": {"text": "% of the runtime"}, "rangemode": "tozero"},
    });
    vec![View::new("", traces, layout)]
}

/// Draws the lost time of the hosts that lost the most, by share.
fn worst(fleet: &Fleet) -> Chart {
    let places = &fleet.judged_hosts.places;
    let shown: Vec<&Lot> = places
        .iter()
        .take(BARS)
        .map(|it| &fleet.hosts[*it])
        .collect();
    let names: Vec<&str> = shown.iter().rev().map(|host| &*host.name).collect();
    let traces = Share::ALL.into_iter().filter_map(|share| {
        let of_share = |host: &&Lot| {
            let takers = host.takers.iter().filter(|((it, _), _)| *it == share);
            part_of(
                sum(takers.map(|(_, taken)| taken.total_ns)),
                host.all.runtime_ns,
            )
        };
        let parts: Vec<f64> = shown.iter().rev().map(of_share).collect();
        let words: Vec<String> = parts.iter().map(|part| percent(*part)).collect();
        parts.iter().any(|part| *part > 0.0).then(|| {
            json!({
                "type": "bar", "orientation": "h", "name": label(share), "y": names,
                "x": parts.iter().map(|part| short(*part)).collect::<Vec<f64>>(),
                "marker": {"color": colour(share)},
                "hovertext": words, "hovertemplate": "%{hovertext}",
            })
        })
    });
    let traces: Vec<Value> = traces.collect();
    let layout = json!({
        "barmode": "stack", "height": 150 + 24 * names.len().max(4),
        "xaxis": axes::plain("% of the runtime"), "yaxis": axes::names(),
    });
    Chart {
        title: "Where the time of the worst hosts went",
        is_wide: false,
        note: match shown.len() {
            1 => "The host that lost most, by share.".into(),
            shown => format!("The {shown} hosts that lost most, by share."),
        },
        views: match traces.is_empty() {
            true => Vec::new(),
            false => vec![View::new("", traces, layout)],
        },
    }
}

/// Draws the culprits that took the most time on all hosts.
fn takers(fleet: &Fleet) -> Chart {
    let total_ns = sum(fleet.takers.iter().map(|(_, taken)| taken.total_ns));
    let shown = &fleet.takers[..fleet.takers.len().min(BARS)];
    let rising = shown.iter().rev();
    let names = rising.clone().map(|((share, who), _)| match who {
        Some(who) => format!("{who} ({})", label(*share)),
        None => label(*share).to_owned(),
    });
    let names: Vec<String> = names.collect();
    let words = rising.clone().map(|(_, taken)| {
        let part = percent(part_of(taken.total_ns, total_ns));
        format!("{part} of all, {} hosts", taken.lots)
    });
    let trace = json!({
        "type": "bar", "orientation": "h", "name": "took", "y": names, "showlegend": false,
        "x": rising.clone().map(|(_, taken)| short(part_of(taken.total_ns, total_ns))).collect::<Vec<f64>>(),
        "marker": {"color": rising.clone().map(|((share, _), _)| colour(*share)).collect::<Vec<_>>()},
        "hovertext": words.collect::<Vec<String>>(), "hovertemplate": "%{hovertext}",
    });
    let layout = json!({
        "height": 150 + 24 * names.len().max(4),
        "xaxis": axes::plain("% of all lost time"), "yaxis": axes::names(),
    });
    Chart {
        title: "Who took it, on all hosts together",
        is_wide: false,
        note: "The table below has the host with the largest part of each.".into(),
        views: match shown.is_empty() {
            true => Vec::new(),
            false => vec![View::new("", vec![trace], layout)],
        },
    }
}

/// Rounds off digits that are not visible.
fn short(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}
