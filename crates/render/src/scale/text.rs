//! Prediction as text for people.

use vmnoise_events::human;
use vmnoise_predict::scale::{AtScale, Basis, Collective, Suspect, WhyNot};

use super::{ScalePrediction, called, gains_percent, limits, slowdown_percent};
use crate::table;

/// Smallest gain that is shown, in percent.
const NO_GAIN: f64 = 0.005;

/// Renders the prediction; the text ends with a newline.
pub(super) fn render(predicted: &ScalePrediction<'_>) -> String {
    let prediction = predicted.prediction;
    let mut text = head(predicted);
    text += &table::of(&prediction.scales, |it| {
        it.count("ranks", |scale| scale.ranks)
            .count("hosts", |scale| scale.hosts)
            .figure("slowdown", |scale| percent(scale, scale.step_ns))
            .figure("90 % band", band)
            .figure("in phase", |scale| {
                percent(scale, scale.bounds_ns.map(|it| it.0))
            })
            .figure("at worst", |scale| {
                percent(scale, scale.bounds_ns.map(|it| it.1))
            })
            .words("removing", |scale| {
                best(scale, &prediction.suspects).0.into()
            })
            .figure("gains", |scale| best(scale, &prediction.suspects).1)
            .words("", |scale| basis(scale.basis).into())
    });
    text += "\nCulprits that were tried\n";
    let scales = gained(&prediction.scales);
    let tried: Vec<(usize, &Suspect)> = prediction.suspects.iter().enumerate().collect();
    text += &table::of(&tried, |it| {
        let it = it
            .words("removing", |(_, suspect)| called(&suspect.culprit).into())
            .count("in gaps", |(_, suspect)| suspect.gaps)
            .time("took", |(_, suspect)| Some(suspect.total_ns))
            .time("most in a gap", |(_, suspect)| Some(suspect.most_ns));
        scales.iter().fold(it, |it, scale| {
            let title = format!("gains at {}", scale.ranks);
            it.figure(title, |(place, _)| gain(gains_percent(scale)[*place]))
        })
    });
    text += "\nBasis and limits\n";
    for line in limits::lines(predicted) {
        text += &format!("  {line}\n");
    }
    text
}

fn head(predicted: &ScalePrediction<'_>) -> String {
    let ScalePrediction {
        recordings,
        program,
        ..
    } = predicted;
    let cpus: usize = recordings.iter().map(|it| it.cpus.len()).sum();
    let spans = recordings.iter().map(|it| it.shortest_ns());
    let of = match &recordings[..] {
        [only] => only.file.clone(),
        all => format!("{} hosts", all.len()),
    };
    let end = match program.collective {
        Collective::Barrier => "a barrier".to_owned(),
        Collective::Allreduce { round_ns } => {
            format!(
                "an allreduce, which needs {} in each round",
                human(round_ns)
            )
        }
    };
    let hosts = match program.in_phase {
        true => "All hosts lose time at the same moments",
        false => "Hosts are independent of one another",
    };
    format!(
        "{of}: {cpus} {}, for {} at least\n\
         A step needs {} of each rank's CPU and ends with {end}. {hosts}.\n",
        if cpus == 1 { "CPU" } else { "CPUs" },
        human(spans.min().unwrap_or(0)),
        human(program.step_ns),
    )
}

/// Returns the first, the middle and the last scale that has a prediction.
fn gained(scales: &[AtScale]) -> Vec<&AtScale> {
    let known: Vec<&AtScale> = scales.iter().filter(|it| it.step_ns.is_some()).collect();
    let mut places = vec![0, known.len() / 2, known.len().saturating_sub(1)];
    places.dedup();
    places
        .into_iter()
        .filter_map(|it| known.get(it).copied())
        .collect()
}

fn percent(scale: &AtScale, step_ns: Option<f64>) -> String {
    step_ns.map_or("-".into(), |ns| {
        format!("{:.2} %", slowdown_percent(scale, ns))
    })
}

fn band(scale: &AtScale) -> String {
    let percent = |ns| slowdown_percent(scale, ns).max(0.0);
    match (scale.band_ns, scale.at_least_ns) {
        (Some((low_ns, high_ns)), _) => {
            format!("{:.2} to {:.2}", percent(low_ns), percent(high_ns))
        }
        (None, Some(least_ns)) => format!("{:.2} or more", percent(least_ns)),
        (None, None) => "-".into(),
    }
}

/// Returns the suspect whose removal gains most, and the gain. Both are `-` without a prediction or
/// without a gain.
fn best(scale: &AtScale, suspects: &[Suspect]) -> (String, String) {
    let gains = match scale.step_ns {
        Some(_) => gains_percent(scale),
        None => Vec::new(),
    };
    let best = gains
        .iter()
        .zip(suspects)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match best {
        Some((gained, suspect)) if *gained >= NO_GAIN => (called(&suspect.culprit), gain(*gained)),
        _ => ("-".into(), "-".into()),
    }
}

fn gain(percent: f64) -> String {
    format!("{percent:.2} %")
}

const fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Recorded => "recorded",
        Basis::Nothing(WhyNot::HeavyTail) => "heavy tail",
        Basis::Nothing(WhyNot::UnknownTail) => "unknown tail",
        Basis::Nothing(WhyNot::FewSteps) => "few steps",
        Basis::Nothing(WhyNot::FewGaps) => "few gaps",
    }
}
