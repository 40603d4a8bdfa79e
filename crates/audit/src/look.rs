//! Whether a fact is good on a machine.

use vmnoise_tracer::host::cpu_list;

use crate::machine::{Found, Machine, Said};
use crate::rule::{CpuFormat, Look};

/// One place where it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// The file, or the kernel's command line.
    pub path: String,
    /// Which of several it is; empty where there is one.
    pub instance: String,
    /// What people call it; empty where it has no other name.
    pub name: String,
    /// What it is set to.
    pub found: String,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// All is well.
    Good,
    /// This kernel has no such setting.
    Absent,
    /// It could not be read: which file.
    Denied(String),
    /// It is not good here.
    Bad(Vec<Bad>),
}

/// Looks at it.
pub(crate) fn look(at: &Look, machine: &Machine) -> Seen {
    match at {
        Look::Value { file, good } => of_files(machine, file, None, |text| {
            good.iter()
                .any(|it| it == text)
                .then_some(())
                .ok_or_else(|| text.to_owned())
        }),
        Look::Choice { file, good } => of_files(machine, file, None, |text| {
            let chosen = chosen(text);
            good.contains(&chosen).then_some(()).ok_or(chosen)
        }),
        Look::Number { file, at_least } => of_files(machine, file, None, |text| {
            let number = text.parse::<f64>();
            number
                .is_ok_and(|it| it >= *at_least)
                .then_some(())
                .ok_or_else(|| text.to_owned())
        }),
        Look::Covers { file } => of_files(machine, file, None, |text| {
            let listed = cpus(text, CpuFormat::List);
            let holds = machine.cpus.iter().all(|cpu| listed.contains(cpu));
            holds.then_some(()).ok_or_else(|| text.to_owned())
        }),
        Look::Spares { file, format, name } => of_files(machine, file, name.as_deref(), |text| {
            let listed = cpus(text, *format);
            let spares = machine.cpus.iter().all(|cpu| !listed.contains(cpu));
            spares.then_some(()).ok_or_else(|| text.to_owned())
        }),
        Look::Parameter { word } => of_command_line(machine, |has| has(word)),
        Look::NoParameter { word } => of_command_line(machine, |has| !has(word)),
    }
}

const COMMAND_LINE: &str = "proc/cmdline";

fn of_command_line(machine: &Machine, is_good: impl Fn(&dyn Fn(&str) -> bool) -> bool) -> Seen {
    of_files(machine, COMMAND_LINE, None, |text| {
        let has = |word: &str| text.split_whitespace().any(|it| it == word);
        is_good(&has).then_some(()).ok_or_else(String::new)
    })
}

/// Every file of a pattern; `judge` says what is found where that is not good.
fn of_files(
    machine: &Machine,
    pattern: &str,
    names: Option<&str>,
    judge: impl Fn(&str) -> Result<(), String>,
) -> Seen {
    let (mut is_there, mut denied, mut bad) = (false, None, Vec::new());
    for Found { path, instance } in machine.files(pattern) {
        match machine.read(&path) {
            Said::Absent => continue,
            Said::Denied => denied = denied.or(Some(path)),
            Said::Text(text) => {
                is_there = true;
                if let Err(found) = judge(&text) {
                    let folder = names.map(|names| names.replace('*', &instance));
                    let name = folder.map(|folder| machine.folders(&folder).join(","));
                    bad.push(Bad {
                        path,
                        instance,
                        name: name.unwrap_or_default(),
                        found,
                    });
                }
            }
        }
    }
    match (bad.is_empty(), denied) {
        (false, _) => Seen::Bad(bad),
        (true, Some(path)) => Seen::Denied(path),
        (true, None) if is_there => Seen::Good,
        (true, None) => Seen::Absent,
    }
}

/// What stands in brackets, as the kernel shows which of several words is set; all of it where nothing does.
pub(crate) fn chosen(text: &str) -> String {
    let behind = text.split_once('[').map_or(text, |(_, behind)| behind);
    behind
        .split_once(']')
        .map_or(behind, |(chosen, _)| chosen)
        .to_owned()
}

/// CPUs as the kernel writes them; none of what it writes where there are none (`(null)`).
fn cpus(text: &str, format: CpuFormat) -> Vec<u32> {
    match format {
        CpuFormat::List => cpu_list::parse(text).unwrap_or_default(),
        CpuFormat::Mask => {
            let words = text.split(',').rev();
            let words = words.map(|word| u32::from_str_radix(word, 16).unwrap_or(0));
            let bits = (0..).zip(words).flat_map(|(place, word)| {
                (0..32).filter_map(move |bit| (word >> bit & 1 == 1).then_some(place * 32 + bit))
            });
            bits.collect()
        }
    }
}
