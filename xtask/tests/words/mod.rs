//! Checks the language rules that a program can check (CONTRIBUTING.md, "How we write"). It checks
//! doc comments, help, errors, metrics' HELP, comments of the BPF programs, and docs.
//!
//! `allowed.txt` lists how many offences each file may still have. If a file has fewer, its number
//! in the list must be lowered, so that the file cannot get worse again.

mod names;
mod rules;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use rules::Offence;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const ALLOWED: &str = include_str!("allowed.txt");
/// Path of the file to which the test writes a list with the current numbers.
const RENEWED: &str = "target/words.txt";

#[test]
fn no_file_has_more_offences_than_the_list_allows() {
    let mut found: BTreeMap<String, Vec<Offence>> = BTreeMap::new();
    let mut read = 0;
    for text in texts::all(ROOT) {
        read += 1;
        let offences = rules::offences(&text);
        if !offences.is_empty() {
            found.entry(text.file).or_default().extend(offences);
        }
    }
    assert!(read > 5_000, "only {read} texts were read");
    for offence in names::offences(ROOT) {
        found
            .entry(offence.file.clone())
            .or_default()
            .push(offence.what);
    }
    let allowed = allowed();
    let mut report = String::new();
    let files: BTreeSet<&String> = found.keys().chain(allowed.keys()).collect();
    for file in files {
        let (has, may) = (
            found.get(file).map_or(0, Vec::len),
            allowed.get(file).copied().unwrap_or(0),
        );
        if has < may {
            writeln!(report, "{file}: better, {has} instead of {may}").unwrap();
        } else if has > may {
            writeln!(report, "{file}: {has} instead of {may} at most:").unwrap();
            for offence in &found[file] {
                writeln!(report, "    {offence}").unwrap();
            }
        }
    }
    if !report.is_empty() {
        let list: String = found
            .iter()
            .map(|(file, offences)| format!("{} {file}\n", offences.len()))
            .collect();
        fs::write(format!("{ROOT}/{RENEWED}"), list).unwrap();
        panic!(
            "{report}\nIf no number has grown, renew the list: \
             cp {RENEWED} xtask/tests/words/allowed.txt"
        );
    }
}

fn allowed() -> BTreeMap<String, usize> {
    let lines = ALLOWED.lines().map(|line| {
        let (number, file) = line.split_once(' ').expect("NUMBER FILE");
        (file.to_owned(), number.parse().expect("a number"))
    });
    lines.collect()
}
