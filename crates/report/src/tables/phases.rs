//! The phases of wake-ups, CPU by CPU.

use super::{NUMBER, Table, WORD, share_of, time, words};
use crate::figures::part_of;
use crate::phases::{by_cpu, label};
use crate::run::Run;

/// Each phase, and beside a host whose time it was.
pub(super) fn phases(run: &Run) -> Table {
    let is_joined = run.latencies().is_some();
    let mut columns = vec![
        ("CPU", WORD),
        ("phase", WORD),
        ("total", NUMBER),
        ("of an average wake-up", NUMBER),
        ("of all lateness", NUMBER),
    ];
    if is_joined {
        columns.extend([
            ("the guest’s", NUMBER),
            ("its host’s", NUMBER),
            ("nobody knows whose", NUMBER),
        ]);
    }
    let mut table = Table::new("What wake-ups consist of", &columns);
    for cpu in by_cpu(run) {
        let all_ns = cpu.total_ns();
        for it in cpu
            .phases
            .iter()
            .filter(|it| it.phase.is_some() || it.total_ns.is_some())
        {
            let mut row = vec![
                words(run.name_of(cpu.cpu)),
                words(label(it.phase)),
                time(it.total_ns),
                time(it.total_ns.map(|ns| ns / cpu.count.max(1))),
                share_of(it.total_ns.map(|ns| part_of(ns, all_ns))),
            ];
            if is_joined {
                let sides = it.sides.filter(|_| it.total_ns.is_some());
                row.extend([
                    time(sides.map(|it| it.guest_ns)),
                    time(sides.map(|it| it.host_ns)),
                    time(sides.map(|it| it.unknown_ns)),
                ]);
            }
            table.rows.push(row);
        }
    }
    table
}
