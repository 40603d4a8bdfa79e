//! Frame of `timerlat`: the latency of each CPU, and the wake-ups with the longest latencies.

use std::collections::BTreeMap;

use vmnoise_events::{RunFacts, column as table};
use vmnoise_explain::{Interval, NamedInterval};
use vmnoise_views::{News, Period};

use super::FrameSource;
use super::interval::{LongestIntervals, gap, gap_columns, most, title};
use super::snapshot::{FrameRow, FrameWords, Snapshot, cells, headings, index};
use crate::timerlat::columns::{Contexts, CpuColumns};

fn columns<'a>() -> table::Columns<'static, (u32, &'a Contexts)> {
    table::Columns::<(u32, &'a Contexts)>::default()
        .ranked("CPU", |(cpu, _)| index(*cpu))
        .count("wake-ups", |(_, it)| it.user.count)
        .time("now", |(_, it)| it.user.known(it.user.current_ns))
        .time("mean", |(_, it)| it.user.mean_ns())
        .time("max", |(_, it)| it.user.known(it.user.max_ns))
        .time("max thread", |(_, it)| it.thread.known(it.thread.max_ns))
        .time("max IRQ", |(_, it)| it.irq.known(it.irq.max_ns))
}

fn words() -> FrameWords {
    FrameWords {
        command: "timerlat",
        rows: "CPUs, latency until user space",
        row_columns: headings(&columns()),
        curve: "longest latency of each second in us",
        gaps: "The longest latencies",
        gap_columns: headings(&gap_columns("latency")),
    }
}

/// Wake-ups of a run so far.
#[derive(Debug, Default)]
pub struct WakeupsView {
    columns: CpuColumns,
    latest: LongestIntervals,
    /// Longest latency of this period, by CPU.
    period_max_ns: BTreeMap<u32, u64>,
}

impl FrameSource for WakeupsView {
    fn words(&self, _facts: &RunFacts) -> FrameWords {
        words()
    }

    fn see(&mut self, news: News<'_>) -> Option<Snapshot> {
        match news {
            News::Interval(wakeup) => {
                self.add(wakeup);
                None
            }
            News::Period(period) => Some(self.period(period)),
            _ => None,
        }
    }
}

impl WakeupsView {
    fn add(&mut self, wakeup: &Interval) {
        self.columns.add(wakeup);
        let max_ns = self.period_max_ns.entry(wakeup.cpu).or_default();
        *max_ns = wakeup.dur_ns.max(*max_ns);
        self.latest.see(wakeup);
    }

    fn period(&mut self, period: &Period<'_>) -> Snapshot {
        let latest = self.latest.named(period.explainer);
        let levels = std::mem::take(&mut self.period_max_ns).into_iter();
        Snapshot {
            elapsed: period.since_start,
            headline: latest
                .first()
                .map_or_else(|| "no wake-up yet".into(), headline),
            rows: self
                .columns
                .iter()
                .map(|cpu| FrameRow::new(cpu.0.into(), cells(&columns(), &cpu)))
                .collect(),
            levels: levels
                .map(|(cpu, ns)| (cpu.into(), ns as f64 / 1e3))
                .collect(),
            gaps: latest.iter().map(gap).collect(),
        }
    }
}

fn headline(late: &NamedInterval) -> String {
    format!("longest: {}, {}", title(late), most(late))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vmnoise_events::fixtures;
    use vmnoise_events::{Event, Share, Source as Name, SourceId};
    use vmnoise_explain::{Explainer, Part, Phase};

    use super::*;
    use crate::frame::fixtures::screen;
    use crate::frame::input::Key;
    use crate::timerlat::fixtures::{unseen, wakeup};

    fn explainer() -> Explainer {
        let mut explainer = Explainer::new(&fixtures::polling_facts());
        let (id, name) = (SourceId(0), "stress-ng:812".to_owned());
        explainer.push(
            &Event::Source(Name {
                id,
                name: name.into(),
            }),
            &mut |_| {},
        );
        explainer
    }

    /// Returns a wake-up with a latency of 60 us. Another task ran for 40 us of this time.
    fn late() -> Interval {
        let part = |phase, share, source, ns| Part {
            phase: Some(phase),
            share,
            source,
            ns,
            host_cpu: None,
            count: 1,
        };
        Interval {
            parts: vec![
                part(Phase::Irq, Share::HvOrHw, None, 5_000),
                part(Phase::Wakeup, Share::Thread, Some(SourceId(0)), 40_000),
                part(Phase::Return, Share::Unexplained, None, 15_000),
            ],
            ..wakeup(1, 5_000, 45_000, 60_000)
        }
    }

    fn second(number: u64, wakeups: &mut WakeupsView) -> Snapshot {
        wakeups.period(&Period {
            since_start: Duration::from_secs(number),
            lines: &[],
            outer_steal: &[],
            longest: None,
            explainer: &explainer(),
        })
    }

    #[test]
    fn the_latest_comes_first_with_a_budget_that_adds_up() {
        let mut wakeups = WakeupsView::default();
        for seen in [wakeup(0, 1_000, 2_000, 3_000), late(), unseen(0, 9_000)] {
            wakeups.add(&seen);
        }
        let snapshot = second(1, &mut wakeups);
        let latencies = snapshot.gaps.iter().map(|gap| gap.row.cells[0].value);
        let expected = [60_000.0, 9_000.0, 3_000.0].map(Some);
        assert_eq!(latencies.collect::<Vec<_>>(), expected);
        let parts = &snapshot.gaps[0].parts;
        assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), 60_000);
        assert_eq!(parts[1].words, "wakeup: thread stress-ng:812");
        assert!(
            snapshot.headline.ends_with("thread stress-ng:812"),
            "{}",
            snapshot.headline
        );
    }

    #[test]
    fn the_curve_is_of_one_period_and_steps_that_were_not_seen_are_unknown() {
        let mut wakeups = WakeupsView::default();
        wakeups.add(&unseen(3, 9_000));
        wakeups.add(&unseen(3, 4_000));
        let snapshot = second(1, &mut wakeups);
        assert_eq!(snapshot.levels, [(3, 9.0)]);
        let cells = snapshot.rows[0].cells.iter();
        let cells: Vec<&str> = cells.map(|cell| cell.text.as_str()).collect();
        assert_eq!(cells, ["3", "2", "4000 ns", "6500 ns", "9000 ns", "-", "-"]);
        assert_eq!(second(2, &mut wakeups).levels, []);
        assert_eq!(
            second(1, &mut WakeupsView::default()).headline,
            "no wake-up yet"
        );
    }

    #[test]
    fn as_it_is_drawn() {
        let mut wakeups = WakeupsView::default();
        wakeups.add(&wakeup(0, 1_000, 2_000, 3_000));
        let first = second(1, &mut wakeups);
        wakeups.add(&late());
        let snapshots = vec![first, second(2, &mut wakeups)];
        insta::assert_snapshot!(screen(words(), snapshots, &[Key::Tab]));
    }
}
