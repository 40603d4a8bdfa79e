//! Whether a fact is good on a machine.

use vmnoise_tracer::host::cpu_list;
use wildmatch::WildMatch;

use crate::machine::{Found, Machine, Said};
use crate::rule::{CpuFormat, Look, Only, Rule};
use crate::seen::{Bad, Seen};
use crate::threads;

/// Looks at what a rule is about.
pub(crate) fn look(rule: &Rule, machine: &Machine) -> Seen {
    look_at(&rule.look, &rule.only, machine)
}

/// Looks at it, where that is so.
pub(crate) fn look_at(at: &Look, only: &[Only], machine: &Machine) -> Seen {
    let of_files = |file: &str, names: Option<&str>, is_good: &dyn Fn(&str) -> bool| {
        of_files(machine, only, file, names, |text| {
            is_good(text).then_some(()).ok_or_else(|| text.to_owned())
        })
    };
    match at {
        Look::Value { file, key, good } => {
            self::of_files(machine, only, file, None, |text| {
                let value = value(text, key.as_deref());
                let is = |it: &String| WildMatch::new(it).matches(value);
                // What a file does not say is no finding.
                let is_good = value.is_empty() && key.is_some() || good.iter().any(is);
                is_good.then_some(()).ok_or_else(|| value.to_owned())
            })
        }
        Look::Choice { file, good } => self::of_files(machine, only, file, None, |text| {
            let chosen = chosen(text);
            good.contains(&chosen).then_some(()).ok_or(chosen)
        }),
        Look::Number {
            file,
            at_least,
            at_most,
        } => of_files(file, None, &|text| {
            let is_good = |it: f64| {
                at_least.is_none_or(|least| it >= least) && at_most.is_none_or(|most| it <= most)
            };
            text.parse().is_ok_and(is_good)
        }),
        Look::Covers { file } => of_files(file, None, &|text| {
            let listed = cpus(text, CpuFormat::List);
            machine.cpus.iter().all(|cpu| listed.contains(cpu))
        }),
        Look::Spares {
            file,
            key,
            format,
            name,
        } => self::of_files(machine, only, file, name.as_deref(), |text| {
            let value = value(text, key.as_deref());
            let listed = cpus(value, *format);
            let spares = machine.cpus.iter().all(|cpu| !listed.contains(cpu));
            spares.then_some(()).ok_or_else(|| value.to_owned())
        }),
        Look::Leaves { files } => leaves(machine, files),
        Look::Parameter { words, file } => self::of_files(machine, only, file, None, |text| {
            let is = |word: &str| words.iter().any(|it| WildMatch::new(it).matches(word));
            let has = text.split_whitespace().any(is);
            has.then_some(()).ok_or_else(String::new)
        }),
        Look::NoParameter { word } => self::of_files(machine, only, COMMAND_LINE, None, |text| {
            let has = text.split_whitespace().any(|it| it == word);
            (!has).then_some(()).ok_or_else(|| word.clone())
        }),
        Look::ParameterCovers { words } => {
            self::of_files(machine, only, COMMAND_LINE, None, |text| {
                let set = text.split_whitespace().filter_map(|it| it.split_once('='));
                let mut asked = set.filter(|(word, _)| words.iter().any(|it| it == word));
                let covers = |list: &str| {
                    let listed = cpus(list, CpuFormat::List);
                    list == "all" || machine.cpus.iter().all(|cpu| listed.contains(cpu))
                };
                let covers = asked.any(|(_, list)| covers(list));
                covers.then_some(()).ok_or_else(String::new)
            })
        }
        Look::Threads {
            whose,
            names,
            but,
            fault,
        } => match holds(machine, only, "") {
            Ok(true) => threads::look_at(machine, *whose, names, but, *fault),
            Ok(false) => Seen::Absent,
            Err(unread) => Seen::Denied(unread),
        },
        Look::NoProcess { name } => threads::no_process(machine, name),
        // No machine by itself.
        Look::Joint { .. } => Seen::Absent,
    }
}

const COMMAND_LINE: &str = "proc/cmdline";

/// Whether all of it is so at a place; otherwise the file that could not be read.
fn holds(machine: &Machine, only: &[Only], path: &str) -> Result<bool, String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for it in only {
        let file = it.file.replace("{folder}", folder);
        let text = match machine.read(&file) {
            Said::Text(text) => text,
            Said::Absent => return Ok(false),
            Said::Denied => return Err(file),
        };
        let is_above = |above| text.parse::<f64>().is_ok_and(|it| it > above);
        if !it.is.contains(&text) && !it.above.is_some_and(is_above) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What stands behind `key:`; all of it without a key.
fn value<'a>(text: &'a str, key: Option<&str>) -> &'a str {
    let Some(key) = key else {
        return text;
    };
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(found, _)| found.trim() == key);
    found.map_or("", |(_, value)| value.trim())
}

fn leaves(machine: &Machine, files: &[String]) -> Seen {
    let mut lists = Vec::new();
    for file in files {
        match machine.read(file) {
            Said::Absent => {}
            Said::Denied => return Seen::Denied(file.clone()),
            Said::Text(text) => lists.push((file, text)),
        }
    }
    let mut all = machine.cpus.iter().chain(&machine.others);
    let is_left = |cpu: &u32| {
        let mut listed = lists.iter().map(|(_, text)| cpus(text, CpuFormat::List));
        listed.all(|list| !list.contains(cpu))
    };
    if lists.is_empty() {
        return Seen::Absent;
    }
    if all.any(is_left) {
        return Seen::Good;
    }
    let bad = lists.into_iter().map(|(file, found)| Bad {
        path: file.clone(),
        instance: String::new(),
        name: String::new(),
        found,
    });
    Seen::Bad(bad.collect())
}

/// Every file of a pattern; `judge` says what is found where that is not good.
fn of_files(
    machine: &Machine,
    only: &[Only],
    pattern: &str,
    names: Option<&str>,
    judge: impl Fn(&str) -> Result<(), String>,
) -> Seen {
    let (mut is_there, mut denied, mut bad) = (false, None, Vec::new());
    for Found { path, instance } in machine.files(pattern) {
        match holds(machine, only, &path) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(unread) => {
                denied = denied.or(Some(unread));
                continue;
            }
        }
        match machine.read(&path) {
            Said::Absent => continue,
            Said::Denied => denied = denied.or(Some(path)),
            Said::Text(text) => {
                is_there = true;
                if let Err(found) = judge(&text) {
                    let folder = names.map(|names| names.replace('*', &instance));
                    let name = folder.and_then(|folder| machine.folders(&folder));
                    bad.push(Bad {
                        path,
                        instance,
                        name: name.unwrap_or_default().join(","),
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
        (true, None) if pattern.contains("{vm") && machine.vms().is_empty() => {
            machine.hidden().map_or(Seen::Absent, Seen::Denied)
        }
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
        // `2-N`: to the last.
        CpuFormat::List => cpu_list::parse(&text.replace('N', "8191")).unwrap_or_default(),
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
