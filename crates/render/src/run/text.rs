//! Result of `run` as text for people.

use vmnoise_events::{FamilyCulprit, FamilyLook, FamilyTaken, human, shown_lines};
use vmnoise_judge::fitness::{Fitness, FitnessLimitResult, LimitedFigure, Range};
use vmnoise_views::{FromProc, RunEvidence, RunRate};

use super::budget::{part_of, part_of_longest, parts};
use super::{CommandResult, JudgedRun};
use crate::table;

/// Maximum number of culprits that are printed.
const CULPRITS: usize = 8;

pub(super) fn render(result: &CommandResult) -> String {
    let mut text = String::new();
    for cpu in result.preflight.iter().flatten() {
        let noise = cpu
            .noise_percent
            .map_or("-".to_owned(), |it| format!("{it:.3} %"));
        let max = cpu.max_gap_ns.map_or("-".to_owned(), human);
        let by = cpu
            .most_by
            .as_deref()
            .map_or(String::new(), |it| format!(", most by {it}"));
        let rate = cpu
            .rate_lost_percent
            .map_or("-".to_owned(), |it| format!("{it:.3} %"));
        text += &format!(
            "before: CPU {}: noise {noise}, longest {max}{by}; rate {rate} below that of its fastest ms\n",
            cpu.cpu
        );
    }
    for run in &result.runs {
        text += &one(&result.command, run);
    }
    shown_lines(&text).to_string()
}

fn one(command: &str, run: &JudgedRun) -> String {
    let verdict = words(run.judged.verdict);
    let wall_ns = run.done.wall_ns;
    let mut text = format!("{verdict}: {command}: {}, ", human(wall_ns));
    text += &match &run.done.seen {
        RunEvidence::Traced { look, .. } => {
            let books = look.books();
            format!(
                "{} taken ({:.3} % of its {}), {} {}\n",
                human(books.taken_ns()),
                percent(books.taken_ns(), run.evidence.of_ns),
                if run.evidence.of_ns > wall_ns {
                    "threads' time"
                } else {
                    "time"
                },
                books.threads,
                if books.threads == 1 {
                    "thread"
                } else {
                    "threads"
                }
            )
        }
        RunEvidence::Read { .. } => "not traced\n".to_owned(),
    };
    text += &table::of(&run.judged.judgements, |it| {
        it.words("limit of", |it| it.limit.figure.name().into())
            .figure("below", |it| value(it, it.limit.below))
            .figure("has", |it| range(it, it.has))
            .words("", |it| words(it.verdict).into())
    });
    match &run.done.seen {
        RunEvidence::Traced { look, .. } => text += &traced(look, run.evidence.of_ns),
        RunEvidence::Read { found, .. } => text += &from_proc(found),
    }
    for spot in run.blind_spots() {
        text += &format!(" {spot}\n");
    }
    text + &format!(" rate, in no figure above: {}\n", rate(&run.done.rate))
}

fn rate(rate: &Result<RunRate, String>) -> String {
    let rate = match rate {
        Ok(rate) => rate,
        Err(why) => return format!("not measured: {why}"),
    };
    let lost = match rate
        .lost_percent
        .zip(rate.best_frequency)
        .zip(rate.frequency)
    {
        Some(((lost, best), had)) => format!(
            "{lost:.3} % lost by frequencies below the highest of the run ({had:.3} of {best:.3} times the TSC's)"
        ),
        None => "the loss by lower frequencies is unknown".to_owned(),
    };
    let work = rate.instructions_per_cycle.map_or(String::new(), |it| {
        format!("; {it:.3} instructions per cycle (a busy sibling, caches and memory reduce them)")
    });
    let counted = rate
        .counted_percent
        .filter(|it| *it < 99.5)
        .map_or(String::new(), |it| {
            format!("; counted for {it:.1} % of the time")
        });
    let of = match rate.own_code {
        true => "; only of its own code, without the kernel's",
        false => "",
    };
    format!("{lost}{work}{counted}{of}")
}

fn traced(look: &FamilyLook, of_ns: u64) -> String {
    let books = look.books();
    let parts = parts(&books);
    let shown: Vec<_> = parts.iter().filter(|(_, ns, _)| *ns > 0).collect();
    let mut text = table::of(&shown, |it| {
        it.words("threads", |(name, ..)| (*name).into())
            .figure("total", |(_, ns, _)| human(*ns))
            .figure("%", |(_, ns, _)| {
                format!("{:.3}", percent(*ns, books.wall_ns))
            })
            .words("", |(_, _, taken)| if *taken { "taken" } else { "" }.into())
    });
    let culprits = &look.culprits[..look.culprits.len().min(CULPRITS)];
    if !culprits.is_empty() {
        text += &table::of(culprits, |it| {
            it.words("source", |it: &FamilyCulprit| it.name.as_str().into())
                .words("share", |it| part_of(it.kind).into())
                .count("count", |it| it.count)
                .figure("total", |it| human(it.ns))
                .figure("%", |it| format!("{:.3}", percent(it.ns, of_ns)))
                .figure("longest", |it| human(it.longest_ns))
        });
    }
    for (what, ns) in [
        ("the CPU idled before a thread got it", look.waits.idle_ns),
        (
            "the hypervisor had the CPU during others' turns",
            look.waits.steal_ns,
        ),
        ("culprit unknown", look.waits.unnamed_ns),
    ] {
        if ns > 0 {
            text += &format!(" waited, {what}: {}\n", human(ns));
        }
    }
    if let Some(longest) = look.longest.iter().max_by_key(|it| it.ns) {
        let who = match (longest.taken, longest.who.as_ref()) {
            (FamilyTaken::Wait, Some(who)) => format!(", until {who} left the CPU"),
            (_, Some(who)) => format!(", {who}"),
            (_, None) => String::new(),
        };
        text += &format!(
            " longest of one kind: {} {}{who}\n",
            human(longest.ns),
            part_of_longest(longest.taken)
        );
    }
    let longest_ns = look.longest.iter().map(|it| it.ns).max().unwrap_or(0);
    if look.contiguous_ns > longest_ns {
        text += &format!(
            " longest without 5 us of running in between, waits and interrupts together: {}\n",
            human(look.contiguous_ns)
        );
    }
    if books.threads > 1 {
        text += &format!(
            " most time taken from one thread: {}\n",
            human(look.most_of_one_ns())
        );
    }
    if !look.alive.is_empty() {
        text += &format!(
            " {} of its threads went on after its end: their time since their last event is unknown, unless they slept\n",
            look.alive.len()
        );
    }
    text + &format!(
        " the kernel says: ran {}, waited {}; tracing cost {}\n",
        human(books.kernel_ran_ns),
        human(books.kernel_waited_ns),
        human(look.probe_ns)
    )
}

fn from_proc(found: &FromProc) -> String {
    let steal = found.machine_steal_ns.map_or("-".to_owned(), human);
    let throttled = found
        .throttled_ns
        .filter(|it| *it > 0)
        .map_or(String::new(), |it| {
            format!(
                " quotas held back its control groups for at least {}, all CPUs together\n",
                human(it)
            )
        });
    format!(
        " the kernel says of {} threads: ran {}, waited {} (for others or for one another), preempted {} times; steal \
         time of all CPUs meanwhile: {steal}\n{throttled}",
        found.threads,
        human(found.ran_ns),
        human(found.waited_ns),
        found.preemptions
    )
}

fn percent(ns: u64, of_ns: u64) -> f64 {
    ns as f64 * 100.0 / of_ns.max(1) as f64
}

fn words(fitness: Fitness) -> &'static str {
    match fitness {
        Fitness::Fit => "fit",
        Fitness::Unfit => "unfit",
        Fitness::CannotTell => "cannot tell",
    }
}

fn value(judgement: &FitnessLimitResult, value: u64) -> String {
    match judgement.limit.figure {
        LimitedFigure::Noise => format!("{:.4} %", value as f64 / 10_000.0),
        LimitedFigure::Max => human(value),
    }
}

fn range(judgement: &FitnessLimitResult, has: Range) -> String {
    let least = value(judgement, has.least);
    match has.most.map(|most| value(judgement, most)) {
        Some(most) if most == least => least,
        Some(most) => format!("{least} to {most}"),
        None => format!("{least} or more"),
    }
}
