//! Tests of `vmnoise audit` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use vmnoise_events::{HostFacts, Settings};
use vmnoise_testkit::TestProcess;

use crate::join_pair::{Flaws, write_guest, write_guest_of, write_host, write_host_of};

fn vmnoise(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder);
    command.args(line.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[test]
fn a_recording_of_another_machine_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_guest(&folder.path().join("gaps.vmn"));
    write_host(&folder.path().join("host.vmn"), Flaws::default());
    for (line, why) in [
        ("audit gaps.vmn", "and lacks its settings"),
        (
            "audit host.vmn",
            "host.vmn is of `vmnoise exits`, which has no gaps",
        ),
        ("audit -c 4095", "CPU 4095 is not online"),
        ("audit -c x", "`x` in the CPU list"),
        ("audit vm", "write the VM's name after `vm`"),
        (
            "audit vm nobody",
            "no VM that you may see is called `nobody`",
        ),
        ("audit --measure 1s gaps.vmn", "leave one of them out"),
        (
            "audit host gaps.vmn host.vmn",
            "leave out `host`, `guest` or `vm NAME`",
        ),
        ("audit gaps.vmn host.vmn gaps.vmn", "name one recording"),
    ] {
        let output = vmnoise(folder.path(), line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(129), "{line}: {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{line}: {said}"
        );
        assert!(output.stdout.is_empty());
    }
}

/// A clone has the same name and kernel as this machine, and so has this machine before its last
/// boot: for both, the present settings do not count. For this machine since its boot, the audit
/// reports changed settings and reads missing ones.
#[test]
fn a_recording_is_judged_by_how_its_machine_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let here = vmnoise_host::Host::here().facts().unwrap();
    let boot = std::fs::read_to_string(format!("/{}", vmnoise_host::BOOT_ID)).unwrap();
    for (boot, is_here) in [(boot.trim(), true), ("0", false)] {
        let isolated = [
            ("sys/devices/system/cpu/isolated", "1-3"),
            (vmnoise_host::BOOT_ID, boot),
        ];
        let set = set(&isolated);
        write_guest_of(&folder.path().join("gaps.vmn"), |facts| {
            set(facts);
            facts.name = here.name.clone();
            facts.kernel = here.kernel.clone();
        });
        let output = vmnoise(folder.path(), "audit gaps.vmn -c 0 --format json");
        let audited: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(audited["recorded_at"], "2026-01-01T00:00:00Z");
        let place = &finding(&audited, "isolated-cpus").unwrap()["places"][0];
        assert_eq!(place["found"], "1-3");
        assert_eq!(place["since_run"].is_string(), is_here, "{place}");
        let unread = finding(&audited, "thp").filter(|it| it["verdict"] == "cannot_be_read");
        assert_eq!(unread.is_none(), is_here, "{audited}");
    }
}

/// Returns a change to the settings of a machine with four CPUs, with these additional files.
fn set(files: &[(&str, &str)]) -> impl FnOnce(&mut HostFacts) {
    let mut settings = Settings::default();
    let usual = [
        ("sys/devices/system/cpu/online", "0-3"),
        ("proc/sys/kernel/osrelease", "6.12.9"),
        ("sys/fs/cgroup/cpuset.cpus.isolated", ""),
    ];
    for (path, text) in usual.iter().chain(files) {
        settings.insert(path, Some(text)).unwrap();
    }
    |facts| facts.settings = Some(settings)
}

fn finding<'a>(found: &'a Value, rule: &str) -> Option<&'a Value> {
    let mut findings = found["findings"].as_array().unwrap().iter();
    findings.find(|it| it["rule"] == rule)
}

#[test]
fn another_machine_is_judged_by_how_it_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = "a`b|c d";
    let files = [
        ("sys/devices/system/cpu/isolated", "1-3"),
        ("sys/devices/system/cpu/nohz_full", "0-3"),
        ("proc/irq/", "62"),
        ("proc/irq/62/effective_affinity_list", "0"),
        ("proc/irq/62/smp_affinity_list", "0-3"),
        ("proc/irq/62/", foreign),
    ];
    write_guest_of(&folder.path().join("gaps.vmn"), set(&files));
    let audit = |words: &str| {
        let output = vmnoise(folder.path(), &format!("audit gaps.vmn {words}"));
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let audited: Value = serde_json::from_str(&audit("--format json")).unwrap();
    assert_eq!(audited["kernel"], "6.12.9-guest");
    assert_eq!(audited["recorded_at"], "2026-01-01T00:00:00Z");
    assert_eq!(audited["cpus"], serde_json::json!([0]));
    let isolated = finding(&audited, "isolated-cpus").unwrap();
    assert_eq!(isolated["places"][0]["found"], "1-3");
    let irq = finding(&audited, "irq-affinity").unwrap();
    assert_eq!(irq["places"][0]["name"], foreign);
    assert_eq!(irq["places"][0]["write"]["to"], "1-3");
    assert_eq!(irq["places"][0]["write"]["was"], "0-3");
    let good = audited["good"].as_array().unwrap();
    assert!(good.contains(&"nohz-full".into()), "{good:?}");
    // A setting that was not recorded then is unknown now.
    let unread = finding(&audited, "thp").unwrap();
    assert_eq!(unread["verdict"], "cannot_be_read");
    assert!(audit("").contains("is not in the recording: record as root"));
    // Another CPU of that machine has no finding.
    let other: Value = serde_json::from_str(&audit("-c 1 --format json")).unwrap();
    assert!(finding(&other, "isolated-cpus").is_none());
    // A foreign name creates no row or cell.
    let table = audit("--format markdown");
    let rows = table.lines().filter(|line| line.starts_with('|'));
    assert!(rows.clone().count() > 4);
    assert!(
        rows.clone().all(|row| row.matches('|').count() == 5),
        "{table}"
    );
    assert!(
        rows.clone()
            .any(|row| row.contains("a\u{fffd}b\u{fffd}c d")),
        "{table}"
    );
}

/// Findings that concern guest and host together.
#[test]
fn a_guest_and_its_host_are_judged_together() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let guest = [
        ("sys/devices/system/cpu/isolated", "0"),
        ("sys/devices/system/cpu/nohz_full", "0"),
        ("proc/cmdline", "quiet no-steal-acc idle=poll"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "kvm-clock",
        ),
        ("sys/devices/system/cpu/cpuidle/current_driver", "none"),
    ];
    let host = [
        ("sys/devices/system/cpu/isolated", ""),
        ("sys/devices/system/cpu/nohz_full", "(null)"),
        ("sys/module/kvm/parameters/halt_poll_ns", "200000"),
    ];
    write_guest_of(&folder.join("guest.vmn"), set(&guest));
    write_host_of(&folder.join("host.vmn"), Flaws::default(), set(&host));
    let json = |line: &str| -> Value {
        let output = vmnoise(folder, line);
        assert!(output.status.success(), "{line}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let audited = json("audit guest.vmn host.vmn --format json");
    assert_eq!(audited["schema"], "vmnoise.audit-pair/1");
    assert_eq!(audited["guest"]["cpus"], serde_json::json!([0]));
    assert_eq!(audited["host"]["cpus"], serde_json::json!([3]));
    // The times come from the join.
    let joined = json("explain guest.vmn host.vmn --format json -T 1us");
    let culprits = joined["culprits"].as_array().unwrap();
    let took = |share: &str, name: &str| -> u64 {
        let of = culprits.iter();
        let of = of.filter(|it| it["share"] == share && it["name"] == name);
        of.map(|it| it["total_ns"].as_u64().unwrap()).sum()
    };
    let all_ns: u64 = culprits
        .iter()
        .map(|it| it["total_ns"].as_u64().unwrap())
        .sum();
    assert_eq!(audited["noise_ns"], all_ns);
    let ticks = finding(&audited["both"], "guest-tickless-host-ticks").unwrap();
    assert_eq!(ticks["verdict"], "explains");
    assert_eq!(ticks["explained_ns"], took("host_irq", "local_timer:236"));
    assert!(ticks["explained_ns"].as_u64().unwrap() > 0);
    // Isolation does not move the kernel's own threads, a vCPU that halts meets them too, and there
    // was nothing else.
    for rule in ["guest-polls-shared-cpu", "isolated-guest-cpu-shared"] {
        let shared = finding(&audited["both"], rule).unwrap();
        assert_eq!(shared["verdict"], "could_matter", "{rule}");
    }
    let blind = finding(&audited["both"], "guest-blind-to-steal").unwrap();
    let seen = blind["places"][1]["name"].as_str().unwrap();
    assert!(seen.contains("preempted ksoftirqd/3:31"), "{blind}");
    // The vCPU stayed on one CPU of its host, and the guest reads its own clock.
    for rule in ["isolated-guest-cpu-moves", "guest-clock-exits"] {
        assert!(finding(&audited["both"], rule).is_none(), "{rule}");
    }
    assert!(audited["explained_ns"].as_u64() <= audited["noise_ns"].as_u64());

    let output = vmnoise(folder, "audit guest.vmn host.vmn");
    let (together, alone) = text(&output.stdout).split_once("\nguest: ").unwrap();
    assert!(alone.contains("\nhost: "), "{alone}");
    insta::assert_snapshot!(together);
    for format in ["junit", "markdown"] {
        let output = vmnoise(
            folder,
            &format!("audit guest.vmn host.vmn --format {format}"),
        );
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn strangers_are_not_judged_together() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let off = Flaws {
        offset_tsc: 5_000_000,
        ..Flaws::default()
    };
    write_guest_of(&folder.join("guest.vmn"), set(&[]));
    write_guest(&folder.join("older.vmn"));
    write_host_of(&folder.join("host.vmn"), Flaws::default(), set(&[]));
    write_host_of(&folder.join("off.vmn"), off, set(&[]));
    for (line, status, why) in [
        ("guest.vmn off.vmn", 1, "does not agree"),
        ("host.vmn guest.vmn", 129, "guest"),
        ("older.vmn host.vmn", 129, "and lacks its settings"),
        (
            "guest.vmn host.vmn -c 1",
            129,
            "-c takes the CPUs of one machine",
        ),
        (
            "guest.vmn host.vmn --format node-labels",
            129,
            "node labels are for one machine",
        ),
    ] {
        let output = vmnoise(folder, &format!("audit {line}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{line}: {said}"
        );
        assert!(output.stdout.is_empty());
    }
}

/// Each format has each rule once, with the same verdict.
#[test]
fn all_formats_say_the_same() {
    const CASES: &str = "
import sys, xml.etree.ElementTree as tree
for case in tree.parse(sys.stdin).getroot().iter('testcase'):
    [kind] = case
    print(case.get('name'), kind.get('type') or kind.text.split(':')[0])
";
    let folder = tempfile::tempdir().unwrap();
    let audit = |format: &str| vmnoise(folder.path(), &format!("audit --format {format}")).stdout;
    let audited: Value = serde_json::from_slice(&audit("json")).unwrap();
    let mut verdicts = std::collections::BTreeMap::new();
    for finding in audited["findings"].as_array().unwrap() {
        let verdict = finding["verdict"].as_str().unwrap().replace('_', "-");
        verdicts.insert(finding["rule"].as_str().unwrap(), verdict);
    }
    let rows = verdicts.len();
    for list in ["good", "absent"] {
        for rule in audited[list].as_array().unwrap() {
            verdicts.insert(rule.as_str().unwrap(), list.to_owned());
        }
    }
    let lines = verdicts.iter();
    let lines: Vec<String> = lines
        .map(|(rule, verdict)| format!("{rule} {verdict}"))
        .collect();

    let labels = audit("node-labels");
    let labels = text(&labels).lines().map(|line| {
        let label = line.strip_prefix("vmnoise.io/audit.").unwrap();
        label.replace('=', " ")
    });
    assert_eq!(labels.collect::<Vec<_>>(), lines);

    let file = folder.path().join("audit.xml");
    std::fs::write(&file, audit("junit")).unwrap();
    let mut python = Command::new("python3");
    python
        .args(["-c", CASES])
        .stdin(std::fs::File::open(&file).unwrap());
    let cases = python.output().unwrap();
    let mut cases: Vec<&str> = text(&cases.stdout).lines().collect();
    cases.sort_unstable();
    assert_eq!(cases, lines);

    // Every row has as many cells as the heading.
    let table = audit("markdown");
    let table = text(&table).lines().filter(|line| line.starts_with('|'));
    let cells: Vec<usize> = table.map(|line| line.matches('|').count()).collect();
    assert_eq!(cells, vec![5; rows + 2]);
}

mod root {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;

    fn json(folder: &Path, line: &str) -> Value {
        let output = vmnoise(folder, line);
        assert!(output.status.success(), "{line}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Compares a finding with the time that interrupts of devices took according to the summary.
    #[test]
    fn a_finding_has_the_time_that_the_summary_has() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(
            vmnoise(
                folder,
                "osnoise -q -c 1 -d 1s -T 100ns --feed none -o run.vmn"
            )
            .status
            .success()
        );
        let summary = json(folder, "explain run.vmn --format json");
        let audit = json(folder, "audit run.vmn --format json");
        assert_eq!(audit["schema"], "vmnoise.audit/1");
        assert_eq!(audit["noise_ns"], summary["cpus"][0]["noise_ns"]);
        let findings = audit["findings"].as_array().unwrap();
        let on_this_cpu = findings.iter().find(|it| it["rule"] == "irq-affinity");
        let places = on_this_cpu
            .map(|it| it["places"].as_array().unwrap().clone())
            .unwrap_or_default();
        let numbers: Vec<&str> = places
            .iter()
            .map(|it| it["instance"].as_str().unwrap())
            .collect();
        let sources = summary["cpus"][0]["sources"].as_array().unwrap().iter();
        let theirs = sources.filter(|source| {
            let number = source["name"].as_str().unwrap().rsplit(':').next();
            source["share"] == "irq" && numbers.contains(&number.unwrap())
        });
        let took: u64 = theirs
            .map(|source| source["total_ns"].as_u64().unwrap())
            .sum();
        let explained = on_this_cpu
            .and_then(|it| it["explained_ns"].as_u64())
            .unwrap_or(0);
        assert_eq!(explained, took, "{on_this_cpu:?}");
        println!("{numbers:?} took {took} ns");
        // Findings are sorted, and no time counts twice.
        let each: Vec<u64> = findings
            .iter()
            .map(|it| it["explained_ns"].as_u64().unwrap_or(0))
            .collect();
        assert!(each.is_sorted_by(|one, next| one >= next), "{each:?}");
        assert!(
            audit["explained_ns"].as_u64() <= audit["noise_ns"].as_u64(),
            "{audit}"
        );
    }

    /// Without a recording the audit measures, judges the measurement as a recording, and deletes
    /// it.
    #[test]
    fn it_measures_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        command
            .current_dir(folder.path())
            .env("TMPDIR", folder.path());
        command.args(["audit", "-c", "1", "--measure", "1s", "--format", "json"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let audit: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(audit["cpus"], serde_json::json!([1]));
        let noise_ns = audit["noise_ns"].as_u64().unwrap();
        assert!(
            noise_ns > 0 && audit["explained_ns"].as_u64().unwrap() <= noise_ns,
            "{audit}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// undo.sh writes the present values of this machine, and the audit changed nothing.
    #[test]
    fn the_scripts_are_a_shells_and_undo_is_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let output = vmnoise(folder.path(), "audit -c 1 --script scripts");
        assert!(output.status.success(), "{output:?}");
        for script in ["apply.sh", "undo.sh"] {
            let path = folder.path().join("scripts").join(script);
            let checked = Command::new("sh").arg("-n").arg(&path).output().unwrap();
            assert!(checked.status.success(), "{checked:?}");
        }
        let read = |script: &str| -> BTreeMap<String, String> {
            let script = fs::read_to_string(folder.path().join("scripts").join(script)).unwrap();
            let lines = script
                .lines()
                .filter_map(|line| line.strip_prefix("change "));
            let words = lines.filter_map(|line| line.split_once(' '));
            words
                .map(|(value, file)| (file.to_owned(), value.to_owned()))
                .collect()
        };
        let script = fs::read_to_string(folder.path().join("scripts/apply.sh")).unwrap();
        let throttling = script
            .lines()
            .find(|line| line.contains("sched_rt_runtime_us"));
        assert!(
            throttling.is_none_or(|line| line.starts_with("# change -1 ")),
            "{throttling:?}"
        );
        let (apply, undo) = (read("apply.sh"), read("undo.sh"));
        assert_eq!(
            apply.keys().collect::<Vec<_>>(),
            undo.keys().collect::<Vec<_>>()
        );
        // Any untuned machine has a finding: this one throttles real-time tasks.
        assert!(!undo.is_empty());
        for (file, was) in &undo {
            let now = fs::read_to_string(file).unwrap();
            let now = now.trim();
            let is_chosen = now.contains(&format!("[{was}]"));
            let is_hex = was.strip_prefix("0x") == Some(now);
            assert!(
                now == was || is_chosen || is_hex,
                "{file}: {now}, and undo writes {was}"
            );
        }
    }
}

/// Returns the names of all rules that were checked.
fn rules(line: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let output = vmnoise(folder.path(), line);
    assert!(output.status.success(), "{line}: {output:?}");
    let audit: Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = |key: &str| {
        let all = audit[key].as_array().unwrap().iter();
        all.map(|it| it["rule"].as_str().or(it.as_str()).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    [words("findings"), words("good"), words("absent")].concat()
}

/// Rules for hosts are not checked on a guest, nor the reverse; all others are checked on both.
#[test]
fn a_machine_is_looked_at_as_what_it_is_asked_to_be() {
    let both = rules("audit --format json");
    let (host, guest) = (
        rules("audit host --format json"),
        rules("audit guest --format json"),
    );
    let has = |of: &[String], rule: &str| of.iter().any(|it| it == rule);
    for (rule, of) in [
        ("halt-poll", [true, true, false]),
        ("vm-quota", [true, true, false]),
        ("steal-accounting", [true, false, true]),
        ("irq-affinity", [true, true, true]),
    ] {
        let found = [&both, &host, &guest].map(|it| has(it, rule));
        assert_eq!(found, of, "{rule}");
    }
    assert!(both.iter().all(|it| has(&host, it) || has(&guest, it)));
}

mod kvm {
    use super::*;

    /// One of two VMs on a host is audited alone, by its number, on its own CPU.
    #[test]
    fn one_vm_is_looked_at_without_the_others() {
        let last = *vmnoise_host::Host::here()
            .allowed_cpus()
            .unwrap()
            .last()
            .unwrap();
        let vm = |cpu: u32| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
            command.args(["microvm", "-d", "600s", "-c", &cpu.to_string()]);
            command
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null());
            TestProcess::start(&mut command)
        };
        let (one, other) = (vm(last), vm(last));
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [&one, &other].map(|it| it.id());
        let begin = std::time::Instant::now();
        let audit = |line: &str| {
            let output = vmnoise(folder.path(), line);
            assert!(output.status.success(), "{output:?}");
            let audit: Value = serde_json::from_slice(&output.stdout).unwrap();
            let mut findings = audit["findings"].as_array().unwrap().iter();
            let policy = findings.find(|it| it["rule"] == "vcpu-policy");
            let policy = policy.map(|it| it["places"].to_string());
            (audit["cpus"].clone(), policy.unwrap_or_default())
        };
        let [one_task, other_task] = [one, other].map(|pid| format!("proc/{pid}/task"));
        loop {
            let (_, policy) = audit("audit host --format json");
            if policy.contains(&one_task) && policy.contains(&other_task) {
                break;
            }
            assert!(begin.elapsed().as_secs() < 30, "{policy}");
        }
        let (cpus, policy) = audit(&format!("audit vm {one} --format json"));
        assert_eq!(cpus, serde_json::json!([last]));
        assert!(policy.contains(&one_task), "{policy}");
        assert!(!policy.contains(&other_task), "{policy}");
    }
}
