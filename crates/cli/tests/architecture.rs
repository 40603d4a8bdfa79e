//! Checks the arrows between the crates (docs/design.md), read from `cargo metadata`, and between
//! the program's own rooms, read from the names in its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crate -> the crates that it may use.
const ARROWS: [(&str, &[&str]); 20] = [
    ("vmnoise-events", &[]),
    ("vmnoise-rights", &[]),
    // Format of a VMM's socket on a command line.
    ("vmnoise-serve-arguments", &["vmnoise-feed"]),
    ("vmnoise-host", &["vmnoise-events"]),
    ("vmnoise-tracer", &["vmnoise-events", "vmnoise-host"]),
    ("vmnoise-workload", &["vmnoise-events"]),
    ("vmnoise-recording", &["vmnoise-events"]),
    ("vmnoise-explain", &["vmnoise-events"]),
    ("vmnoise-feed", &["vmnoise-events"]),
    ("vmnoise-judge", &["vmnoise-events", "vmnoise-explain"]),
    // Reads /proc and /sys, and compares them with a summary.
    (
        "vmnoise-audit",
        &["vmnoise-events", "vmnoise-explain", "vmnoise-host"],
    ),
    ("vmnoise-export", &["vmnoise-events", "vmnoise-explain"]),
    (
        "vmnoise-report",
        &["vmnoise-events", "vmnoise-explain", "vmnoise-judge"],
    ),
    ("vmnoise-predict", &["vmnoise-events"]),
    (
        "vmnoise",
        &[
            "vmnoise-audit",
            "vmnoise-events",
            "vmnoise-host",
            "vmnoise-judge",
            "vmnoise-tracer",
            "vmnoise-workload",
            "vmnoise-recording",
            "vmnoise-explain",
            "vmnoise-feed",
            "vmnoise-export",
            "vmnoise-predict",
            "vmnoise-report",
            "vmnoise-rights",
            "vmnoise-serve-arguments",
        ],
    ),
    (
        "vmnoise-serve",
        &[
            "vmnoise-events",
            "vmnoise-host",
            "vmnoise-tracer",
            // Guests that ask, and the port to its own host.
            "vmnoise-feed",
            // Its hours are stored as a table, like recordings.
            "vmnoise-export",
            // Its dumps are recordings, with times by the TSC.
            "vmnoise-recording",
            "vmnoise-workload",
            // Its page looks like a report.
            "vmnoise-report",
            "vmnoise-rights",
            "vmnoise-serve-arguments",
        ],
    ),
    // Boots labs for the papers' experiments, and reads their recordings.
    (
        "vmnoise-lab",
        &["vmnoise-explain", "vmnoise-recording", "vmnoise-labs"],
    ),
    // Drives the built binary; uses a crate only for the clock and thread priorities.
    ("vmnoise-labs", &["vmnoise-events", "vmnoise-workload"]),
    // Runs all parsers of foreign input, and the commands themselves.
    (
        "vmnoise-fuzz",
        &[
            "vmnoise",
            "vmnoise-events",
            "vmnoise-tracer",
            "vmnoise-recording",
            "vmnoise-explain",
            "vmnoise-feed",
        ],
    ),
    ("xtask", &[]),
];

/// Packages that only these crates may use.
const ONLY_IN: [(&str, &[&str]); 8] = [
    ("libbpf-rs", &["vmnoise-tracer"]),
    ("libbpf-cargo", &["vmnoise-tracer"]),
    ("kvm-ioctls", &["vmnoise-workload"]),
    ("kvm-bindings", &["vmnoise-workload"]),
    ("arrow-array", &["vmnoise-recording"]),
    ("arrow-ipc", &["vmnoise-recording"]),
    ("parquet", &["vmnoise-export"]),
    // Traces for Perfetto, and metrics for OpenTelemetry.
    ("prost", &["vmnoise-export", "vmnoise-serve"]),
];

/// Room of the program -> the rooms that it may use. `commands` may use all of them. All rooms may
/// use files outside of the rooms (`say.rs`, `interrupt.rs`, `units.rs` and others).
const INSIDE: [(&str, &[&str]); 6] = [
    ("progress", &[]),
    ("feed", &[]),
    ("run", &["progress", "feed"]),
    ("output", &["run"]),
    ("frame", &["run", "output", "progress"]),
    ("args", &["run", "feed", "output", "frame"]),
];

/// Returns the dependencies of each package in the product, without those of tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo describes its own workspace");
    metadata
        .packages
        .iter()
        .map(|package| {
            let used = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind != DependencyKind::Development)
                .map(|dependency| dependency.name.clone());
            (package.name.to_string(), used.collect())
        })
        .collect()
}

#[test]
fn rooms_use_only_the_rooms_the_design_allows() {
    let dependencies = dependencies();
    let rooms: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    let drawn: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    assert_eq!(
        rooms, drawn,
        "a room was added or removed: draw it in docs/design.md and here"
    );
    for (room, allowed) in ARROWS {
        for used in dependencies[room]
            .iter()
            .filter(|used| rooms.contains(used.as_str()))
        {
            assert!(
                allowed.contains(&used.as_str()),
                "{room} must not use {used}"
            );
        }
    }
}

/// Features for tests are not part of the product.
#[test]
fn no_room_has_features_outside_of_tests() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let rooms: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    for package in &metadata.packages {
        let used = package.dependencies.iter();
        let used = used.filter(|it| rooms.contains(it.name.as_str()));
        for room in used.filter(|it| it.kind != DependencyKind::Development) {
            let (package, name) = (&package.name, &room.name);
            assert!(room.features.is_empty(), "{package} asks {name} for more");
        }
    }
}

#[test]
fn kernel_and_file_formats_stay_in_their_rooms() {
    for (room, used) in dependencies() {
        for (package, homes) in ONLY_IN {
            assert!(
                homes.contains(&room.as_str()) || !used.contains(package),
                "{room} must not use {package}"
            );
        }
    }
}

/// Collects the names after `crate::` in the files of a folder, each with its file.
fn named_in(folder: &Path, named: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the room is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            named_in(&path, named);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file of Rust is text");
            for rest in text.split("crate::").skip(1) {
                // A group of paths, or a single path.
                let paths = match rest.strip_prefix('{') {
                    Some(group) => group
                        .split('}')
                        .next()
                        .unwrap_or(group)
                        .split(',')
                        .collect(),
                    None => vec![rest],
                };
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let names = paths.into_iter().map(str::trim_start);
                let names = names.filter_map(|path| path.split(|letter| !is_name(letter)).next());
                named.extend(names.map(|name| (name.to_owned(), path.display().to_string())));
            }
        }
    }
}

#[test]
fn rooms_of_the_program_use_only_what_lies_below_them() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms: BTreeSet<&str> = INSIDE.iter().map(|(room, _)| *room).collect();
    let folders: BTreeSet<String> = fs::read_dir(&sources)
        .expect("the program has sources")
        .map(|entry| entry.expect("it can be listed"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().display().to_string())
        .collect();
    let drawn = rooms.iter().copied().chain(["commands"]);
    assert_eq!(
        folders,
        drawn.map(str::to_owned).collect(),
        "a room of the program was added or removed: say here what it may use"
    );
    for (room, allowed) in INSIDE {
        let mut named = Vec::new();
        named_in(&sources.join(room), &mut named);
        for (name, file) in named {
            let is_room = folders.contains(&name);
            let may_use = name == room || allowed.contains(&&*name);
            assert!(!is_room || may_use, "{file}: {room} must not use {name}");
        }
    }
}

/// Files that draw conclusions from recordings, or report on them.
const CONCLUDES: [&str; 8] = [
    "judge/src/check/judge.rs",
    "judge/src/compare/condition.rs",
    "judge/src/fitness/evidence/mod.rs",
    "judge/src/tuning/lateness.rs",
    "predict/src/schedule/judge.rs",
    "cli/src/output/scale/mod.rs",
    "cli/src/output/audit/report.rs",
    "cli/src/output/caveats.rs",
];

/// Code that searches for words in a probe's texts. These texts are for people: a search would fail
/// as soon as a text is improved.
const WORDS_IN_NAMES: [&str; 4] = [
    ".probe.contains(",
    ".in_use.contains(",
    ".limit.contains(",
    ".remedy.contains(",
];

/// Collects the Rust files below a folder, without tests.
fn product(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        let is_test = path.iter().any(|it| it == "tests" || it == "tests.rs");
        if is_test {
            continue;
        }
        if path.is_dir() {
            product(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a file of Rust is text");
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.push((path.display().to_string(), product.to_owned()));
        }
    }
}

/// Only one place can create a blind spot: its field is private, so the compiler checks this.
#[test]
fn what_a_recording_could_not_see_is_asked_in_one_place() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for file in CONCLUDES {
        let text = fs::read_to_string(crates.join(file)).unwrap_or_default();
        assert!(
            text.contains(".blind_spots(") || text.contains("blind_spots(Question"),
            "{file} concludes, and asks no coverage what could not be seen"
        );
    }
    let mut files = Vec::new();
    for room in ["judge", "predict", "audit", "report", "explain", "cli"] {
        product(&crates.join(room).join("src"), &mut files);
    }
    assert!(files.len() > 300, "{}", files.len());
    for (file, text) in files {
        for words in WORDS_IN_NAMES {
            assert!(
                !text.contains(words),
                "{file} finds a reason by words in a name: `{words}`"
            );
        }
    }
}
