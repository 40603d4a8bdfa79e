//! Plan of a run: which cells will run, and how long they take.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use vmnoise_testbed::bed::BedPart;

use crate::place::CellPlace;
use crate::scenario::{Cell, Scenario};

/// A cell of a plan.
#[derive(Debug, Clone)]
pub struct PlannedCell {
    /// The cell.
    pub cell: Cell,
    /// Reason why the cell cannot run; `None` if it can.
    pub refusal: Option<String>,
    /// Estimated time for the cell.
    pub takes: Duration,
}

/// Plans all cells of a scenario, or only those with these names.
pub fn cells(scenario: &Scenario, only: &[String], place: &CellPlace) -> Vec<PlannedCell> {
    let cells = scenario.cells().into_iter();
    let chosen = cells.filter(|cell| only.is_empty() || only.contains(&cell.name()));
    chosen
        .map(|cell| PlannedCell {
            refusal: place.refusal(&cell, &scenario.measure),
            takes: place.takes(&cell, &scenario.measure),
            cell,
        })
        .collect()
}

/// Estimates the time for all cells that can run.
pub fn estimate(planned: &[PlannedCell], place: &CellPlace) -> Duration {
    let to_run = planned.iter().filter(|it| it.refusal.is_none());
    to_run.map(|it| it.takes).sum::<Duration>() / u32::try_from(place.jobs()).unwrap_or(1)
}

/// Returns the text that `vmnoise-lab plan` prints.
pub fn text(scenario: &Scenario, planned: &[PlannedCell], place: &CellPlace) -> String {
    let mut text = format!("{}\n{}\n\n", scenario.title, scenario.source);
    let mut packages = BTreeSet::new();
    for PlannedCell {
        cell,
        refusal,
        takes,
    } in planned
    {
        let name = cell.name();
        match refusal {
            Some(why) => _ = writeln!(text, "  {name:32} not run: {why}"),
            None => {
                _ = writeln!(text, "  {name:32} about {} s", takes.as_secs());
                packages.extend(place.parts(cell).into_iter().map(BedPart::package));
            }
        }
    }
    let packages: Vec<&str> = packages.into_iter().collect();
    if let Some(lack) = place.lack() {
        _ = writeln!(text, "\nNone can be run here now: {lack}.");
    }
    let programs = match place.takes_qemu() {
        true => "QEMU is needed (package qemu-system-x86).",
        false => "`xl` is needed (package xen-utils-common), and qemu-system-xen for an HVM guest.",
    };
    _ = writeln!(
        text,
        "\nTogether about {} min, {} at a time. {programs} Packages of Debian, \
         which are downloaded and unpacked under target/lab and not installed: {}. {}",
        estimate(planned, place).as_secs().div_ceil(60),
        place.jobs(),
        packages.join(", "),
        place.effects()
    );
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::library;

    fn scenario(name: &str) -> Scenario {
        Scenario::parse(library::text(name).unwrap()).unwrap()
    }

    #[test]
    fn a_cell_says_what_it_needs() {
        let scenario = scenario("kvm-and-xen");
        let place = CellPlace::Emulation;
        let planned = |cell: &str| cells(&scenario, &[cell.to_owned()], &place);
        let text = |cell: &str| text(&scenario, &planned(cell), &place);
        let kvm = text("kvm-rt-ordinary");
        for package in ["linux-image-rt-amd64", "linux-image-cloud-amd64"] {
            assert!(kvm.contains(package), "{kvm}");
        }
        assert!(!kvm.contains("xen") && !kvm.contains("kvm-rt-rt"), "{kvm}");
        let xen = text("xen-ordinary-rt");
        for package in [
            "linux-image-amd64",
            "linux-image-rt-amd64",
            "xen-system-amd64",
            "qemu-system-xen",
        ] {
            assert!(xen.contains(package), "{xen}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_said_before_time_is_spent() {
        let scenario = scenario("isolation");
        let planned = cells(&scenario, &[], &CellPlace::Emulation);
        let refused: Vec<bool> = planned.iter().map(|it| it.refusal.is_some()).collect();
        assert_eq!(refused, [false, true, true, true]);
        let text = text(&scenario, &planned, &CellPlace::Emulation);
        assert!(text.contains("needs a real host"));
    }
}
