//! Checks that no command draws a wrong conclusion from a recording with a blind spot, and that all
//! commands name the same reason. Each recording has a twin of the same world without a blind spot,
//! on which every command must give the true answer.

mod exported;
mod formats;
mod kinds;
mod pairs;
mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use self::kinds::{BlindKind, TASKS};
use self::world::By;

/// Answer of a command.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Too much time is taken.
    Bad,
    /// Not too much time is taken.
    Good,
    /// The command cannot tell, for these reasons.
    Cannot(Vec<String>),
}

/// Reasons that only say that the culprit is unknown.
const BY_ITSELF: [&str; 7] = [
    "host_unsure",
    "kvm_unbounded",
    "may_be",
    "unnamed",
    "clock_bound",
    "unseen_below",
    "too_few",
];

fn vmnoise(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder).args(line.split('|'));
    command.output().unwrap()
}

fn document(folder: &Path, line: &str) -> Value {
    let output = vmnoise(folder, &format!("{line}|--format|json"));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("{line}: {error}: {said}")
    })
}

/// Returns the reasons in these lists, except those in `BY_ITSELF`.
fn reasons<'a>(lists: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let all = lists.into_iter().flat_map(|it| it.as_array().unwrap());
    let words = all.map(|it| it["reason"].as_str().unwrap().to_owned());
    let mut words: Vec<String> = words.collect();
    words.retain(|it| !BY_ITSELF.contains(&it.as_str()));
    words.sort_unstable();
    words.dedup();
    words
}

fn check(folder: &Path, file: &str, limit: &str) -> Said {
    let found = document(folder, &format!("check|{file}|{limit}"));
    let limits = found["limits"].as_array().unwrap();
    let of_limits = limits.iter().map(|it| &it["reasons"]);
    match found["verdict"].as_str().unwrap() {
        "pass" | "warn" => Said::Good,
        "fail" => Said::Bad,
        _ => Said::Cannot(reasons(of_limits.chain([&found["reasons"]]))),
    }
}

fn compare(folder: &Path, file: &str, condition: &str) -> Said {
    let found = document(folder, &format!("compare|{file}|--fail-if|{condition}"));
    let found = &found["conditions"][0];
    match found["holds"].as_bool() {
        Some(true) => Said::Bad,
        Some(false) => Said::Good,
        None => Said::Cannot(reasons([&found["blind_spots"]])),
    }
}

fn schedule(folder: &Path, file: &str) -> Said {
    let found = document(folder, &format!("schedule|{file}|--tasks|tasks.toml"));
    let task = &found["cpus"][0]["tasks"][0];
    match task["verdict"].as_str().unwrap() {
        "holds" => Said::Good,
        "may_miss" => Said::Bad,
        _ => Said::Cannot(reasons([&task["blind_spots"]])),
    }
}

/// Good means that steps are hardly longer. Without any gap there is no prediction.
fn scale(folder: &Path, file: &str) -> Said {
    let line = format!("scale|{file}|--ranks|4|--step|1ms");
    let output = vmnoise(folder, &line);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("with a lower --threshold") {
        return Said::Cannot(vec!["threshold".to_owned()]);
    }
    let found = document(folder, &line);
    let slowdown = found["scales"][0]["slowdown_percent"].as_f64().unwrap();
    if slowdown > 10.0 {
        Said::Bad
    } else if found["is_lower_bound"] == true {
        Said::Cannot(reasons([&found["recordings"][0]["blind_spots"]]))
    } else {
        Said::Good
    }
}

/// Returns the blind spots that a command prints for a recording.
fn printed(folder: &Path, command: &str, file: &str) -> Vec<String> {
    reasons([&document(folder, &format!("{command}|{file}"))["blind_spots"]])
}

/// Asks a command about a recording in a folder.
type Ask = Box<dyn Fn(&Path, &str) -> Said>;

struct Asked {
    name: &'static str,
    said: Ask,
    /// Whether the command is about culprits.
    of_owners: bool,
    /// Whether the command is about the losses of a task.
    of_tasks: bool,
}

fn asked(by: By) -> Vec<Asked> {
    let of_time = |name, said: fn(&Path, &str) -> Said, of_tasks| Asked {
        name,
        said: Box::new(said),
        of_owners: false,
        of_tasks,
    };
    let share = match by {
        By::Task => "thread",
        By::Host | By::Hypervisor => "steal",
    };
    let of_share = |name, said: fn(&Path, &str, &str) -> Said, line: String| Asked {
        name,
        said: Box::new(move |folder: &Path, file: &str| said(folder, file, &line)),
        of_owners: true,
        of_tasks: false,
    };
    vec![
        of_time(
            "check --max",
            |folder, file| check(folder, file, "--max|1ms"),
            false,
        ),
        of_time(
            "check noise",
            |folder, file| check(folder, file, "--limit|noise=10%"),
            false,
        ),
        of_time(
            "compare max",
            |folder, file| compare(folder, file, "max>1ms"),
            false,
        ),
        of_time(
            "compare noise",
            |folder, file| compare(folder, file, "noise>10%"),
            false,
        ),
        of_time("schedule", schedule, true),
        of_time("scale", scale, true),
        of_share("check share", check, format!("--limit|{share}=10%")),
        of_share("compare share", compare, format!("{share}>10%")),
    ]
}

fn folder(kind: &BlindKind) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    kind.write_blind(&folder.path().join("blind.vmn"));
    kind.write_whole(&folder.path().join("whole.vmn"));
    fs::write(folder.path().join("tasks.toml"), TASKS).unwrap();
    folder
}

/// Returns whether a run with pauses is refused in one line with the same advice; the commands here
/// need unbroken runs.
fn refuses(folder: &Path, file: &str, line: &str) -> bool {
    let output = vmnoise(folder, &format!("{line}|{file}"));
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.code() == Some(129) && said.contains("without `--runtime`")
}

#[test]
fn nothing_is_concluded_from_what_a_recording_hides() {
    for kind in kinds::all() {
        let name = kind.name;
        let folder = folder(&kind);
        let folder = folder.path();
        assert!(kind.world.taken_part() > 0.2, "{name}: it takes too much");
        if !kind.of_tasks {
            for command in ["explain", "audit|-c|1"] {
                let whole = printed(folder, command, "whole.vmn");
                assert_eq!(whole, [""; 0], "{name}: {command}");
                let blind = printed(folder, command, "blind.vmn");
                assert_eq!(blind, kind.reasons, "{name}: {command}");
            }
        }
        for Asked {
            name: command,
            said,
            of_owners,
            of_tasks,
        } in asked(kind.world.by)
        {
            let is_hidden = match of_owners {
                true => !kind.of_tasks,
                false => kind.hides_time && (of_tasks || !kind.of_tasks),
            };
            if kind.world.by != By::Hypervisor || !of_owners {
                let whole = said(folder, "whole.vmn");
                assert_eq!(whole, Said::Bad, "{name}: {command} of the whole recording");
            }
            if name == "paused run" && of_tasks {
                let line = match command {
                    "schedule" => "schedule|--tasks|tasks.toml",
                    _ => "scale|--ranks|4|--step|1ms",
                };
                assert!(refuses(folder, "blind.vmn", line), "{name}: {command}");
                continue;
            }
            match (said(folder, "blind.vmn"), is_hidden) {
                (Said::Good, true) => panic!("{name}: {command} says that all is well"),
                (Said::Cannot(reasons), true) => {
                    assert_eq!(reasons, kind.reasons, "{name}: {command}");
                }
                // The visible time is already too much.
                (Said::Bad, _) | (_, false) => {}
            }
        }
    }
}
