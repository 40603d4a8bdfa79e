//! The page.

use anyhow::Result;
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::{Measured, cdf, range_us, who_made, worst};
use crate::scenario::Published;
use crate::verdict;

const STYLE: &str = include_str!("../../templates/style.css");

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    style: &'static str,
    /// The page may use this style and nothing else.
    style_hash: String,
    scenarios: Vec<Part>,
}

struct Part {
    title: String,
    source: String,
    verdicts: Vec<VerdictRow>,
    published: Vec<Published>,
    rows: Vec<CellRow>,
    drawing: String,
    failures: Vec<Failure>,
    made_by: String,
}

struct VerdictRow {
    text: String,
    source: String,
    verdict: String,
    class: &'static str,
    quotients: String,
}

struct CellRow {
    cell: String,
    samples: u64,
    worst: String,
    median: String,
    p99: String,
    short: String,
    who: String,
    published: Vec<String>,
}

struct Failure {
    cell: String,
    why: String,
}

pub(super) fn page(all: &[Measured]) -> Result<String> {
    let page = Page {
        style: STYLE,
        style_hash: STANDARD.encode(Sha256::digest(STYLE)),
        scenarios: all.iter().map(part).collect(),
    };
    Ok(page.render()?)
}

fn part(measured: &Measured) -> Part {
    let scenario = &measured.scenario;
    let versions = measured.cells.iter().flat_map(|it| &it.repetitions);
    let mut kernels: Vec<&str> = versions.map(|it| &*it.kernel).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let seeds = measured.cells.first().map_or(0, |it| it.seed);
    Part {
        title: scenario.title.clone(),
        source: scenario.source.clone(),
        verdicts: verdicts(measured),
        published: scenario.published.clone(),
        rows: rows(measured),
        drawing: cdf::drawing(measured).unwrap_or_default(),
        failures: failures(measured),
        made_by: format!(
            "measured kernels {}; seed {seeds}; {} s of machine time",
            kernels.join(", "),
            measured.cells.iter().map(|it| it.took_ms).sum::<u64>() / 1000
        ),
    }
}

fn verdicts(measured: &Measured) -> Vec<VerdictRow> {
    let judged = measured.scenario.conclusion.iter().map(|conclusion| {
        let [of, by] = [&conclusion.of, &conclusion.by].map(|cell| measured.repetitions(cell));
        let judged = verdict::judge(conclusion, of, by);
        let quotients = judged.quotients.map_or(String::new(), |[least, most]| {
            let bound = [
                ("at most", conclusion.at_most),
                ("at least", conclusion.at_least),
            ];
            let bound = bound.into_iter();
            let bound = bound.filter_map(|(word, it)| Some(format!(", has to be {word} {}", it?)));
            let (of, by) = (&conclusion.of, &conclusion.by);
            let bound: String = bound.collect();
            format!("{of} / {by} = {least:.3} to {most:.3}{bound}")
        });
        VerdictRow {
            text: conclusion.text.clone(),
            source: conclusion.source.clone(),
            class: match judged.verdict {
                verdict::Verdict::Reproduced => "yes",
                verdict::Verdict::NotReproduced => "no",
                verdict::Verdict::CannotBeJudged(_) => "open",
            },
            verdict: judged.verdict.to_string(),
            quotients,
        }
    });
    judged.collect()
}

fn rows(measured: &Measured) -> Vec<CellRow> {
    let cells = measured.cells.iter().filter(|it| it.failure.is_none());
    let rows = cells.map(|ended| {
        let all = &ended.repetitions;
        let published = measured.scenario.published.iter();
        let published = published.map(|it| it.cells.get(&ended.cell).map(ToString::to_string));
        let short = all
            .iter()
            .map(|it| format!("{:.2}", 100.0 * it.part_within(50_000)));
        CellRow {
            cell: ended.cell.clone(),
            samples: all.iter().map(|it| it.count()).sum(),
            worst: range_us(all, |it| it.worst_ns),
            median: range_us(all, |it| it.quantile_ns(0.5)),
            p99: range_us(all, |it| it.quantile_ns(0.99)),
            short: short.collect::<Vec<_>>().join(", "),
            who: worst(all).map_or(String::new(), who_made),
            published: published.map(Option::unwrap_or_default).collect(),
        }
    });
    rows.collect()
}

fn failures(measured: &Measured) -> Vec<Failure> {
    let failed = measured.cells.iter().filter_map(|ended| {
        Some(Failure {
            cell: ended.cell.clone(),
            why: ended.failure.clone()?,
        })
    });
    failed.collect()
}
