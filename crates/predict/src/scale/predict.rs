//! The prediction, from hosts and a program to a table by ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::allreduce;
use super::band::{self, MANY_HOSTS};
use super::bounds::of_any_dependence;
use super::delays::Layer;
use super::measured::{Measured, measure};
use super::placement::{Part, Placement, parts};
use super::slowest::{Begins, Hosts, Slowest};
use super::suspects::{self, Suspect};
use crate::record::{Culprit, Record};
use crate::tail::Tail;
use crate::taken::Taken;

/// How often blocks are drawn for a band; fewer times where each draw is one of many rounds.
const DRAWS: usize = 200;
const FEW_DRAWS: usize = 40;

/// The CPUs of one recording.
#[derive(Debug)]
pub struct Host<'a> {
    /// On one clock.
    pub cpus: Vec<&'a Record>,
}

/// What ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// An ideal one: all go on when the last has come.
    Barrier,
    /// Recursive doubling, each round of which needs so much of a rank's CPU, nanoseconds.
    Allreduce {
        /// Not 0.
        round_ns: u64,
    },
}

/// A bulk-synchronous program.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// What a rank needs of its CPU in each step, nanoseconds; not 0.
    pub step_ns: u64,
    /// What ends a step.
    pub collective: Collective,
    /// Whether all hosts do at each moment what the recorded one did, which then has to be the only one.
    pub in_phase: bool,
}

/// What a prediction rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// On steps that the recordings hold.
    Recorded,
    /// On a tail fitted to the longest of them: more hosts than there were steps of hosts.
    Extrapolated,
    /// On nothing: as many hosts, and no tail that fits.
    Nothing,
}

/// What so many ranks come to. All times are means of a step, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct AtScale {
    /// How many.
    pub ranks: u64,
    /// On so many hosts.
    pub hosts: u64,
    /// How long a step takes where nothing is taken.
    pub undisturbed_ns: f64,
    /// How long it takes; `None` where nothing says so.
    pub step_ns: Option<f64>,
    /// Between what it lies in nine of ten draws of other blocks of time; `None` where there is nothing to
    /// draw from.
    pub band_ns: Option<(f64, f64)>,
    /// What that rests on.
    pub basis: Basis,
    /// Of a barrier, whatever joins the hosts, by what was recorded: the least and the most. `None` of an allreduce,
    /// and where the basis is not recorded.
    pub bounds_ns: Option<(f64, f64)>,
    /// How long it takes without each of the suspects, in their order; none where the basis is not recorded.
    pub without_ns: Vec<f64>,
}

/// A prediction.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// By ranks, as asked.
    pub scales: Vec<AtScale>,
    /// Who was tried.
    pub suspects: Vec<Suspect>,
    /// How many recorded hosts have ranks on all of their CPUs: it rests on these.
    pub measured_hosts: usize,
    /// Steps that these had one after the other, all together.
    pub host_steps: u64,
    /// Up to how many ranks the recordings carry; `None` is any number.
    pub carried_ranks: Option<u64>,
    /// What was fitted to the longest delays; `None` where they are too few, or all alike.
    pub tail: Option<Tail>,
    /// The longest delay of any step of any host, nanoseconds.
    pub longest_ns: u64,
}

/// All parts of hosts that have ranks, measured.
type Parts = BTreeMap<Part, (Measured, Option<Measured>)>;

/// Predicts. `None` where the run of a host is shorter than a step.
pub fn predict(hosts: &[Host<'_>], program: &Program, ranks: &[u64]) -> Option<Prediction> {
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
    // Each round of hosts has all of them once: the shortest run is the first of which there are no more steps.
    let rounds = whole.iter().map(|(_, it)| it.steps).min().unwrap_or(0);
    let of_round: u64 = whole.iter().map(|((_, used), _)| *used as u64).sum();
    let carried_ranks = rounds.saturating_mul(of_round);
    let measured_hosts = whole.len();
    let at_limit = whole.iter().map(|(_, it)| Hosts {
        delays: &it.delays,
        count: rounds as f64,
    });
    let (at_limit, _) = Slowest::of(&at_limit.collect::<Vec<_>>(), carried_ranks);
    let at_limit_ns = at_limit.mean_ns();
    let largest_ns = whole.iter().flat_map(|(_, it)| &it.largest_ns);
    let tail = Tail::fit_largest(host_steps, &largest_ns.copied().collect::<Vec<u64>>());

    let mut scales: Vec<AtScale> = placements
        .iter()
        .map(|placement| {
            let is_carried = program.in_phase || placement.ranks <= carried_ranks;
            let beyond = tail.as_ref().zip(Some(at_limit_ns));
            scale(&measured, program, placement, is_carried, beyond)
        })
        .collect();
    let longest_ns = measured.values().map(|(it, _)| it.longest_ns).max();
    drop(measured);
    for suspect in &suspects {
        let measured = measure_all(hosts, program, &placements, Some(&suspect.culprit))?;
        let carried = scales.iter_mut().zip(&placements);
        for (scale, placement) in carried.filter(|(it, _)| it.basis == Basis::Recorded) {
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

/// Whether a step, and a round of its collective, begins and ends in the run of this host.
pub fn has_a_step(host: &Host<'_>, program: &Program) -> bool {
    let taken: Vec<Taken<'_>> = host.cpus.iter().map(|record| record.taken()).collect();
    let has = |step_ns| measure(&taken, step_ns, false).is_some();
    has(program.step_ns)
        && match program.collective {
            Collective::Barrier => true,
            Collective::Allreduce { round_ns } => has(round_ns),
        }
}

/// With all that was taken, or as if somebody had taken nothing.
fn measure_all(
    hosts: &[Host<'_>],
    program: &Program,
    placements: &[Placement],
    without: Option<&Culprit>,
) -> Option<Parts> {
    let mut parts = parts(placements);
    // How many steps there were is known of whole hosts.
    parts.insert((0, hosts[0].cpus.len()));
    // Blocks of a thousand hosts would be gigabytes, and nothing is drawn from them.
    let few = placements.iter().filter(|it| it.hosts.len() < MANY_HOSTS);
    let few = few.flat_map(|it| it.hosts.iter().map(|(part, _)| *part));
    let in_blocks: BTreeSet<Part> = few.filter(|_| without.is_none()).collect();
    let parts = parts.into_iter();
    let measured = parts.map(|part| {
        let (host, used) = part;
        let records = hosts[host].cpus[..used].iter();
        let taken: Vec<Taken<'_>> = records
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

/// What a host takes in a round of an allreduce; `None` where there are none.
fn round(measured: &Parts, placement: &Placement, begins: &Begins) -> Option<Slowest> {
    let hosts = placement.count();
    let rounds = placement.hosts.iter().map(|(part, count)| {
        let round = measured[part].1.as_ref()?;
        Some((begins.of(&round.delays), count / hosts))
    });
    let rounds: Option<Vec<(Layer, f64)>> = rounds.collect();
    Some(Slowest::of_layers(rounds?.into_iter()))
}

/// The mean delay, nanoseconds, where the slowest host at the end of the step is this.
fn delay_ns(placement: &Placement, step: &Slowest, round: Option<&Slowest>) -> f64 {
    let hosts = placement.count();
    round.map_or_else(
        || step.mean_ns(),
        |round| allreduce::mean_delay_ns(&step.one_of(hosts), round, hosts, placement.ranks),
    )
}

/// `beyond`: the tail, and how late the slowest is of as many hosts as are carried.
fn scale(
    measured: &Parts,
    program: &Program,
    placement: &Placement,
    is_carried: bool,
    beyond: Option<(&Tail, f64)>,
) -> AtScale {
    let rounds_ns = match program.collective {
        Collective::Barrier => 0,
        Collective::Allreduce { round_ns } => {
            round_ns * u64::from(allreduce::rounds(placement.ranks))
        }
    };
    let undisturbed_ns = (program.step_ns + rounds_ns) as f64;
    let is_barrier = program.collective == Collective::Barrier;
    let (slowest, begins) = slowest(measured, placement);
    let parts = placement.hosts.iter();
    let layers = parts.map(|(part, count)| (begins.of(&measured[part].0.delays), *count));
    let (least_ns, most_ns) = of_any_dependence(&layers.collect::<Vec<_>>());
    let scale = AtScale {
        ranks: placement.ranks,
        hosts: placement.count() as u64,
        undisturbed_ns,
        step_ns: None,
        band_ns: None,
        basis: Basis::Nothing,
        bounds_ns: None,
        without_ns: Vec::new(),
    };
    if is_carried {
        let hosts = placement.hosts.iter();
        let hosts = hosts.map(|(part, count)| (&measured[part].0, *count));
        let round = round(measured, placement, &begins);
        let draws = if round.is_some() { FEW_DRAWS } else { DRAWS };
        let mean_ns =
            |slowest: &Slowest| undisturbed_ns + delay_ns(placement, slowest, round.as_ref());
        let step_ns = mean_ns(&slowest);
        let hosts: Vec<(&Measured, f64)> = hosts.collect();
        return AtScale {
            step_ns: Some(step_ns),
            band_ns: band::of(&hosts, &begins, draws, mean_ns, step_ns),
            basis: Basis::Recorded,
            bounds_ns: is_barrier.then_some((undisturbed_ns + least_ns, undisturbed_ns + most_ns)),
            ..scale
        };
    }
    let beyond = beyond.filter(|(tail, _)| tail.fits() && is_barrier);
    let extrapolated = beyond.and_then(|(tail, at_limit_ns)| {
        let delay_ns = tail.expected_max_ns(placement.count())?;
        let (low_ns, high_ns) = tail.band_of_max_ns(placement.count())?;
        // The slowest of more hosts is no less late.
        let [delay_ns, low_ns, high_ns] = [delay_ns, low_ns, high_ns].map(|ns| ns.max(at_limit_ns));
        Some((delay_ns, (low_ns, high_ns)))
    });
    match extrapolated {
        None => scale,
        Some((delay_ns, (low_ns, high_ns))) => AtScale {
            step_ns: Some(undisturbed_ns + delay_ns),
            band_ns: Some((undisturbed_ns + low_ns, undisturbed_ns + high_ns)),
            basis: Basis::Extrapolated,
            ..scale
        },
    }
}
