//! Checks whether a setting of a machine is good.

use vmnoise_host::{FileText, MatchedFile};
use wildmatch::WildMatch;

use crate::machine::{AuditMachine, numbers};
use crate::rule::{AuditRule, CpuFormat, FactSource, Only};
use crate::seen::{Bad, Seen};
use crate::threads;

/// Checks all files, threads or processes to which a rule applies.
pub(crate) fn look(rule: &AuditRule, machine: &AuditMachine) -> Seen {
    look_at(&rule.look, &rule.only, machine)
}

/// Checks all files, threads or processes for which every condition in `only` holds.
pub(crate) fn look_at(at: &FactSource, only: &[Only], machine: &AuditMachine) -> Seen {
    let of_files = |file: &str, names: Option<&str>, is_good: &dyn Fn(&str) -> bool| {
        of_files(machine, only, file, names, |text| {
            is_good(text).then_some(()).ok_or_else(|| text.to_owned())
        })
    };
    match at {
        FactSource::Value { file, key, good } => {
            self::of_files(machine, only, file, None, |text| {
                let value = value(text, key.as_deref());
                let is = |it: &String| WildMatch::new(it).matches(value);
                // A file without the key has a good setting.
                let is_good = value.is_empty() && key.is_some() || good.iter().any(is);
                is_good.then_some(()).ok_or_else(|| value.to_owned())
            })
        }
        FactSource::Choice { file, good } => self::of_files(machine, only, file, None, |text| {
            let chosen = chosen(text);
            good.contains(&chosen).then_some(()).ok_or(chosen)
        }),
        FactSource::Number {
            file,
            at_least,
            at_most,
        } => of_files(file, None, &|text| {
            let is_good = |it: f64| {
                at_least.is_none_or(|least| it >= least) && at_most.is_none_or(|most| it <= most)
            };
            text.parse().is_ok_and(is_good)
        }),
        FactSource::Covers { file } => of_files(file, None, &|text| {
            let listed = machine.listed(text, CpuFormat::List);
            machine.cpus.iter().all(|cpu| listed.contains(cpu))
        }),
        FactSource::Spares {
            file,
            key,
            format,
            name,
        } => self::of_files(machine, only, file, name.as_deref(), |text| {
            let value = value(text, key.as_deref());
            let listed = machine.listed(value, *format);
            let spares = machine.cpus.iter().all(|cpu| !listed.contains(cpu));
            spares.then_some(()).ok_or_else(|| value.to_owned())
        }),
        FactSource::Leaves { files } => leaves(machine, files),
        FactSource::Parameter { words, file } => {
            self::of_files(machine, only, file, None, |text| {
                let is = |word: &str| words.iter().any(|it| WildMatch::new(it).matches(word));
                let has = text.split_whitespace().any(is);
                has.then_some(()).ok_or_else(String::new)
            })
        }
        FactSource::NoParameter { word } => {
            self::of_files(machine, only, COMMAND_LINE, None, |text| {
                let has = text.split_whitespace().any(|it| it == word);
                (!has).then_some(()).ok_or_else(|| word.clone())
            })
        }
        FactSource::ParameterCovers { words } => {
            self::of_files(machine, only, COMMAND_LINE, None, |text| {
                let set = text.split_whitespace().filter_map(|it| it.split_once('='));
                let mut asked = set.filter(|(word, _)| words.iter().any(|it| it == word));
                let covers = |list: &str| {
                    let listed = machine.listed(list, CpuFormat::List);
                    machine.cpus.iter().all(|cpu| listed.contains(cpu))
                };
                let covers = asked.any(|(_, list)| covers(list));
                covers.then_some(()).ok_or_else(String::new)
            })
        }
        FactSource::Threads {
            whose,
            names,
            but,
            fault,
        } => match holds(machine, only, "") {
            Ok(true) => threads::look_at(machine, *whose, names, but, *fault),
            Ok(false) => Seen::Absent,
            Err(unread) => Seen::Denied(unread),
        },
        FactSource::NoProcess { name } => threads::no_process(machine, name),
        // A joint rule needs two machines.
        FactSource::Joint { .. } => Seen::Absent,
    }
}

const COMMAND_LINE: &str = "proc/cmdline";

/// Returns whether every condition in `only` holds for this path. The error is the file that could
/// not be read.
fn holds(machine: &AuditMachine, only: &[Only], path: &str) -> Result<bool, String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for it in only {
        let since = it.since.as_deref().map(numbers);
        if since.is_some_and(|since| machine.kernel() < since) {
            continue;
        }
        let file = it.file.replace("{folder}", folder);
        let text = match machine.read(&file) {
            FileText::Text(text) => text,
            FileText::Absent => return Ok(false),
            FileText::Denied => return Err(file),
        };
        let is_above = |above| text.parse::<f64>().is_ok_and(|it| it > above);
        let is = |it: &String| WildMatch::new(it).matches(&text);
        let lacks = !it.lacks.is_empty() && !it.lacks.iter().all(|word| text.contains(word));
        if !it.is.iter().any(is) && !it.above.is_some_and(is_above) && !lacks {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the value of the line `key: value`; empty if there is no such line. Without a key,
/// returns the whole text.
fn value<'a>(text: &'a str, key: Option<&str>) -> &'a str {
    let Some(key) = key else {
        return text;
    };
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(found, _)| found.trim() == key);
    found.map_or("", |(_, value)| value.trim())
}

fn leaves(machine: &AuditMachine, files: &[String]) -> Seen {
    let mut lists = Vec::new();
    for file in files {
        match machine.read(file) {
            FileText::Absent => {}
            FileText::Denied => return Seen::Denied(file.clone()),
            FileText::Text(text) => lists.push((file, text)),
        }
    }
    let mut all = machine.cpus.iter().chain(&machine.others);
    let is_left = |cpu: &u32| {
        let mut listed = lists
            .iter()
            .map(|(_, text)| machine.listed(text, CpuFormat::List));
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

/// Checks every file that matches a pattern. `judge` returns a bad value as its error.
fn of_files(
    machine: &AuditMachine,
    only: &[Only],
    pattern: &str,
    names: Option<&str>,
    judge: impl Fn(&str) -> Result<(), String>,
) -> Seen {
    let (mut is_there, mut denied, mut bad) = (false, None, Vec::new());
    for MatchedFile { path, instance } in machine.matching(pattern) {
        match holds(machine, only, &path) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(unread) => {
                denied = denied.or(Some(unread));
                continue;
            }
        }
        match machine.read(&path) {
            FileText::Absent => continue,
            FileText::Denied => denied = denied.or(Some(path)),
            FileText::Text(text) => {
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
        // Control groups of version 2 show whether VMs exist. A recording shows neither version.
        (true, None)
            if pattern.contains("{vm")
                && (machine.host().is_none() || !pattern.contains("{vm_cpu"))
                && machine.vms().is_empty() =>
        {
            machine.hidden().map_or(Seen::Absent, Seen::Denied)
        }
        (true, None) => Seen::Absent,
    }
}

/// Returns the text in brackets, which mark the selected word in the kernel's files. Without
/// brackets, returns the whole text.
pub(crate) fn chosen(text: &str) -> String {
    let behind = text.split_once('[').map_or(text, |(_, behind)| behind);
    behind
        .split_once(']')
        .map_or(behind, |(chosen, _)| chosen)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::FileTree;
    use crate::rules::all;
    use crate::tree::grown;

    fn seen(id: &str, files: &[(&str, &str)]) -> Seen {
        let files = files.iter();
        let files = files.map(|(path, text)| ((*path).into(), (*text).into()));
        let root = grown(&files.collect::<FileTree>());
        let machine = AuditMachine::under(root.path(), &[2, 3]).unwrap();
        let rules = all().unwrap();
        look(rules.iter().find(|it| it.id == id).unwrap(), &machine)
    }

    #[test]
    fn lists_are_read_as_the_kernel_reads_them() {
        for (list, is_good) in [
            ("all", true),
            ("2-N", true),
            ("2,N", true),
            ("0-3:2/2", true),
            ("2-3:1/1", true),
            ("all:3/4,3", true),
            ("0-3:1/2", false),
            ("0-3:1/0", false),
            ("2-3:3/2", false),
            ("2-3,x", false),
            ("all:2", false),
        ] {
            let found = seen(
                "rcu-nocbs",
                &[("proc/cmdline", &format!("rcu_nocbs={list}"))],
            );
            assert_eq!(found == Seen::Good, is_good, "{list}: {found:?}");
        }
    }

    #[test]
    fn an_isolated_partition_isolates() {
        const STARTED: (&str, &str) = ("sys/devices/system/cpu/isolated", "");
        let partition = |kind: &str, cpus: &str| {
            let files = [
                STARTED,
                ("sys/fs/cgroup/rt/cpuset.cpus.partition", kind),
                ("sys/fs/cgroup/rt/cpuset.cpus.effective", cpus),
            ];
            seen("isolated-cpus", &files) == Seen::Good
        };
        assert!(partition("isolated\n", "2-3\n"));
        assert!(!partition("isolated\n", "3\n"));
        assert!(!partition(
            "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n",
            "2-3\n"
        ));
        assert!(!partition("root\n", "2-3\n"));
        let root = |cpus: &str| {
            let files = [STARTED, ("sys/fs/cgroup/cpuset.cpus.isolated", cpus)];
            seen("isolated-cpus", &files) == Seen::Good
        };
        assert!(root("2-3\n"));
        assert!(!root("\n"));
        let all_of_them = [
            ("sys/devices/system/cpu/isolated", "0"),
            ("sys/fs/cgroup/cpuset.cpus.isolated", "1-3"),
        ];
        assert!(matches!(seen("housekeeping", &all_of_them), Seen::Bad(_)));
    }

    #[test]
    fn a_group_that_is_idle_has_no_weight() {
        let group = |idle: &str| {
            [
                ("vm/71", "web".to_owned()),
                ("task/71/80", "CPU 0/KVM; 2; 0; 0; 0; 0".to_owned()),
                ("proc/71/task/80/cgroup", "0::/web\n".to_owned()),
                ("sys/fs/cgroup/web/cpu.weight", "0\n".to_owned()),
                ("sys/fs/cgroup/web/cpu.idle", format!("{idle}\n")),
            ]
        };
        for (idle, weight_is_bad, idle_is_bad) in [("0", true, false), ("1", false, true)] {
            let files = group(idle);
            let files: Vec<_> = files.iter().map(|(path, text)| (*path, &**text)).collect();
            let is_bad = |id| matches!(seen(id, &files), Seen::Bad(_));
            assert_eq!(is_bad("vm-weight"), weight_is_bad, "{idle}");
            assert_eq!(is_bad("vm-idle-group"), idle_is_bad, "{idle}");
        }
    }

    #[test]
    fn a_state_that_was_never_entered_is_no_finding() {
        const STATE: &str = "sys/devices/system/cpu/cpu2/cpuidle/state3";
        let state = |usage: &str| {
            let paths = ["latency", "usage", "disable"].map(|it| format!("{STATE}/{it}"));
            let [latency, used, disable] = &paths;
            seen(
                "idle-states",
                &[(latency, "133"), (used, usage), (disable, "0")],
            )
        };
        assert!(matches!(state("7"), Seen::Bad(_)));
        assert_eq!(state("0"), Seen::Absent);
    }

    /// Since Linux 5.17 the CPU's features matter. Without another clock source, the kernel has
    /// nothing to compare the TSC with.
    #[test]
    fn a_tsc_that_the_kernel_trusts_is_compared_with_nothing() {
        let compares = |kernel: &str, clocks: &str, flags: &str| {
            let folder = "sys/devices/system/clocksource/clocksource0";
            let [current, available] =
                ["current", "available"].map(|it| format!("{folder}/{it}_clocksource"));
            let files = [
                ("proc/sys/kernel/osrelease", kernel),
                ("proc/cmdline", "quiet"),
                ("proc/cpuinfo", &format!("flags\t\t: fpu {flags}\n")),
                (&current, "tsc"),
                (&available, clocks),
            ];
            matches!(seen("tsc-watchdog", &files), Seen::Bad(_))
        };
        const ALL: &str = "constant_tsc nonstop_tsc tsc_adjust";
        assert!(compares(
            "6.1.0",
            "tsc hpet acpi_pm",
            "constant_tsc nonstop_tsc"
        ));
        assert!(!compares("6.1.0", "tsc hpet acpi_pm", ALL));
        assert!(compares("5.16.0", "tsc hpet acpi_pm", ALL));
        assert!(!compares("6.1.0", "tsc", "constant_tsc nonstop_tsc"));
    }

    #[test]
    fn managed_interrupts_are_those_that_come_here() {
        let files = |cpus, line| {
            [
                ("proc/irq/24/effective_affinity_list", cpus),
                ("proc/cmdline", line),
            ]
        };
        let is_bad = |cpus, line| matches!(seen("managed-irq", &files(cpus, line)), Seen::Bad(_));
        assert!(is_bad("2", "quiet"));
        assert!(!is_bad("0", "quiet"));
        assert!(!is_bad("2", "isolcpus=managed_irq,2-3"));
    }
}
