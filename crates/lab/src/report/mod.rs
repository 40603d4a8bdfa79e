//! The papers' figures beside the measured ones: a page without network or script, the same as Markdown, and a
//! CSV file.

mod cdf;
mod csv;
mod page;
mod text;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::figures::{Figures, Who};
use crate::folder::{Ended, Folder};
use crate::scenario::Scenario;

/// A scenario, and how its cells ended that were run.
#[derive(Debug)]
struct Measured {
    scenario: Scenario,
    /// In the order of the scenario.
    cells: Vec<Ended>,
}

impl Measured {
    fn of(folder: &Folder) -> Result<Measured> {
        let cells = folder.scenario.cells();
        let ended = cells.iter().map(|cell| folder.ended(&cell.name()));
        let ended = ended.collect::<Result<Vec<_>>>()?;
        Ok(Measured {
            scenario: folder.scenario.clone(),
            cells: ended.into_iter().flatten().collect(),
        })
    }

    fn repetitions(&self, cell: &str) -> &[Figures] {
        let mut cells = self.cells.iter();
        let found = cells.find(|ended| ended.cell == cell);
        found.map_or(&[], |ended| &ended.repetitions)
    }
}

/// Writes the page, and beside it the Markdown and the CSV file.
///
/// # Errors
/// If a run cannot be read, or the files cannot be written.
pub fn write(folders: &[Folder], page: &Path) -> Result<()> {
    let all: Vec<Measured> = folders.iter().map(Measured::of).collect::<Result<_>>()?;
    let write = |path: &Path, text: String| {
        fs::write(path, text).with_context(|| path.display().to_string())
    };
    write(page, page::page(&all)?)?;
    write(&page.with_extension("md"), text::text(&all))?;
    write(&page.with_extension("csv"), csv::text(&all))
}

/// The repetition with the largest figure.
fn worst(repetitions: &[Figures]) -> Option<&Figures> {
    repetitions.iter().max_by_key(|it| it.worst_ns)
}

/// Microseconds, of several repetitions the least and the most.
fn range_us(repetitions: &[Figures], ns: impl Fn(&Figures) -> u64) -> String {
    let all = || repetitions.iter().map(&ns);
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    match (all().min(), all().max()) {
        (Some(least), Some(most)) if least < most => format!("{} to {}", us(least), us(most)),
        (Some(ns), _) => us(ns),
        _ => String::new(),
    }
}

/// In words: `kvm msr 7.1 us`.
fn words(who: &[Who]) -> String {
    let part = |who: &Who| {
        let name = who.name.as_deref().unwrap_or("(no witness)");
        format!("{} {name} {:.1} us", who.share, who.ns as f64 / 1e3)
    };
    let parts: Vec<String> = who.iter().map(part).collect();
    parts.join(", ")
}

/// Who made the worst of all repetitions, and whether the host was asked in vain.
fn who_made(worst: &Figures) -> String {
    let who = words(&worst.who);
    match worst.not_joined {
        Some(_) => format!("{who} (not joined with its host)"),
        None => who,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;
    use crate::library;

    fn figures(worst_ns: u64) -> Figures {
        Figures {
            lengths: vec![(10_000, 9), (worst_ns, 1)],
            worst_ns,
            who: vec![Who {
                share: "thread".to_owned(),
                name: Some("=a\"<b>,c:7".to_owned()),
                ns: 1_500,
            }],
            kernel: "6.1".to_owned(),
            ..Figures::default()
        }
    }

    fn measured() -> Measured {
        let scenario = Scenario::parse(library::text("kvm-and-xen").unwrap()).unwrap();
        let ended = |cell: &str, worst_ns: &[u64], failure: Option<&str>| Ended {
            cell: cell.to_owned(),
            accel: "tcg".to_owned(),
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
                ended("xen-rt-rt", &[], Some("it panicked\nhere")),
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
            "| kvm-rt-rt | 20 | 20.0 to 30.0 |",
            "| reproduced |",
            "stops in QEMU",
            "| kvm-ordinary-rt | 0 |",
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
    fn a_range_of_one_is_one() {
        assert_eq!(range_us(&[figures(5_000)], |it| it.worst_ns), "5.0");
        assert_eq!(range_us(&[], |it| it.worst_ns), "");
    }
}
