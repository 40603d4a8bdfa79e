//! Table of the phases of wake-ups, by CPU.

use vmnoise_explain::PhaseSides;

use super::Table;
use crate::figures::part_of;
use crate::phases::{by_cpu, label};
use crate::run::ReportedRun;

/// Function that returns the time of one side in a phase, in nanoseconds.
type OfSide = fn(&PhaseSides) -> u64;

/// Returns a row for each phase. For joined recordings, the row also has the time that guest and
/// host caused.
pub(super) fn phases(run: &ReportedRun) -> Table {
    let cpus = by_cpu(run);
    let rows = cpus.iter().flat_map(|cpu| {
        let reported = cpu.phases.iter();
        let reported = reported.filter(|it| it.phase.is_some() || it.total_ns.is_some());
        reported.map(move |it| (cpu, it))
    });
    let of_sides = run.latencies().map(|_| {
        let sides: [(&str, OfSide); 3] = [
            ("the guest", |it| it.guest_ns),
            ("its host", |it| it.host_ns),
            ("unknown", |it| it.unknown_ns),
        ];
        sides
    });
    Table::of(
        "What wake-ups consist of",
        &rows.collect::<Vec<_>>(),
        |it| {
            it.words("CPU", |(cpu, _)| run.name_of(cpu.cpu).into())
                .name("phase", |(_, it)| Some(label(it.phase)))
                .time("total", |(_, it)| it.total_ns)
                .time("of an average wake-up", |(cpu, it)| {
                    it.total_ns.map(|ns| ns / cpu.count.max(1))
                })
                .percent("of all lateness", |(cpu, it)| {
                    it.total_ns.map(|ns| part_of(ns, cpu.total_ns()))
                })
                .each(of_sides.into_iter().flatten(), |it, (title, of)| {
                    it.time(title, move |(_, it)| {
                        it.total_ns?;
                        it.sides.as_ref().map(of)
                    })
                })
        },
    )
}
