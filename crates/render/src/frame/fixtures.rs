//! A run of two CPUs and three gaps, for the tests of the frame.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use vmnoise_events::column::Columns;
use vmnoise_events::human;

use super::draw::{Setting, draw};
use super::input::Key;
use super::keys::press;
use super::model::Model;
use super::snapshot::{FrameGap, FramePart, FrameRow, FrameWords, Snapshot, cells, headings};
use super::term_style::TermStyle;

/// CPU, its noise in ns, and its largest shares.
type Cpu<'a> = (u64, Option<u64>, &'a str);

fn columns<'a>() -> Columns<'static, Cpu<'a>> {
    Columns::<Cpu<'a>>::default()
        .count("CPU", |(cpu, ..)| *cpu)
        .time("noise", |(_, noise_ns, _)| *noise_ns)
        .name("largest shares", |(.., shares)| Some(shares))
}

/// Length in ns, CPU and largest part of a gap.
type Length = (u64, u64, String);

fn gap_columns() -> Columns<'static, Length> {
    Columns::<Length>::default()
        .time("length", |(dur_ns, ..)| *dur_ns)
        .count("CPU", |(_, cpu, _)| *cpu)
        .name("most of it", |(.., most)| Some(most))
}

pub fn words() -> FrameWords {
    FrameWords {
        command: "osnoise",
        rows: "CPUs",
        row_columns: headings(&columns()),
        curve: "noise in % of each period",
        gaps: "The longest gaps",
        gap_columns: headings(&gap_columns()),
    }
}

fn cpu(number: u64, noise_ns: Option<u64>, shares: &str) -> FrameRow {
    FrameRow::new(number, cells(&columns(), &(number, noise_ns, shares)))
}

fn gap(key: u64, cpu: u64, parts: &[(u64, &str, &str)]) -> FrameGap {
    let dur_ns = parts.iter().map(|(ns, _, _)| ns).sum();
    let most = format!("{} {}", parts[0].1, parts[0].2);
    let cells = cells(&gap_columns(), &(dur_ns, cpu, most));
    let part = |(ns, share, who): &(u64, &str, &str)| FramePart {
        ns: *ns,
        words: format!("{share} {who}"),
    };
    let title = format!("{}  CPU {cpu} at 3.000000 s", human(dur_ns));
    FrameGap::new(key, cells, title, parts.iter().map(part).collect())
}

fn snapshot(second: u64) -> Snapshot {
    Snapshot {
        elapsed: Duration::from_secs(second),
        headline: "longest: 4.050 ms on CPU 1, preempted stress-ng:812".into(),
        rows: vec![
            cpu(
                0,
                Some(10_000_000 * second),
                "preempted 9.800 ms, irq 80.0 us",
            ),
            cpu(1, None, "steal 1.000 ms"),
        ],
        levels: vec![(0, (second * 10) as f64), (1, 1.0)],
        gaps: vec![
            gap(
                10,
                1,
                &[
                    (4_000_000, "preempted", "stress-ng:812"),
                    (40_000, "irq", "caf\u{e9}:62 x3"),
                    (10_000, "hv_or_hw", "(residual)"),
                ],
            ),
            gap(20, 0, &[(2_000_000, "steal", ""), (1_000, "kvm", "io")]),
            gap(30, 0, &[(500_000, "host_softirq", "timer")]),
        ],
    }
}

/// Returns the model after four seconds of a run.
pub fn model() -> Model {
    let mut model = Model::of(&words(), 1_000_000_000);
    (1..=4).for_each(|second| model.take(snapshot(second)));
    model
}

/// Returns the snapshot of the fifth second.
pub fn later() -> Snapshot {
    snapshot(5)
}

/// Returns the text of an 80x24 screen after these snapshots and keys.
pub fn screen(words: FrameWords, snapshots: Vec<Snapshot>, keys: &[Key]) -> String {
    let mut model = Model::of(&words, 1_000_000_000);
    let length = snapshots.last().map(|last| last.elapsed);
    snapshots.into_iter().for_each(|one| model.take(one));
    let model = keys.iter().copied().fold(model, press);
    let term = TermStyle {
        ascii: false,
        plain: false,
    };
    let setting = Setting {
        words,
        length,
        term,
    };
    let Ok(mut terminal) = Terminal::new(TestBackend::new(80, 24));
    let Ok(_) = terminal.draw(|frame| draw(frame, &model, &setting));
    terminal.backend().to_string()
}
