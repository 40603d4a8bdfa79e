//! JSON document `vmnoise.scale/1` (docs/json.md).

use serde::Serialize;
use vmnoise_events::Policy;
use vmnoise_events::coverage::{BlindSpot, Question, RunEnd};
use vmnoise_predict::scale::{AtScale, Basis, Collective, Suspect, WhyNot};
use vmnoise_predict::tail::Tail;

use super::{ScalePrediction, gains_percent, slowdown_percent};
use crate::json;
use crate::recorded::ReadRecording;

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    is_lower_bound: bool,
    recordings: Vec<RecordingOf<'a>>,
    program: ProgramOf,
    carried_ranks: Option<u64>,
    host_steps: u64,
    longest_delay_ns: u64,
    tail: Option<TailOf>,
    suspects: Vec<SuspectOf<'a>>,
    scales: Vec<ScaleOf>,
}

#[derive(Debug, Serialize)]
struct RecordingOf<'a> {
    #[serde(flatten)]
    recorded: json::DocumentSubject<'a>,
    threshold_ns: u64,
    blind_spots: Vec<BlindSpot>,
    lost_gaps: u64,
    lost_witnesses: u64,
    complete: bool,
    measured: Vec<CpuOf>,
}

#[derive(Debug, Serialize)]
struct CpuOf {
    cpu: u32,
    span_ns: u64,
    unseen_ns: u64,
    gaps: usize,
    incomplete_gaps: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ProgramOf {
    step_ns: u64,
    collective: &'static str,
    round_ns: Option<u64>,
    co_scheduled: bool,
}

#[derive(Debug, Serialize)]
struct TailOf {
    fits: bool,
    heavy: bool,
    p: f64,
    shape: f64,
    scale_ns: f64,
    threshold_ns: f64,
    peaks: usize,
}

#[derive(Debug, Serialize)]
struct SuspectOf<'a> {
    share: &'static str,
    name: Option<&'a str>,
    total_ns: u64,
    most_ns: u64,
    gaps: u64,
}

#[derive(Debug, Serialize)]
struct ScaleOf {
    ranks: u64,
    hosts: u64,
    undisturbed_ns: f64,
    step_ns: Option<f64>,
    slowdown_percent: Option<f64>,
    band_ns: Option<[f64; 2]>,
    at_least_ns: Option<f64>,
    of_recorded_gaps_ns: f64,
    basis: &'static str,
    why_not: Option<&'static str>,
    least_ns: Option<f64>,
    most_ns: Option<f64>,
    without: Vec<WithoutOf>,
}

#[derive(Debug, Serialize)]
struct WithoutOf {
    suspect: usize,
    step_ns: f64,
    gain_percent: f64,
}

impl<'a> Document<'a> {
    pub(super) fn new(predicted: &'a ScalePrediction<'a>) -> Document<'a> {
        let ScalePrediction {
            recordings,
            program,
            prediction,
        } = *predicted;
        let (collective, round_ns) = match program.collective {
            Collective::Barrier => ("barrier", None),
            Collective::Allreduce { round_ns } => ("allreduce", Some(round_ns)),
        };
        Document {
            schema: "vmnoise.scale/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            is_lower_bound: !predicted.blind_spots().is_empty(),
            recordings: recordings.iter().map(RecordingOf::new).collect(),
            program: ProgramOf {
                step_ns: program.step_ns,
                collective,
                round_ns,
                co_scheduled: program.in_phase,
            },
            carried_ranks: prediction.carried_ranks,
            host_steps: prediction.host_steps,
            longest_delay_ns: prediction.longest_ns,
            tail: prediction.tail.as_ref().map(TailOf::new),
            suspects: prediction.suspects.iter().map(SuspectOf::new).collect(),
            scales: prediction.scales.iter().map(ScaleOf::new).collect(),
        }
    }
}

impl<'a> RecordingOf<'a> {
    fn new(recorded: &'a ReadRecording) -> RecordingOf<'a> {
        let coverage = &recorded.coverage;
        let cpus = recorded.cpus.iter().map(|cpu| CpuOf {
            cpu: cpu.record.cpu,
            span_ns: cpu.record.span_ns(),
            unseen_ns: cpu.unseen_ns,
            gaps: cpu.record.gaps(),
            incomplete_gaps: cpu.incomplete_gaps,
        });
        RecordingOf {
            recorded: json::DocumentSubject::of(&recorded.file, &recorded.origin),
            threshold_ns: coverage.threshold_ns,
            blind_spots: coverage.blind_spots(Question::TakenFrom(Policy::Other(0))),
            lost_gaps: coverage.lost.gaps,
            lost_witnesses: coverage.lost.names,
            complete: coverage.end == RunEnd::InOrder && coverage.clock.went_back_at_ns.is_none(),
            measured: cpus.collect(),
        }
    }
}

impl TailOf {
    fn new(tail: &Tail) -> TailOf {
        TailOf {
            fits: tail.fits(),
            heavy: tail.is_heavy(),
            p: tail.p_value(),
            shape: tail.shape,
            scale_ns: tail.scale_ns,
            threshold_ns: tail.threshold_ns,
            peaks: tail.peaks,
        }
    }
}

impl<'a> SuspectOf<'a> {
    fn new(suspect: &'a Suspect) -> SuspectOf<'a> {
        SuspectOf {
            share: suspect.culprit.share.name(),
            name: suspect.culprit.name.as_deref(),
            total_ns: suspect.total_ns,
            most_ns: suspect.most_ns,
            gaps: suspect.gaps,
        }
    }
}

impl ScaleOf {
    fn new(scale: &AtScale) -> ScaleOf {
        let without = scale.without_ns.iter().zip(gains_percent(scale));
        ScaleOf {
            ranks: scale.ranks,
            hosts: scale.hosts,
            undisturbed_ns: scale.undisturbed_ns,
            step_ns: scale.step_ns,
            slowdown_percent: scale.step_ns.map(|ns| slowdown_percent(scale, ns)),
            band_ns: scale.band_ns.map(<[f64; 2]>::from),
            at_least_ns: scale.at_least_ns,
            of_recorded_gaps_ns: scale.of_recorded_gaps_ns,
            basis: match scale.basis {
                Basis::Recorded => "recorded",
                Basis::Nothing(_) => "nothing",
            },
            why_not: match scale.basis {
                Basis::Recorded => None,
                Basis::Nothing(WhyNot::HeavyTail) => Some("heavy_tail"),
                Basis::Nothing(WhyNot::UnknownTail) => Some("unknown_tail"),
                Basis::Nothing(WhyNot::FewSteps) => Some("few_steps"),
                Basis::Nothing(WhyNot::FewGaps) => Some("few_gaps"),
            },
            least_ns: scale.bounds_ns.map(|it| it.0),
            most_ns: scale.bounds_ns.map(|it| it.1),
            without: without
                .enumerate()
                .map(|(suspect, (step_ns, gain_percent))| WithoutOf {
                    suspect,
                    step_ns: *step_ns,
                    gain_percent,
                })
                .collect(),
        }
    }
}
