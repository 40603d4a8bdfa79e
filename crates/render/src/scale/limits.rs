//! Basis and limitations of a prediction, with one line for each.

use vmnoise_events::human;
use vmnoise_predict::scale::{AtScale, Basis, Collective, Prediction, WhyNot};

use super::ScalePrediction;
use crate::recorded::ReadRecording;

/// Returns the lines in the order in which they are printed.
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
    lines.extend(unobserved(recordings));
    let cpus = recordings.iter().flat_map(|it| &it.cpus);
    let witnesses: u64 = recordings.iter().map(|it| it.coverage.lost.names).sum();
    let incomplete: u64 = cpus.filter_map(|cpu| cpu.incomplete_gaps).sum();
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

/// Least part of a CPU's time that is printed, in percent. Smaller parts are rounded up.
const LEAST_UNSEEN_PERCENT: f64 = 0.01;

/// Returns how much time was unobserved; `None` if all time was observed. Almost every recording
/// has some such time, so its amount alone does not make a prediction a lower bound.
fn unobserved(recordings: &[ReadRecording]) -> Option<String> {
    let cpus = recordings.iter().flat_map(|it| &it.cpus);
    let parts = cpus.map(|cpu| cpu.unseen_ns as f64 / cpu.record.span_ns().max(1) as f64);
    let percent = 100.0 * parts.fold(0.0, f64::max);
    (percent > 0.0).then(|| {
        format!(
            "unobserved time, {:.2} % of a CPU's time at most, is in no figure; record while the machine is quieter",
            percent.max(LEAST_UNSEEN_PERCENT)
        )
    })
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

/// Returns a line for each reason why rows have no figure, with the remedy.
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
    let unknown = first(WhyNot::UnknownTail).map(|_| unknown_tail(prediction));
    let steps = first(WhyNot::FewSteps).map(|ranks| {
        format!(
            "few steps: the recordings hold fewer than 100 steps of {ranks} ranks: record for longer, or more hosts"
        )
    });
    let gaps = first(WhyNot::FewGaps).map(|ranks| {
        format!("few gaps: a few gaps make most of what {ranks} ranks lose: record for longer")
    });
    let all = [heavy, unknown, steps, gaps];
    all.into_iter().flatten().collect()
}

fn unknown_tail(prediction: &Prediction) -> String {
    let delays = match prediction.tail {
        Some(tail) => format!("the longest {} delays do not", tail.peaks),
        None => "fewer than 50 long delays do not".into(),
    };
    format!(
        "unknown tail: {delays} show whether gaps that were not recorded decide the mean: record for longer, or more hosts"
    )
}
