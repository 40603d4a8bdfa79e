//! Frame of `exits`: each vCPU with its exit reasons, and the longest exits.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use vmnoise_events::column::Columns;
use vmnoise_events::{RunFacts, ShareMap, VcpuId, human};
use vmnoise_explain::{ExitsSummary, ReasonExits, VcpuExits, VmExits, WorstExit};
use vmnoise_views::News;

use super::FrameSource;
use super::snapshot::{FrameGap, FramePart, FrameRow, FrameWords, Snapshot, cells, headings};
use crate::exits::largest;
use crate::exits::parts::{self, cpus, name, vcpus};

fn words() -> FrameWords {
    FrameWords {
        command: "exits",
        rows: "vCPUs and why they left their guest (times without halts)",
        row_columns: headings(&columns(Duration::ZERO)),
        curve: "time outside its guest in %",
        gaps: "The longest exits",
        gap_columns: headings(&gap_columns()),
    }
}

/// Exits of a run so far.
#[derive(Debug, Default)]
pub struct VcpusView {
    measured: Duration,
    /// Time outside the guest until the last period, by the key of the row.
    before_ns: BTreeMap<u64, u64>,
}

/// Row before its cells are formatted.
struct Line<'a> {
    vcpu: String,
    reason: &'a str,
    key: u64,
    count: u64,
    noise_ns: u64,
    taken: &'a ShareMap<Option<u64>>,
    lengths: Option<&'a ReasonExits>,
}

/// Returns the columns of a run that has lasted `measured`.
fn columns<'a>(measured: Duration) -> Columns<'static, Line<'a>> {
    let measured_ns = measured.as_nanos().max(1) as f64;
    Columns::<Line<'a>>::default()
        .name("vCPU", |line| Some(&line.vcpu))
        .name("exit", |line| Some(line.reason))
        .count("exits", |line| line.count)
        .percent("time %", move |line| {
            line.noise_ns as f64 * 100.0 / measured_ns
        })
        .time("max", |line| Some(line.lengths?.max_ns))
        .time("mean", |line| Some(line.lengths?.mean_ns))
        .time("p99", |line| Some(line.lengths?.p99_ns))
        .words("where it went", |line| largest(line.taken).into())
}

/// Name of a vCPU, and one of its exits.
type Longest<'a> = (&'a str, &'a WorstExit);

fn gap_columns<'a>() -> Columns<'static, Longest<'a>> {
    Columns::<Longest<'a>>::default()
        .time("length", |(_, exit)| exit.dur_ns)
        .name("vCPU", |(vcpu, _)| Some(vcpu))
        .name("exit", |(_, exit)| Some(&exit.reason))
        .words("most of it", |(_, exit)| {
            let shares = parts::by_size(&exit.shares_ns);
            shares.first().map_or("", |(share, _)| share.name()).into()
        })
}

impl FrameSource for VcpusView {
    fn words(&self, _facts: &RunFacts) -> FrameWords {
        words()
    }

    fn see(&mut self, news: News<'_>) -> Option<Snapshot> {
        match news {
            News::ExitsPeriod { measured, exits } => Some(self.period(measured, &exits.exits())),
            _ => None,
        }
    }
}

impl VcpusView {
    fn period(&mut self, measured: Duration, exits: &ExitsSummary) -> Snapshot {
        let length = measured.saturating_sub(self.measured).as_nanos();
        self.measured = measured;
        let mut snapshot = Snapshot {
            elapsed: measured,
            ..Snapshot::default()
        };
        for (vm, vcpu) in vcpus(exits) {
            for line in lines(vm, vcpu) {
                let ns = line.noise_ns;
                let before_ns = self.before_ns.insert(line.key, ns).unwrap_or(0);
                if length > 0 {
                    let percent = ns.saturating_sub(before_ns) as f64 * 100.0 / length as f64;
                    snapshot.levels.push((line.key, percent));
                }
                let cells = cells(&columns(measured), &line);
                snapshot.rows.push(FrameRow::new(line.key, cells));
            }
            let name = name(vm, vcpu);
            let worst = vcpu.worst.iter();
            snapshot
                .gaps
                .extend(worst.map(|exit| gap(vcpu.id, &name, exit)));
        }
        let longest_first =
            |gap: &FrameGap| std::cmp::Reverse(gap.parts.iter().map(|part| part.ns).sum::<u64>());
        snapshot.gaps.sort_by_key(longest_first);
        let headline =
            |gap: &FrameGap| format!("longest: {}, {}", gap.title, gap.row.cells[3].text);
        let first = snapshot.gaps.first();
        snapshot.headline = first.map_or_else(|| "no exit yet".into(), headline);
        snapshot
    }
}

/// Returns the line of the vCPU, then the lines of its exit reasons.
fn lines<'a>(vm: &'a VmExits, vcpu: &'a VcpuExits) -> Vec<Line<'a>> {
    let all = Line {
        vcpu: name(vm, vcpu),
        reason: "(all)",
        key: key((vcpu.id, "")),
        count: vcpu.exits,
        noise_ns: vcpu.time_ns.noise_ns(),
        taken: &vcpu.time_ns.taken,
        lengths: None,
    };
    let of_reason = |reason: &'a ReasonExits| Line {
        vcpu: name(vm, vcpu),
        reason: &reason.name,
        key: key((vcpu.id, &reason.name)),
        count: reason.count,
        noise_ns: reason.noise_ns(),
        taken: &reason.shares_ns,
        lengths: Some(reason),
    };
    let reasons = vcpu.reasons.iter().map(of_reason);
    std::iter::once(all).chain(reasons).collect()
}

fn key(identity: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    hasher.finish()
}

fn gap(id: VcpuId, vcpu: &str, exit: &WorstExit) -> FrameGap {
    let shares = parts::by_size(&exit.shares_ns);
    FrameGap::new(
        key((id, exit.start_mono_ns)),
        cells(&gap_columns(), &(vcpu, exit)),
        format!(
            "{}, {vcpu}, {}, {}",
            human(exit.dur_ns),
            exit.reason,
            cpus(exit.exit_cpu, exit.entry_cpu)
        ),
        shares
            .into_iter()
            .map(|(share, ns)| FramePart {
                ns,
                words: share.to_string(),
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use vmnoise_events::Share;

    use super::*;
    use crate::exits::fixtures::summary;
    use crate::frame::fixtures::screen;
    use crate::frame::input::Key;

    fn second(number: u64, vcpus: &mut VcpusView, exits: &ExitsSummary) -> Snapshot {
        vcpus.period(Duration::from_secs(number), exits)
    }

    #[test]
    fn vcpus_come_before_their_reasons_and_neither_halts_nor_the_unseen_are_time_outside() {
        let mut exits = summary();
        let time_ns = &mut exits.vms[0].vcpus[0].time_ns;
        time_ns.taken[Share::Halted] = Some(500_000_000);
        time_ns.taken[Share::Unexplained] = Some(7_000_000);
        time_ns.unseen = 7_000_000;
        let snapshot = second(1, &mut VcpusView::default(), &exits);
        let names = |row: &FrameRow| format!("{} {}", row.cells[0].text, row.cells[1].text);
        let names: Vec<String> = snapshot.rows.iter().map(names).collect();
        let expected = [
            "web/0 (all)",
            "web/0 io",
            "web/0 cpuid",
            "web/- (all)",
            "web/- io",
        ];
        assert_eq!(names, expected);
        let outside_ns = 1_595_000 + 1_150_000 + 11_800_000 + 55_000;
        assert_eq!(
            snapshot.rows[0].cells[3].value,
            Some(outside_ns as f64 / 1e7)
        );
        assert_eq!(snapshot.levels[0].1, outside_ns as f64 / 1e7);
    }

    #[test]
    fn a_curve_is_of_the_last_period_and_a_row_of_the_run() {
        let mut vcpus = VcpusView::default();
        let first = second(1, &mut vcpus, &summary());
        let again = second(2, &mut vcpus, &summary());
        assert!(first.levels.iter().all(|(_, percent)| *percent > 0.0));
        assert!(again.levels.iter().all(|(_, percent)| *percent == 0.0));
        let percent = |snapshot: &Snapshot| snapshot.rows[0].cells[3].value;
        assert_eq!(
            percent(&first),
            percent(&again).map(|percent| percent * 2.0)
        );
        let keys =
            |snapshot: &Snapshot| -> Vec<u64> { snapshot.rows.iter().map(|row| row.key).collect() };
        assert_eq!(keys(&first), keys(&again), "a chosen line stays chosen");
    }

    #[test]
    fn the_longest_exit_is_the_headline_and_its_budget_adds_up() {
        let snapshot = second(1, &mut VcpusView::default(), &summary());
        let [gap] = &snapshot.gaps[..] else {
            panic!("{:?}", snapshot.gaps);
        };
        assert_eq!(
            gap.parts.iter().map(|part| part.ns).sum::<u64>(),
            12_000_000
        );
        assert_eq!(gap.parts[0].words, "preempted");
        assert!(
            snapshot.headline.contains("web/0, io, "),
            "{}",
            snapshot.headline
        );
        let nothing = second(
            1,
            &mut VcpusView::default(),
            &ExitsSummary { vms: Vec::new() },
        );
        assert_eq!(nothing.headline, "no exit yet");
    }

    #[test]
    fn as_it_is_drawn() {
        let snapshot = second(1, &mut VcpusView::default(), &summary());
        insta::assert_snapshot!(screen(words(), vec![snapshot], &[Key::Down]));
    }
}
