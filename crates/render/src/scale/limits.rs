//! Basis and limitations of a prediction, one line each.

use vmnoise_events::human;
use vmnoise_predict::scale::{AtScale, Basis, Collective, WhyNot};

use super::ScalePrediction;

/// Returns the lines in printing order.
pub(super) fn lines(predicted: &ScalePrediction<'_>) -> Vec<String> {
    let ScalePrediction {
        recordings,
        prediction,
        ..
    } = predicted;
    let mut lines = vec![carried(predicted)];
    lines.extend(why_not(predicted));
    let thresholds = || recordings.iter().map(|it| it.coverage.threshold_ns);
    if let Some((least_ns, most_ns)) = thresholds().min().zip(thresholds().max()) {
        let below = match least_ns == most_ns {
            true => human(least_ns),
            false => format!("{} to {}, by host,", human(least_ns), human(most_ns)),
        };
        lines.push(format!(
            "gaps below {below} were not recorded, and are in no figure"
        ));
    }
    for (file, spot) in predicted.blind_spots() {
        lines.push(format!(
            "CANNOT TELL more than a lower bound: {file}: {spot}"
        ));
    }
    let cpus = || recordings.iter().flat_map(|it| &it.cpus);
    let unseen = cpus().map(|cpu| cpu.unseen_ns as f64 / cpu.record.span_ns().max(1) as f64);
    let unseen = unseen.fold(0.0, f64::max);
    if unseen >= 0.000_1 {
        lines.push(format!(
            "{:.2} % of a CPU's time at most was not observed: time taken then is in no figure",
            100.0 * unseen
        ));
    }
    let witnesses: u64 = recordings.iter().map(|it| it.coverage.lost.names).sum();
    let incomplete: u64 = cpus().filter_map(|cpu| cpu.incomplete_gaps).sum();
    if witnesses > 0 || incomplete > 0 {
        lines.push(format!(
            "{witnesses} events were lost, and {incomplete} gaps lack some of their culprits: removing a \
             culprit may gain more than shown"
        ));
    }
    if predicted.program.collective != Collective::Barrier
        && prediction.longest_ns > predicted.program.step_ns / 10
    {
        lines.push(format!(
            "an allreduce is an estimate, which may be twice too high for gaps as long as these ({} at most)",
            human(prediction.longest_ns)
        ));
    }
    if prediction
        .scales
        .iter()
        .any(|it| it.band_ns.is_none() && it.basis == Basis::Recorded)
    {
        lines.push("no band: a twentieth of the run has too few steps; record for longer".into());
    }
    lines
}

fn carried(predicted: &ScalePrediction<'_>) -> String {
    let prediction = predicted.prediction;
    let steps = match prediction.measured_hosts {
        1 => format!("{} consecutive steps", prediction.host_steps),
        hosts => format!("{} steps of {hosts} hosts", prediction.host_steps),
    };
    match prediction.carried_ranks {
        Some(ranks) => {
            format!("{steps}: they support up to {ranks} ranks, and fewer if steps take longer")
        }
        None => format!("{steps}, on all hosts at the same moments"),
    }
}

/// Returns why some rows have no figure, and what to do; one line for each reason.
fn why_not(predicted: &ScalePrediction<'_>) -> Vec<String> {
    let prediction = predicted.prediction;
    let first = |why_not: WhyNot| {
        let is_so = |it: &&AtScale| it.basis == Basis::Nothing(why_not);
        prediction.scales.iter().find(is_so).map(|it| it.ranks)
    };
    let heavy = first(WhyNot::HeavyTail).zip(prediction.tail);
    let heavy = heavy.map(|(_, tail)| {
        format!(
            "heavy tail: the longest {} delays have a shape of {:.2}, and from 0.5 on no recording shows their mean: find \
             who makes the longest gaps",
            tail.peaks, tail.shape
        )
    });
    let steps = first(WhyNot::FewSteps).map(|ranks| {
        format!(
            "few steps: the recordings hold fewer than 100 steps of {ranks} ranks: record for longer, or more hosts"
        )
    });
    let gaps = first(WhyNot::FewGaps).map(|ranks| {
        format!("few gaps: a few gaps make most of what {ranks} ranks lose: record for longer")
    });
    [heavy, steps, gaps].into_iter().flatten().collect()
}
