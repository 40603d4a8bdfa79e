//! `vmnoise audit` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

use crate::join_pair::{Flaws, write_guest, write_host};

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
        (
            "audit gaps.vmn",
            "audit a machine by a recording of its own",
        ),
        (
            "audit host.vmn",
            "host.vmn is of `vmnoise exits`, which has no gaps",
        ),
        ("audit -c 4095", "CPU 4095 is not online"),
        ("audit -c x", "`x` in the CPU list"),
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

mod root {
    use std::collections::BTreeMap;
    use std::fs;

    use serde_json::Value;

    use super::*;

    fn json(folder: &Path, line: &str) -> Value {
        let output = vmnoise(folder, line);
        assert!(output.status.success(), "{line}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What the interrupts of devices took, by the summary: no finding has more, nor less.
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
        // Most first, and no time twice.
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

    /// What undo.sh writes is what this machine has now, and nothing was changed by looking.
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
        // Any machine that nobody tuned has something: this one throttles real-time tasks.
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
