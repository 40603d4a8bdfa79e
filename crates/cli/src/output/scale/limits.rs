//! Basis and limitations of a prediction, one line each.

use vmnoise_predict::scale::{Basis, Collective};

use super::Predicted;
use crate::units::human;

/// Returns the lines in printing order.
pub(super) fn lines(predicted: &Predicted<'_>) -> Vec<String> {
    let Predicted {
        recordings,
        prediction,
        ..
    } = predicted;
    let mut lines = vec![carried(predicted)];
    lines.extend(beyond(predicted));
    let thresholds = || recordings.iter().map(|it| it.coverage.threshold_ns);
    if let Some((least_ns, most_ns)) = thresholds().min().zip(thresholds().max()) {
        let below = match least_ns == most_ns {
            true => human(least_ns),
            false => format!("{} to {}, by host,", human(least_ns), human(most_ns)),
        };
        lines.push(format!(
            "gaps below {below} were not looked for, and are in no figure"
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
            "for {:.2} % of the time at most nobody looked at a CPU: what was taken then is in no figure",
            100.0 * unseen
        ));
    }
    let witnesses: u64 = recordings.iter().map(|it| it.coverage.lost.names).sum();
    let incomplete: u64 = cpus().filter_map(|cpu| cpu.incomplete_gaps).sum();
    if witnesses > 0 || incomplete > 0 {
        lines.push(format!(
            "{witnesses} events were lost, and {incomplete} gaps lack some of those who took them: \
             removing these may gain more than told"
        ));
    }
    if predicted.program.collective != Collective::Barrier
        && prediction.longest_ns > predicted.program.step_ns / 10
    {
        lines.push(format!(
            "an allreduce is an estimate, and may be twice too high with gaps as long as these ({} at most)",
            human(prediction.longest_ns)
        ));
    }
    if prediction
        .scales
        .iter()
        .any(|it| it.band_ns.is_none() && it.basis == Basis::Recorded)
    {
        lines.push("no band: a twentieth of the run holds too few steps to draw from".into());
    }
    lines
}

fn carried(predicted: &Predicted<'_>) -> String {
    let prediction = predicted.prediction;
    let steps = match prediction.measured_hosts {
        1 => format!("{} steps one after the other", prediction.host_steps),
        hosts => format!("{} steps of {hosts} hosts", prediction.host_steps),
    };
    match prediction.carried_ranks {
        Some(ranks) => format!("{steps}: they carry up to {ranks} ranks"),
        None => format!("{steps}, on all hosts at the same moments"),
    }
}

/// Returns the line about scales beyond the recordings, and whether they are predicted.
fn beyond(predicted: &Predicted<'_>) -> Option<String> {
    let prediction = predicted.prediction;
    let recorded = |basis| basis == Basis::Recorded;
    let beyond = prediction.scales.iter().find(|it| !recorded(it.basis))?;
    Some(match (beyond.basis, &prediction.tail) {
        (Basis::Extrapolated, Some(tail)) => format!(
            "beyond them it is extrapolated: a tail of shape {:.2} fits the longest {} delays (p = {:.2})",
            tail.shape,
            tail.peaks,
            tail.p_value()
        ),
        (_, Some(tail)) if !tail.fits() => format!(
            "beyond them nothing is said: no tail fits the longest {} delays (p = {:.2}); record for longer",
            tail.peaks,
            tail.p_value()
        ),
        (_, Some(tail)) if tail.shape >= 1.0 => format!(
            "beyond them nothing is said: the tail that fits (shape {:.2}) has no mean; record for longer",
            tail.shape
        ),
        (_, Some(_)) => {
            "beyond them nothing is said of an allreduce: record for longer, or ask for a barrier".into()
        }
        (_, None) => {
            "beyond them nothing is said: delays are too few, or too much alike, for a tail; record for longer"
                .into()
        }
    })
}
