//! JSON document `vmnoise.run/1` (docs/json.md). Unknown values are null.

use std::collections::BTreeMap;

use serde::Serialize;
use vmnoise_events::coverage::BlindSpot;
use vmnoise_judge::fitness::{Fitness, LimitedFigure};
use vmnoise_views::{QuietCpu, RunEvidence, RunRate};

use super::budget::{part_of, part_of_longest, parts};
use super::{CommandResult, JudgedRun};

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    command: &'a str,
    verdict: Option<Fitness>,
    preflight: Option<&'a [QuietCpu]>,
    runs: Vec<Run<'a>>,
}

#[derive(Debug, Serialize)]
struct Run<'a> {
    verdict: Fitness,
    status: u8,
    wall_ns: u64,
    of_ns: u64,
    limits: Vec<Limit>,
    unseen: Vec<String>,
    blind_spots: Vec<BlindSpot>,
    taken_ns: Option<u64>,
    threads: u64,
    threads_wall_ns: Option<u64>,
    budget_ns: Option<BTreeMap<&'static str, u64>>,
    waited_ns: Option<Waits>,
    sources: Option<Vec<Source<'a>>>,
    longest: Option<Vec<Longest<'a>>>,
    most_of_one_ns: Option<u64>,
    contiguous_ns: Option<u64>,
    kernel: Kernel,
    rate: Option<&'a RunRate>,
    alive: Option<usize>,
    lost_events: Option<u64>,
    probe_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Limit {
    figure: &'static str,
    unit: &'static str,
    below: f64,
    least: f64,
    most: Option<f64>,
    verdict: Fitness,
}

/// Parts of the wait time in which no known task had the CPU.
#[derive(Debug, Serialize)]
struct Waits {
    idle: u64,
    steal: u64,
    unnamed: u64,
}

#[derive(Debug, Serialize)]
struct Source<'a> {
    name: &'a str,
    share: &'static str,
    count: u64,
    total_ns: u64,
    max_ns: u64,
}

#[derive(Debug, Serialize)]
struct Longest<'a> {
    share: &'static str,
    ns: u64,
    until_mono_ns: u64,
    name: Option<&'a str>,
}

/// Sums of the kernel's own accounting, which needs no BPF.
#[derive(Debug, Serialize)]
struct Kernel {
    ran_ns: u64,
    waited_ns: u64,
    preemptions: Option<u64>,
    machine_steal_ns: Option<u64>,
    groups_throttled_ns: Option<u64>,
}

impl<'a> Document<'a> {
    pub(super) fn new(result: &'a CommandResult) -> Document<'a> {
        Document {
            schema: "vmnoise.run/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            command: &result.command,
            verdict: result.runs.last().map(|run| run.judged.verdict),
            preflight: result.preflight.as_deref(),
            runs: result.runs.iter().map(Run::new).collect(),
        }
    }
}

impl<'a> Run<'a> {
    fn new(run: &'a JudgedRun) -> Run<'a> {
        let (done, evidence) = (&run.done, &run.evidence);
        let blind_spots = run.blind_spots();
        let mut document = Run {
            verdict: run.judged.verdict,
            status: done.ended.code(),
            wall_ns: done.wall_ns,
            of_ns: evidence.of_ns,
            limits: run.judged.judgements.iter().map(Limit::new).collect(),
            unseen: blind_spots.iter().map(BlindSpot::to_string).collect(),
            blind_spots,
            taken_ns: None,
            threads: 0,
            threads_wall_ns: None,
            budget_ns: None,
            waited_ns: None,
            sources: None,
            longest: None,
            most_of_one_ns: None,
            contiguous_ns: None,
            kernel: Kernel {
                ran_ns: 0,
                waited_ns: 0,
                preemptions: None,
                machine_steal_ns: None,
                groups_throttled_ns: None,
            },
            rate: done.rate.as_ref().ok(),
            alive: None,
            lost_events: None,
            probe_ns: None,
        };
        match &done.seen {
            RunEvidence::Read { found, .. } => {
                document.threads = found.threads;
                document.kernel = Kernel {
                    ran_ns: found.ran_ns,
                    waited_ns: found.waited_ns,
                    preemptions: Some(found.preemptions),
                    machine_steal_ns: found.machine_steal_ns,
                    groups_throttled_ns: found.throttled_ns,
                };
            }
            RunEvidence::Traced { look, .. } => {
                let books = look.books();
                document.taken_ns = Some(books.taken_ns());
                document.threads = books.threads;
                document.threads_wall_ns = Some(books.wall_ns);
                let parts = parts(&books).into_iter();
                document.budget_ns = Some(parts.map(|(name, ns, _)| (name, ns)).collect());
                document.waited_ns = Some(Waits {
                    idle: look.waits.idle_ns,
                    steal: look.waits.steal_ns,
                    unnamed: look.waits.unnamed_ns,
                });
                let sources = look.culprits.iter().map(|it| Source {
                    name: it.name.as_str(),
                    share: part_of(it.kind),
                    count: it.count,
                    total_ns: it.ns,
                    max_ns: it.longest_ns,
                });
                document.sources = Some(sources.collect());
                let longest = look.longest.iter().map(|it| Longest {
                    share: part_of_longest(it.taken),
                    ns: it.ns,
                    until_mono_ns: it.until_mono_ns,
                    name: it.who.as_ref().map(|who| who.as_str()),
                });
                document.longest = Some(longest.collect());
                document.most_of_one_ns = Some(look.most_of_one_ns());
                document.contiguous_ns = Some(look.contiguous_ns);
                document.kernel.ran_ns = books.kernel_ran_ns;
                document.kernel.waited_ns = books.kernel_waited_ns;
                document.alive = Some(look.alive.len());
                document.lost_events = Some(look.unpaired + look.missed + look.unfollowed);
                document.probe_ns = Some(look.probe_ns);
            }
        }
        document
    }
}

impl Limit {
    fn new(judgement: &vmnoise_judge::fitness::FitnessLimitResult) -> Limit {
        let (unit, scale) = match judgement.limit.figure {
            LimitedFigure::Noise => ("percent", 10_000.0),
            LimitedFigure::Max => ("ns", 1.0),
        };
        let value = |it: u64| it as f64 / scale;
        Limit {
            figure: judgement.limit.figure.name(),
            unit,
            below: value(judgement.limit.below),
            least: value(judgement.has.least),
            most: judgement.has.most.map(value),
            verdict: judgement.verdict,
        }
    }
}
