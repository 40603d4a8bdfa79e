//! What `exits` shows: each vCPU and each of its reasons to exit, and the longest exits.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use vmnoise_events::{RunFacts, ShareMap};
use vmnoise_explain::{ExitExplainer, ExitsSummary, ReasonExits, VcpuExits, VmExits, WorstExit};

use super::Source;
use super::snapshot::{Cell, Gap, Part, Row, Snapshot, Words, figures, words};
use crate::output::cells;
use crate::output::exits::largest;
use crate::output::exits::parts::{self, cpus, name, vcpus};
use crate::units::human;

const WORDS: Words = Words {
    command: "exits",
    rows: "vCPUs and why they left their guest, halts not counted as time",
    row_columns: &[
        words("vCPU"),
        words("exit"),
        figures("exits"),
        figures("time %"),
        figures("max"),
        figures("mean"),
        figures("p99"),
        words("where it went"),
    ],
    curve: "time outside its guest in %",
    gaps: "The longest exits",
    gap_columns: &[
        figures("length"),
        words("vCPU"),
        words("exit"),
        words("most of it"),
    ],
};

/// The exits so far.
#[derive(Debug, Default)]
pub struct Vcpus {
    measured: Duration,
    /// Time outside the guest until the last period, by row.
    before_ns: BTreeMap<u64, u64>,
}

/// One row before it is written down.
struct Line<'a> {
    vcpu: String,
    reason: &'a str,
    key: u64,
    count: u64,
    noise_ns: u64,
    taken: &'a ShareMap<Option<u64>>,
    lengths: Option<&'a ReasonExits>,
}

impl Source for Vcpus {
    fn words(&self, _facts: &RunFacts) -> Words {
        WORDS
    }

    fn exits_so_far(&mut self, measured: Duration, exits: &ExitExplainer) -> Snapshot {
        self.period(measured, &exits.exits())
    }
}

impl Vcpus {
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
                snapshot.rows.push(row(&line, measured));
            }
            let name = name(vm, vcpu);
            let worst = vcpu.worst.iter();
            snapshot.gaps.extend(worst.map(|exit| gap(&name, exit)));
        }
        let longest_first =
            |gap: &Gap| std::cmp::Reverse(gap.parts.iter().map(|part| part.ns).sum::<u64>());
        snapshot.gaps.sort_by_key(longest_first);
        let headline = |gap: &Gap| format!("longest: {}, {}", gap.title, gap.row.cells[3].text);
        let first = snapshot.gaps.first();
        snapshot.headline = first.map_or_else(|| "no exit yet".into(), headline);
        snapshot
    }
}

/// The vCPU, then its reasons.
fn lines<'a>(vm: &'a VmExits, vcpu: &'a VcpuExits) -> Vec<Line<'a>> {
    let all = Line {
        vcpu: name(vm, vcpu),
        reason: "(all)",
        key: key((vcpu.tid, "")),
        count: vcpu.exits,
        noise_ns: vcpu.time_ns.noise_ns(),
        taken: &vcpu.time_ns.taken,
        lengths: None,
    };
    let of_reason = |reason: &'a ReasonExits| Line {
        vcpu: name(vm, vcpu),
        reason: &reason.name,
        key: key((vcpu.tid, &reason.name)),
        count: reason.count,
        noise_ns: reason.noise_ns(),
        taken: &reason.shares_ns,
        lengths: Some(reason),
    };
    let reasons = vcpu.reasons.iter().map(of_reason);
    std::iter::once(all).chain(reasons).collect()
}

fn row(line: &Line<'_>, measured: Duration) -> Row {
    let percent = line.noise_ns as f64 * 100.0 / measured.as_nanos().max(1) as f64;
    let length = |of: fn(&ReasonExits) -> u64| Cell::number(line.lengths.map(of), human);
    Row::new(
        line.key,
        vec![
            Cell::words(line.vcpu.clone()),
            Cell::words(line.reason),
            Cell::number(Some(line.count), |count| count.to_string()),
            Cell {
                text: cells::percent(Some(percent)),
                value: Some(percent),
            },
            length(|reason| reason.max_ns),
            length(|reason| reason.mean_ns),
            length(|reason| reason.p99_ns),
            Cell::words(largest(line.taken)),
        ],
    )
}

fn key(identity: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    hasher.finish()
}

fn gap(vcpu: &str, exit: &WorstExit) -> Gap {
    let shares = parts::by_size(&exit.shares_ns);
    let most = shares.first().map(|(share, _)| share.to_string());
    Gap::new(
        key((vcpu, exit.start_mono_ns)),
        vec![
            Cell::number(Some(exit.dur_ns), human),
            Cell::words(vcpu),
            Cell::words(exit.reason.clone()),
            Cell::words(most.unwrap_or_default()),
        ],
        format!(
            "{}, {vcpu}, {}, {}",
            human(exit.dur_ns),
            exit.reason,
            cpus(exit.exit_cpu, exit.entry_cpu)
        ),
        shares
            .into_iter()
            .map(|(share, ns)| Part {
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
    use crate::frame::fixtures::screen;
    use crate::frame::input::Key;
    use crate::output::exits::fixtures::summary;

    fn second(number: u64, vcpus: &mut Vcpus, exits: &ExitsSummary) -> Snapshot {
        vcpus.period(Duration::from_secs(number), exits)
    }

    #[test]
    fn vcpus_come_before_their_reasons_and_neither_halts_nor_the_unseen_are_time_outside() {
        let mut exits = summary();
        let time_ns = &mut exits.vms[0].vcpus[0].time_ns;
        time_ns.taken[Share::Halted] = Some(500_000_000);
        time_ns.taken[Share::Unexplained] = Some(7_000_000);
        time_ns.unseen = 7_000_000;
        let snapshot = second(1, &mut Vcpus::default(), &exits);
        let names = |row: &Row| format!("{} {}", row.cells[0].text, row.cells[1].text);
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
        let mut vcpus = Vcpus::default();
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
        let snapshot = second(1, &mut Vcpus::default(), &summary());
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
        let nothing = second(1, &mut Vcpus::default(), &ExitsSummary { vms: Vec::new() });
        assert_eq!(nothing.headline, "no exit yet");
    }

    #[test]
    fn as_it_is_drawn() {
        let snapshot = second(1, &mut Vcpus::default(), &summary());
        insta::assert_snapshot!(screen(WORDS, vec![snapshot], &[Key::Down]));
    }
}
