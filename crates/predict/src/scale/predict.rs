//! Predicts the slowdown of a program on recorded hosts, for several numbers of ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::allreduce;
use super::band::{self, Band, MANY_HOSTS};
use super::bounds::of_any_dependence;
use super::delays::Layer;
use super::measured::{Measured, measure};
use super::placement::{Part, Placement, parts};
use super::slowest::{Begins, Hosts, Slowest};
use super::suspects::{self, Suspect};
use crate::record::{CpuRecord, RecordCulprit};
use crate::tail::{Tail, TailWeight, judge_largest};
use crate::taken::TakenTime;

/// Minimum number of steps of all ranks together in the recorded time. The rank with the longest
/// delay decides the duration of each step. This number of steps shows how often each delay occurs.
/// The coverage test checks the bands with this number.
const LEAST_STEPS: u64 = 100;
/// Largest ratio of the upper to the lower end of a band. A wider band depends on a few gaps, and
/// another recording would have different gaps.
const WIDEST_BAND: f64 = 5.0;
/// Width of a band as a fraction of an undisturbed step. A band that is not wider may exceed
/// [`WIDEST_BAND`].
const NARROW_BAND: f64 = 0.01;

/// CPUs of one recorded host.
#[derive(Debug)]
pub struct HostCpus<'a> {
    /// Records of the CPUs, all on the same clock.
    pub cpus: Vec<&'a CpuRecord>,
}

/// Collective operation with which the ranks end a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// Ideal barrier: all ranks continue when the last rank has arrived.
    Barrier,
    /// Allreduce by recursive doubling, in rounds.
    Allreduce {
        /// CPU time of a rank in each round, in nanoseconds; not 0.
        round_ns: u64,
    },
}

/// A bulk-synchronous parallel program.
#[derive(Debug, Clone, Copy)]
pub struct BspProgram {
    /// CPU time of a rank in each step, in nanoseconds; not 0.
    pub step_ns: u64,
    /// Operation with which the ranks end each step.
    pub collective: Collective,
    /// Whether all hosts lose time at the same moments as the recorded host. If so, there must be
    /// only one recorded host.
    pub in_phase: bool,
}

/// Whether the recordings are sufficient for a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The recordings are sufficient.
    Recorded,
    /// The recordings are not sufficient.
    Nothing(WhyNot),
}

/// Reason why the recordings are not sufficient for a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNot {
    /// The distribution of the longest delays may have no variance. Then the mean depends on delays
    /// that were not recorded.
    HeavyTail,
    /// The longest delays do not show whether their distribution has a variance.
    UnknownTail,
    /// The recorded time contains fewer than a hundred steps of this number of ranks.
    FewSteps,
    /// A few gaps cause most of the delay, and another recording would have different gaps.
    FewGaps,
}

/// Prediction for one number of ranks. Durations are the mean of a step, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct AtScale {
    /// Number of ranks.
    pub ranks: u64,
    /// Number of hosts.
    pub hosts: u64,
    /// Duration of an undisturbed step, in nanoseconds.
    pub undisturbed_ns: f64,
    /// Predicted duration of a step, in nanoseconds; `None` if the recordings are not sufficient.
    pub step_ns: Option<f64>,
    /// Lower and upper bound, in nanoseconds, that contain the true mean in 90 of 100 recordings;
    /// `None` without a prediction, or if the run is too short for blocks.
    pub band_ns: Option<(f64, f64)>,
    /// Lower bound if there is no prediction, in nanoseconds: the true mean is above it in 95 of
    /// 100 recordings. `None` if the run is too short for blocks.
    pub at_least_ns: Option<f64>,
    /// Duration of a step if no gaps other than the recorded gaps ever occur, in nanoseconds. A
    /// simulation with the recorded gaps finds this duration.
    pub of_recorded_gaps_ns: f64,
    /// Whether the recordings are sufficient for a prediction.
    pub basis: Basis,
    /// Smallest and largest duration of a step with a barrier, in nanoseconds, for any dependence
    /// between the hosts; `None` for an allreduce, and without a prediction.
    pub bounds_ns: Option<(f64, f64)>,
    /// For each suspect, the duration of a step without the suspect's time, in nanoseconds. It is
    /// computed from the recorded gaps, in the order of [`Prediction::suspects`].
    pub without_ns: Vec<f64>,
}

/// Predictions for a program on recorded hosts.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// One prediction for each requested number of ranks.
    pub scales: Vec<AtScale>,
    /// Culprits for which the computation was repeated without their time.
    pub suspects: Vec<Suspect>,
    /// Number of recorded hosts with ranks on all of their CPUs. The prediction is based on these
    /// hosts.
    pub measured_hosts: usize,
    /// Number of consecutive steps that fit in the recordings of these hosts, in total.
    pub host_steps: u64,
    /// Largest number of ranks for which the recordings are sufficient, if steps are hardly longer
    /// than undisturbed steps; `None` if they are sufficient for any number.
    pub carried_ranks: Option<u64>,
    /// Tail that was fitted to the longest delays; `None` if there are too few delays, or the
    /// longest are alike.
    pub tail: Option<Tail>,
    /// Longest delay of any step on any host, in nanoseconds.
    pub longest_ns: u64,
}

/// Delays of all kinds of hosts that have ranks. The first value is for a step; the second is for a
/// round of an allreduce, if there is one.
type Parts = BTreeMap<Part, (Measured, Option<Measured>)>;

/// Predicts the slowdown of a program. Returns `None` if no step ends in the run of some host.
pub fn predict(hosts: &[HostCpus<'_>], program: &BspProgram, ranks: &[u64]) -> Option<Prediction> {
    let cpus: Vec<usize> = hosts.iter().map(|host| host.cpus.len()).collect();
    let placements = ranks.iter();
    let placements: Vec<Placement> = placements
        .map(|ranks| Placement::new(*ranks, &cpus, program.in_phase))
        .collect();
    let all_records = || hosts.iter().flat_map(|host| &host.cpus).copied();
    let suspects = suspects::of(all_records());
    let measured = measure_all(hosts, program, &placements, None)?;

    let whole = measured.iter();
    let whole = whole.filter(|((host, used), _)| *used == cpus[*host]);
    let whole: Vec<(&Part, &Measured)> = whole.map(|(part, (it, _))| (part, it)).collect();
    let host_steps = whole.iter().map(|(_, it)| it.steps).sum();
    // Each host is used equally often, so the host with the fewest steps limits the number of
    // ranks.
    let rounds = whole.iter().map(|(_, it)| it.steps).min().unwrap_or(0);
    let of_round: u64 = whole.iter().map(|((_, used), _)| *used as u64).sum();
    let carried_ranks = rounds.saturating_mul(of_round) / LEAST_STEPS;
    let measured_hosts = whole.len();
    let spans_ns = whole.iter().map(|(_, it)| it.span_ns).min();
    let recorded_ns = spans_ns.unwrap_or(0) as f64 * measured_hosts as f64;
    let largest_ns = whole.iter().flat_map(|(_, it)| &it.largest_ns);
    let largest_ns: Vec<u64> = largest_ns.copied().collect();
    let (tail_weight, tail) = judge_largest(host_steps, &largest_ns);

    let mut scales: Vec<AtScale> = placements
        .iter()
        .map(|placement| {
            let limits = Limits {
                tail_weight,
                recorded_ns,
            };
            scale(&measured, program, placement, &limits)
        })
        .collect();
    let longest_ns = measured.values().map(|(it, _)| it.longest_ns).max();
    drop(measured);
    for suspect in &suspects {
        let measured = measure_all(hosts, program, &placements, Some(&suspect.culprit))?;
        for (scale, placement) in scales.iter_mut().zip(&placements) {
            let (slowest, begins) = slowest(&measured, placement);
            let round = round(&measured, placement, &begins);
            let delay_ns = delay_ns(placement, &slowest, round.as_ref());
            scale.without_ns.push(scale.undisturbed_ns + delay_ns);
        }
    }
    Some(Prediction {
        scales,
        suspects,
        measured_hosts,
        host_steps,
        carried_ranks: (!program.in_phase).then_some(carried_ranks),
        tail,
        longest_ns: longest_ns.unwrap_or(0),
    })
}

/// Returns whether at least one step of the program, and one round of its allreduce, fits in the
/// run of this host.
pub fn has_a_step(host: &HostCpus<'_>, program: &BspProgram) -> bool {
    let taken: Vec<TakenTime<'_>> = host.cpus.iter().map(|record| record.taken()).collect();
    let has = |step_ns| measure(&taken, step_ns, false).is_some();
    has(program.step_ns)
        && match program.collective {
            Collective::Barrier => true,
            Collective::Allreduce { round_ns } => has(round_ns),
        }
}

/// Measures the delays of all kinds of hosts. If `without` is given, this culprit counts as if it
/// had taken nothing.
fn measure_all(
    hosts: &[HostCpus<'_>],
    program: &BspProgram,
    placements: &[Placement],
    without: Option<&RecordCulprit>,
) -> Option<Parts> {
    let mut parts = parts(placements);
    // The number of steps of the first host is needed with ranks on all of its CPUs.
    parts.insert((0, hosts[0].cpus.len()));
    // Blocks are not used if there are many hosts. For a thousand hosts they would need gigabytes.
    let few = placements.iter().filter(|it| it.hosts.len() < MANY_HOSTS);
    let few = few.flat_map(|it| it.hosts.iter().map(|(part, _)| *part));
    let in_blocks: BTreeSet<Part> = few.filter(|_| without.is_none()).collect();
    let parts = parts.into_iter();
    let measured = parts.map(|part| {
        let (host, used) = part;
        let records = hosts[host].cpus[..used].iter();
        let taken: Vec<TakenTime<'_>> = records
            .map(|record| match without {
                None => record.taken(),
                Some(culprit) => record.taken_by(|it| it.whatever_number() != *culprit),
            })
            .collect();
        let step = measure(&taken, program.step_ns, in_blocks.contains(&part))?;
        let round = match program.collective {
            Collective::Barrier => None,
            Collective::Allreduce { round_ns } => Some(measure(&taken, round_ns, false)?),
        };
        Some((part, (step, round)))
    });
    measured.collect()
}

fn slowest(measured: &Parts, placement: &Placement) -> (Slowest, Begins) {
    let hosts = placement.hosts.iter().map(|(part, count)| Hosts {
        delays: &measured[part].0.delays,
        count: *count,
    });
    Slowest::of(&hosts.collect::<Vec<_>>(), placement.own_ranks())
}

/// Returns the delay of a host in a round of an allreduce; `None` if the operation is a barrier.
fn round(measured: &Parts, placement: &Placement, begins: &Begins) -> Option<Slowest> {
    let hosts = placement.count();
    let rounds = placement.hosts.iter().map(|(part, count)| {
        let round = measured[part].1.as_ref()?;
        Some((begins.of(&round.delays), count / hosts))
    });
    let rounds: Option<Vec<(Layer, f64)>> = rounds.collect();
    Some(Slowest::of_layers(rounds?.into_iter()))
}

/// Returns the mean delay of the program's step, in nanoseconds, from the delay of the slowest host
/// in the computation and of one host in a round.
fn delay_ns(placement: &Placement, step: &Slowest, round: Option<&Slowest>) -> f64 {
    let hosts = placement.count();
    round.map_or_else(
        || step.mean_ns(),
        |round| allreduce::mean_delay_ns(&step.one_of(hosts), round, hosts, placement.ranks),
    )
}

/// Facts that limit the number of ranks for which the recordings are sufficient.
struct Limits {
    /// Whether the distribution of delays has a variance.
    tail_weight: TailWeight,
    /// Total duration of the recordings of all hosts, in nanoseconds.
    recorded_ns: f64,
}

impl Limits {
    /// Returns why steps of this duration on this number of hosts cannot be predicted. `None` means
    /// that the prediction only depends on the width of the band, and on [`Limits::unknown_tail`].
    fn why_not(&self, hosts: f64, step_ns: f64) -> Option<WhyNot> {
        match self.tail_weight {
            TailWeight::Heavy => Some(WhyNot::HeavyTail),
            TailWeight::Light | TailWeight::Unknown => {
                (self.supported_part(hosts, step_ns) < 1.0).then_some(WhyNot::FewSteps)
            }
        }
    }

    /// Returns the reason for no prediction if the tail is unknown. It is the last reason, because
    /// the others say more exactly what the recordings lack.
    fn unknown_tail(&self) -> Option<WhyNot> {
        (self.tail_weight == TailWeight::Unknown).then_some(WhyNot::UnknownTail)
    }

    /// Returns the fraction of this number of hosts for which the recordings are sufficient, with
    /// steps of this duration. It is more than 1 if they are sufficient for more hosts.
    fn supported_part(&self, hosts: f64, step_ns: f64) -> f64 {
        // While a step lasts, the gaps of that time occur on each host.
        self.recorded_ns / (hosts * step_ns * LEAST_STEPS as f64)
    }
}

/// Returns whether a few gaps cause most of the delay.
fn is_of_few_gaps(band: &Band, undisturbed_ns: f64) -> bool {
    band.high_ns > WIDEST_BAND * band.low_ns
        && band.high_ns - band.low_ns > NARROW_BAND * undisturbed_ns
}

/// Returns the band of the delay with a barrier, for as many of these hosts as the recordings
/// support. Returns `None` if the recorded time has no groups, or there is no delay.
///
/// The lower end of this band is a lower bound for all hosts and all operations. No rank continues
/// before the slowest rank has ended the step, however long the rounds take, and more hosts are
/// never faster. For more hosts than supported, the jackknife would wrongly assume that no gap is
/// longer than the longest recorded gaps.
fn least_barrier(
    measured: &Parts,
    placement: &Placement,
    limits: &Limits,
    step_ns: f64,
) -> Option<Band> {
    let supported = placement.part(limits.supported_part(placement.count(), step_ns));
    let (slowest, begins) = slowest(measured, &supported);
    let hosts = supported.hosts.iter();
    let hosts: Vec<(&Measured, f64)> = hosts
        .map(|(part, count)| (&measured[part].0, *count))
        .collect();
    band::of(&hosts, &begins, Slowest::mean_ns, slowest.mean_ns())
}

fn scale(
    measured: &Parts,
    program: &BspProgram,
    placement: &Placement,
    limits: &Limits,
) -> AtScale {
    let rounds_ns = match program.collective {
        Collective::Barrier => 0,
        Collective::Allreduce { round_ns } => {
            round_ns * u64::from(allreduce::rounds(placement.ranks))
        }
    };
    let undisturbed_ns = (program.step_ns + rounds_ns) as f64;
    let (slowest, begins) = slowest(measured, placement);
    let round = round(measured, placement, &begins);
    let mean_ns = |slowest: &Slowest| delay_ns(placement, slowest, round.as_ref());
    let of_recorded_gaps_ns = undisturbed_ns + mean_ns(&slowest);
    let hosts = placement.hosts.iter();
    let hosts: Vec<(&Measured, f64)> = hosts
        .map(|(part, count)| (&measured[part].0, *count))
        .collect();
    let nothing = AtScale {
        ranks: placement.ranks,
        hosts: placement.count() as u64,
        undisturbed_ns,
        step_ns: None,
        band_ns: None,
        at_least_ns: None,
        of_recorded_gaps_ns,
        basis: Basis::Recorded,
        bounds_ns: None,
        without_ns: Vec::new(),
    };
    let why_not = limits.why_not(placement.count(), of_recorded_gaps_ns);
    let band = match why_not {
        None => band::of(&hosts, &begins, mean_ns, mean_ns(&slowest)),
        Some(_) => None,
    };
    let is_wide = band.is_some_and(|it| is_of_few_gaps(&it, undisturbed_ns));
    let few_gaps = is_wide.then_some(WhyNot::FewGaps);
    if let Some(why_not) = why_not.or(few_gaps).or(limits.unknown_tail()) {
        let barrier = least_barrier(measured, placement, limits, of_recorded_gaps_ns);
        return AtScale {
            at_least_ns: barrier.map(|it| undisturbed_ns + it.low_ns),
            basis: Basis::Nothing(why_not),
            ..nothing
        };
    }
    let is_barrier = program.collective == Collective::Barrier;
    let layers = placement.hosts.iter();
    let layers = layers.map(|(part, count)| (begins.of(&measured[part].0.delays), *count));
    let (least_ns, most_ns) = of_any_dependence(&layers.collect::<Vec<_>>());
    AtScale {
        step_ns: Some(of_recorded_gaps_ns),
        band_ns: band.map(|it| (undisturbed_ns + it.low_ns, undisturbed_ns + it.high_ns)),
        bounds_ns: is_barrier.then_some((undisturbed_ns + least_ns, undisturbed_ns + most_ns)),
        ..nothing
    }
}
