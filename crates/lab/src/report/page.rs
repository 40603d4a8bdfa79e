//! HTML page of the report.

use anyhow::Result;
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::banner::{Banner, banners};
use super::cdf;
use super::measured::{Measured, judged, why_not};
use super::words::{beside, noise_percent, quantile_us, range_us, who_made, worst};
use crate::accel::Accel;
use crate::folder::CellEnd;
use crate::scenario::PublishedTable;
use crate::verdict::PaperVerdict;

const STYLE: &str = include_str!("../../templates/style.css");

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    style: &'static str,
    /// Hash of the style sheet. The page's policy allows this style sheet and nothing else.
    style_hash: String,
    banners: Vec<Banner>,
    scenarios: Vec<Part>,
}

struct Part {
    title: String,
    source: String,
    verdicts: Vec<VerdictRow>,
    published: Vec<PublishedTable>,
    has_noise: bool,
    rows: Vec<CellRow>,
    drawing: String,
    without: Vec<Without>,
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
    accel: Accel,
    samples: u64,
    worst: String,
    median: String,
    p99: String,
    short: String,
    noise: String,
    who: String,
    published: Vec<String>,
}

struct Without {
    cell: String,
    why: String,
    /// Full text of a failure.
    whole: String,
}

pub(super) fn page(all: &[Measured]) -> Result<String> {
    let page = Page {
        style: STYLE,
        style_hash: STANDARD.encode(Sha256::digest(STYLE)),
        banners: banners(all),
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
    let mut made_with: Vec<String> = measured.cells.iter().map(CellEnd::made_with).collect();
    made_with.sort_unstable();
    made_with.dedup();
    Part {
        title: scenario.title.clone(),
        source: scenario.source.clone(),
        verdicts: verdicts(measured),
        published: scenario.published.clone(),
        has_noise: measured.has_noise(),
        rows: rows(measured),
        drawing: cdf::drawing(measured).unwrap_or_default(),
        without: without(measured),
        made_by: format!(
            "measured kernels {}; {}; {} s of machine time",
            kernels.join(", "),
            made_with.join(", "),
            measured.cells.iter().map(|it| it.took_ms).sum::<u64>() / 1000
        ),
    }
}

fn verdicts(measured: &Measured) -> Vec<VerdictRow> {
    let judged = measured.scenario.conclusion.iter().map(|conclusion| {
        let judged = judged(measured, conclusion);
        let quotients = judged.quotients.map_or(String::new(), |[least, most]| {
            let bound = [
                ("at most", conclusion.at_most),
                ("at least", conclusion.at_least),
            ];
            let bound = bound.into_iter();
            let bound = bound.filter_map(|(word, it)| Some(format!(", has to be {word} {}", it?)));
            let by = conclusion.by.as_ref().map(|by| format!(" / {by}"));
            let (of, by) = (&conclusion.of, by.unwrap_or_default());
            let (what, bound) = (conclusion.statistic, bound.collect::<String>());
            format!("{what}: {of}{by} = {least:.3} to {most:.3}{bound}")
        });
        VerdictRow {
            text: conclusion.text.clone(),
            source: conclusion.source.clone(),
            class: match judged.verdict {
                PaperVerdict::Reproduced => "yes",
                PaperVerdict::NotReproduced => "no",
                PaperVerdict::CannotBeJudged(_) => "open",
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
        let published = published.map(|it| beside(it, &ended.cell, all));
        let short = all
            .iter()
            .map(|it| format!("{:.2}", 100.0 * it.part_within(50_000)));
        CellRow {
            cell: ended.cell.clone(),
            accel: ended.accel,
            samples: all.iter().map(|it| it.count()).sum(),
            worst: range_us(all.iter().map(|it| it.worst_ns)),
            median: quantile_us(all, 0.5),
            p99: quantile_us(all, 0.99),
            short: short.collect::<Vec<_>>().join(", "),
            noise: noise_percent(all),
            who: worst(all).map_or(String::new(), who_made),
            published: published.map(Option::unwrap_or_default).collect(),
        }
    });
    rows.collect()
}

/// Returns the cells that have no figures, and the reason for each.
fn without(measured: &Measured) -> Vec<Without> {
    let cells = measured.scenario.cells().into_iter();
    let names = cells.map(|cell| cell.name());
    let without = names.filter(|cell| measured.repetitions(cell).is_empty());
    let reasons = without.map(|cell| Without {
        why: why_not(measured, &cell),
        whole: measured.failure(&cell).unwrap_or_default().to_owned(),
        cell,
    });
    reasons.collect()
}
