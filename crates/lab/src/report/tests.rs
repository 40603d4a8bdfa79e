//! Tests of the report with invented results.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

use super::measured::{Measured, judged};
use super::words::{beside, noise_percent, quantile_us, range_us};
use super::{csv, page, text};
use crate::accel::Accel;
use crate::figures::{RepetitionFigures, Who};
use crate::folder::CellEnd;
use crate::hypervisor::Xen;
use crate::library;
use crate::machine::BootedMachine;
use crate::scenario::Scenario;
use crate::verdict::PaperVerdict;

fn figures(worst_ns: u64) -> RepetitionFigures {
    RepetitionFigures {
        lengths: vec![(10_000, 9), (worst_ns, 1)],
        worst_ns,
        who: vec![Who {
            share: "thread".to_owned(),
            name: Some("=a\"<b>,c:7".to_owned()),
            ns: 1_500,
        }],
        kernel: "6.1".to_owned(),
        ..RepetitionFigures::default()
    }
}

fn measured() -> Measured {
    let scenario = Scenario::parse(library::text("kvm-and-xen").unwrap()).unwrap();
    let ended = |cell: &str, worst_ns: &[u64], failure: Option<&str>| CellEnd {
        cell: cell.to_owned(),
        accel: Accel::Tcg,
        machine: None,
        seed: 1,
        version: "0".to_owned(),
        took_ms: 1_000,
        commands: vec!["guest: vmnoise".to_owned()],
        repetitions: worst_ns.iter().map(|ns| figures(*ns)).collect(),
        failure: failure.map(str::to_owned),
    };
    Measured {
        scenario,
        cells: vec![
            ended("kvm-ordinary-ordinary", &[80_000, 90_000], None),
            ended("kvm-rt-rt", &[20_000, 30_000], None),
            ended(
                "xen-ordinary-rt",
                &[],
                Some("6.1: 2 of 3 commands ended; its console ends: old\nnewer: it panicked"),
            ),
        ],
    }
}

#[test]
fn the_page_has_figures_verdicts_and_failures_and_runs_nothing_of_what_is_named() {
    let page = page::page(&[measured()]).unwrap();
    for words in [
        "80.0 to 90.0",
        "20.0 to 30.0",
        "294us",
        "it panicked",
        "emulation",
        "stops in QEMU",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains(">reproduced<"), "RT lowers the worst");
    assert!(!page.contains("<b>"), "a name is text");
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_text_says_of_each_cell_what_became_of_it() {
    let text = text::text(&[measured()]);
    for words in [
        "| kvm-rt-rt | tcg | 20 | 20.0 to 30.0 |",
        "| reproduced |",
        "stops in QEMU",
        "| kvm-ordinary-rt | | 0 |",
        "failed: 6.1: 2 of 3 commands ended … newer: it panicked |",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_row_of_csv_is_a_repetition_and_a_name_is_no_formula() {
    let csv = csv::text(&[measured()]);
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 1 + 2 + 2, "{csv}");
    assert!(rows[1].contains(",294000,"), "{csv}");
    assert!(
        rows[1].ends_with(",\"thread =a\"\"<b>,c:7 1.5 us\""),
        "{csv}"
    );
}

#[test]
fn cells_whose_clocks_differ_are_not_compared() {
    let mut measured = measured();
    let text = library::text("xen-guest-types").unwrap();
    let conclusion = "[[conclusion]]\ntext = \"t\"\nsource = \"s\"\nstatistic = \"worst\"\n\
                      of = \"pvh-ordinary-rt\"\nby = \"hvm-ordinary-rt\"\nat-most = 2\n";
    measured.scenario = Scenario::parse(&format!("{text}\n{conclusion}")).unwrap();
    measured.cells[0].cell = "pvh-ordinary-rt".to_owned();
    measured.cells[1].cell = "hvm-ordinary-rt".to_owned();
    let judged = judged(&measured, measured.scenario.conclusion.last().unwrap());
    assert!(judged.verdict.to_string().contains("4 ns"), "{judged:?}");
}

#[test]
fn a_figure_without_a_column_has_the_measured_one_beside_it() {
    let text = library::text("exits").unwrap();
    let exits = Scenario::parse(text).unwrap();
    let overhead = |overhead_ns| RepetitionFigures {
        overhead_ns,
        ..RepetitionFigures::default()
    };
    let said = |here: &[Option<u64>]| {
        let here: Vec<RepetitionFigures> = here.iter().map(|ns| overhead(*ns)).collect();
        beside(&exits.published[0], "io", &here).unwrap()
    };
    let here = said(&[Some(3_500), Some(3_700)]);
    assert_eq!(here, "13735ns, here 3.5 to 3.7 us");
    let unknown = said(&[Some(3_500), None]);
    assert_eq!(unknown, "13735ns, here not known");
    assert_eq!(beside(&exits.published[0], "none", &[]), None);
    let text = library::text("osnoise-tuned").unwrap();
    let tuned = Scenario::parse(text).unwrap();
    let noise = |taken_ns| RepetitionFigures {
        shares_ns: [("irq".to_owned(), taken_ns)].into(),
        runtime_ns: 1_000_000,
        ..RepetitionFigures::default()
    };
    let both = [noise(5), noise(7_000)];
    let here = beside(&tuned.published[0], "as-is-other", &both);
    assert_eq!(here.unwrap(), "0.5484%", "noise has a column");
    assert_eq!(noise_percent(&both), "0.00050 to 0.70000");
    assert_eq!(noise_percent(&[overhead(None)]), "", "it did not poll");
    let not_run = beside(&tuned.published[0], "host-isolated-other", &[]);
    assert_eq!(not_run.unwrap(), "0.00001%");
}

#[test]
fn cells_of_a_host_are_marked_and_not_compared_with_emulated_ones() {
    let mut both = measured();
    both.cells[1].accel = Accel::Kvm;
    let lower = |measured: &Measured| judged(measured, &measured.scenario.conclusion[0]);
    let verdict = lower(&both).verdict.to_string();
    assert!(
        verdict.contains("one of the cells was emulated"),
        "{verdict}"
    );
    for of_another_host in [Accel::Xen, Accel::Kvm] {
        both.cells[0].accel = of_another_host;
        assert_eq!(lower(&both).verdict, PaperVerdict::Reproduced);
    }
    let text = text::text(&[both]);
    assert!(text.contains("| kvm-rt-rt | kvm | 20 |"), "{text}");
    assert!(text.contains("**On a host.**"), "{text}");
    assert!(
        !text.contains("stops in QEMU"),
        "it is emulation's reason: {text}"
    );
}

fn machine(cpu: &str, xen: Option<&[u32]>) -> BootedMachine {
    BootedMachine {
        cpu: cpu.to_owned(),
        kernel: "6.1.0-56-amd64".to_owned(),
        xen: xen.map(|cpus| Xen {
            version: "4.17.5".to_owned(),
            scheduler: "credit2".to_owned(),
            cpus: cpus.to_vec(),
            dom0: vec!["0".to_owned()],
        }),
    }
}

#[test]
fn cells_of_two_machines_are_not_compared_and_a_row_has_its_machine() {
    let verdict_on = |of: Option<BootedMachine>, by: Option<BootedMachine>| {
        let mut measured = measured();
        // In the first conclusion, `of` is the second cell, and `by` is the first cell.
        for (cell, machine) in measured.cells.iter_mut().zip([by, of]) {
            cell.accel = Accel::Kvm;
            cell.machine = machine;
        }
        judged(&measured, &measured.scenario.conclusion[0]).verdict
    };
    let of = || Some(machine("AMD EPYC", None));
    let below_xen = || Some(machine("AMD EPYC", Some(&[0, 1])));
    assert_eq!(verdict_on(of(), below_xen()), PaperVerdict::Reproduced);
    let other = verdict_on(of(), Some(machine("Core Duo", None)));
    assert!(other.to_string().contains("two models"), "{other}");
    let mut measured = measured();
    measured.cells[0].machine = below_xen();
    let row = csv::text(&[measured]);
    let words = ",\"AMD EPYC, Linux 6.1.0-56-amd64 on Xen 4.17.5 (credit2;";
    assert!(row.contains(words), "{row}");
}

#[test]
fn what_emulation_cannot_decide_a_dom0_of_one_cpu_cannot_either() {
    let mut measured = measured();
    measured.scenario.conclusion[0].not_in_emulation = Some("one CPU".to_owned());
    let mut verdict_on = |cpus: &[u32]| {
        for cell in &mut measured.cells {
            cell.accel = Accel::Xen;
            cell.machine = Some(machine("AMD EPYC", Some(cpus)));
        }
        judged(&measured, &measured.scenario.conclusion[0]).verdict
    };
    assert_eq!(verdict_on(&[0, 1]), PaperVerdict::Reproduced);
    let shared = verdict_on(&[0]).to_string();
    assert!(shared.contains("shared the only CPU"), "{shared}");
}

#[test]
fn a_median_that_one_repetition_does_not_tell_is_not_known() {
    let told = figures(20_000);
    let not_told = RepetitionFigures {
        uncounted: 11,
        ..told.clone()
    };
    let both = [told, not_told];
    assert_eq!(quantile_us(&both[..1], 0.5), "10.0");
    assert_eq!(quantile_us(&both, 0.5), "not known");
    let mut measured = measured();
    measured.cells[0].repetitions = both.to_vec();
    let csv = csv::text(&[measured]);
    assert!(csv.contains(",1,10,10000,20000,20000,"), "{csv}");
    assert!(csv.contains(",2,21,,20000,20000,"), "{csv}");
}

#[test]
fn noise_stands_beside_each_cell_that_polled_and_in_no_other_table() {
    let mut polled = measured();
    let is_told = |measured: Measured| {
        let all = [measured];
        let page = page::page(&all).unwrap();
        [
            page.contains("Noise, %"),
            text::text(&all).contains("noise, %"),
        ]
    };
    polled.cells[0].repetitions[1].runtime_ns = 1_000_000;
    polled.cells[0].repetitions[1].shares_ns = [("irq".to_owned(), 7_000)].into();
    let csv = csv::text(std::slice::from_ref(&polled));
    assert!(csv.contains(",0.900000,0.007000000,\"6.1\""), "{csv}");
    assert!(csv.contains(",0.900000,,\"6.1\""), "{csv}");
    let text = text::text(std::slice::from_ref(&polled));
    assert!(text.contains("| 10.0 | 0.70000 |"), "{text}");
    assert_eq!(is_told(polled), [true, true]);
    assert_eq!(is_told(measured()), [false, false]);
}

#[test]
fn a_range_of_one_is_one() {
    assert_eq!(range_us([5_000].into_iter()), "5.0");
    assert_eq!(range_us([].into_iter()), "");
}
