//! Frame of `microvm` and `osnoise`: the noise of each CPU, and the longest gaps.

use std::collections::BTreeMap;

use vmnoise_console::units::seconds;
use vmnoise_events::column::Columns;
use vmnoise_events::{RunFacts, human};
use vmnoise_explain::{NamedInterval, PeriodLine};
use vmnoise_views::{News, Period};

use super::FrameSource;
use super::interval::{LongestIntervals, gap, gap_columns, most};
use super::snapshot::{FrameRow, FrameWords, Snapshot, cells, headings, index};
use crate::summary_view::largest;

/// Noise of one CPU in one period.
struct Line<'a> {
    line: &'a PeriodLine,
    max_so_far_ns: u64,
    outer_steal_ns: Option<u64>,
}

fn columns<'a>() -> Columns<'static, Line<'a>> {
    let known = |ns: u64| Some(ns).filter(|ns| *ns > 0);
    Columns::<Line<'a>>::default()
        .ranked("CPU", |it| index(it.line.cpu))
        .percent("noise %", |it| Some(level(it.line)?.1))
        .time("max gap", move |it| known(it.line.max_gap_ns))
        .time("max so far", move |it| known(it.max_so_far_ns))
        .count("gaps", |it| it.line.gaps)
        .time("noise", |it| it.line.noise_ns)
        .time("outer steal", |it| it.outer_steal_ns)
        .words("largest shares", |it| largest(it.line).into())
}

/// Gaps of a run so far.
#[derive(Debug, Default)]
pub struct NoiseView {
    longest: LongestIntervals,
    max_gap_ns: BTreeMap<u32, u64>,
}

impl FrameSource for NoiseView {
    fn words(&self, facts: &RunFacts) -> FrameWords {
        FrameWords {
            command: facts.workload.command(),
            rows: "CPUs, this period",
            row_columns: headings(&columns()),
            curve: "noise in % of each period",
            gaps: "The longest gaps",
            gap_columns: headings(&gap_columns("length")),
        }
    }

    fn see(&mut self, news: News<'_>) -> Option<Snapshot> {
        match news {
            News::Interval(gap) => {
                self.longest.see(gap);
                None
            }
            News::Period(period) => Some(self.period(period)),
            _ => None,
        }
    }
}

impl NoiseView {
    fn period(&mut self, period: &Period<'_>) -> Snapshot {
        let gaps = self.longest.named(period.explainer);
        Snapshot {
            elapsed: period.since_start,
            headline: gaps.first().map_or_else(|| "no gap yet".into(), headline),
            rows: period
                .lines
                .iter()
                .map(|line| self.row(line, period))
                .collect(),
            levels: period.lines.iter().filter_map(level).collect(),
            gaps: gaps.iter().map(gap).collect(),
        }
    }

    fn row(&mut self, line: &PeriodLine, period: &Period<'_>) -> FrameRow {
        let max_gap_ns = self.max_gap_ns.entry(line.cpu).or_default();
        *max_gap_ns = line.max_gap_ns.max(*max_gap_ns);
        let outer_steal = period.outer_steal.iter().find(|(cpu, _)| *cpu == line.cpu);
        let seen = Line {
            line,
            max_so_far_ns: *max_gap_ns,
            outer_steal_ns: outer_steal.and_then(|(_, ns)| *ns),
        };
        FrameRow::new(line.cpu.into(), cells(&columns(), &seen))
    }
}

/// Returns the noise in percent of the period, with the CPU as key.
fn level(line: &PeriodLine) -> Option<(u64, f64)> {
    let runtime_ns = line.runtime_ns.filter(|ns| *ns > 0)?;
    let percent = line.noise_ns as f64 * 100.0 / runtime_ns as f64;
    Some((line.cpu.into(), percent))
}

fn headline(gap: &NamedInterval) -> String {
    let at = seconds(gap.at_ns);
    let most = most(gap);
    format!(
        "longest: {} on CPU {} at {at}, {most}",
        human(gap.dur_ns),
        gap.cpu
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vmnoise_events::fixtures;
    use vmnoise_events::{Activity, ActivityKind, Anchor, Event, Gap, Source as Name, SourceId};
    use vmnoise_explain::Explainer;

    use super::*;

    /// Returns the events of two gaps. The second gap is longer, and contains an interrupt.
    fn events() -> Vec<Event> {
        let anchor = |at| {
            Event::Anchor(Anchor {
                before_tsc: at,
                mono_ns: at,
                after_tsc: at,
            })
        };
        let gap = |start_tsc, end_tsc| {
            Event::Gap(Gap {
                cpu: 16,
                start_tsc,
                end_tsc,
                steal_ns: 0,
                reloads: 0,
                light_exits: 0,
                heavy_exits: 0,
                interference: None,
                run_delay_ns: 0,
            })
        };
        vec![
            anchor(0),
            Event::Source(Name {
                id: SourceId(0),
                name: "eno1:62".into(),
            }),
            Event::Activity(Activity {
                cpu: 16,
                kind: ActivityKind::Irq,
                start_mono_ns: 2_001_000,
                end_mono_ns: 2_004_000,
                source: SourceId(0),
                steal_ns: 0,
            }),
            gap(1_000_000, 1_002_000),
            gap(2_000_000, 2_005_000),
            anchor(9_000_000),
            Event::Watermark(9_000_000),
        ]
    }

    #[test]
    fn gaps_come_longest_first_and_their_parts_add_up() {
        let mut explainer = Explainer::new(&fixtures::polling_facts());
        let mut noise = NoiseView::default();
        for event in events() {
            explainer.push(&event, &mut |gap| noise.longest.see(gap));
        }
        let lines = explainer.take_period();
        let snapshot = noise.period(&Period {
            since_start: Duration::from_secs(1),
            lines: &lines,
            outer_steal: &[],
            longest: None,
            explainer: &explainer,
        });
        let sums = snapshot
            .gaps
            .iter()
            .map(|gap| gap.parts.iter().map(|part| part.ns).sum());
        assert_eq!(sums.collect::<Vec<u64>>(), [5_000, 2_000]);
        let irq = &snapshot.gaps[0].parts[0];
        assert_eq!((irq.ns, irq.words.as_str()), (3_000, "irq eno1:62"));
        assert!(
            snapshot.headline.ends_with("irq eno1:62"),
            "{}",
            snapshot.headline
        );
        // No tally event has set the runtime, so the percentage is unknown.
        let cells: Vec<&str> = snapshot.rows[0]
            .cells
            .iter()
            .map(|cell| cell.text.as_str())
            .collect();
        assert_eq!(cells[..4], ["16", "-", "5000 ns", "5000 ns"]);
        assert_eq!(snapshot.levels, []);
    }
}
