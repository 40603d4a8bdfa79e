//! Tests of `vmnoise explain GUEST HOST` as a user runs it, on two recordings with known content.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::join_pair::{Flaws, write_guest, write_host, write_tasks};

struct Pair {
    folder: TempDir,
}

impl Pair {
    fn with(flaws: Flaws) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        write_guest(&folder.path().join("guest.rec"));
        write_tasks(&folder.path().join("tasks.rec"));
        write_host(&folder.path().join("host.rec"), flaws);
        Pair { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn explain(&self, words: &str) -> Reported {
        let output = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .current_dir(self.folder.path())
            .arg("explain")
            .args(words.split_whitespace())
            .stdin(Stdio::null())
            .output();
        Reported::from(output.unwrap())
    }

    /// Keeps only this part of a file, in percent.
    fn cut(&self, name: &str, percent: usize) {
        let bytes = fs::read(self.path(name)).unwrap();
        fs::write(self.path(name), &bytes[..bytes.len() * percent / 100]).unwrap();
    }
}

#[derive(Debug)]
struct Reported {
    status: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Reported {
    fn from(output: Output) -> Reported {
        Reported {
            status: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Reported {
    fn json(&self) -> Value {
        assert_eq!(self.stderr, "");
        assert_eq!(self.status, 0);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Checks that nothing was joined, and that one line says why.
    fn refused(&self, status: i32, why: &str) {
        assert_eq!((self.status, &*self.stdout), (status, ""), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(self.stderr.starts_with("vmnoise: "), "{self:?}");
        assert!(self.stderr.contains(why), "{why}: {self:?}");
    }
}

fn sum(values: &Value, key: &str) -> u64 {
    let values = values.as_array().unwrap();
    values
        .iter()
        .map(|value| value[key].as_u64().unwrap())
        .sum()
}

#[test]
fn the_culprit_is_named_first_and_everything_adds_up() {
    let pair = Pair::with(Flaws::default());
    let json = pair
        .explain("guest.rec host.rec -T 20 --top 2 --format json")
        .json();
    assert_eq!(json["schema"], "vmnoise.join/1");
    assert_eq!(json["kernel"], "6.12.9-guest");
    assert_eq!(json["host"]["kernel"], "6.2.0-rt3-host");

    let found = &json["pairs"][0];
    assert_eq!((&found["cpu"], &found["vcpu"]), (&0.into(), &0.into()));
    assert_eq!((&found["vm"], &found["tid"]), (&"web".into(), &4170.into()));
    assert_eq!(found["exits_tested"], found["exits_inside"]);

    let joined = &json["joined"];
    assert_eq!(joined["gaps"], joined["joined"]);
    let long = joined["joined_above"].as_u64().unwrap();
    assert!(long >= 25, "{joined}");

    let culprits = &json["culprits"];
    let first = &culprits[0];
    assert_eq!(
        (&first["name"], &first["share"], &first["side"]),
        (
            &"ksoftirqd/3:31".into(),
            &"preempted".into(),
            &"host".into()
        )
    );
    assert_eq!(first["cpu"], 3);
    assert_eq!(first["gaps"], long);
    assert_eq!(first["total_ns"], long * 20_362);
    let gap_ns = 62_486 + 500;
    assert_eq!(sum(culprits, "total_ns"), long * gap_ns);

    let trees = json["trees"].as_array().unwrap();
    assert_eq!(trees.len(), 2);
    for tree in trees {
        let (exits, residual_ns) = (&tree["exits"], tree["residual_ns"].as_u64().unwrap());
        let steal_ns = tree["steal_ns"].as_u64().unwrap();
        let parts_ns = sum(&tree["guest"], "ns") + sum(exits, "dur_ns") + steal_ns + residual_ns;
        assert_eq!(tree["gap"]["dur_ns"], parts_ns);
        assert_eq!(parts_ns, gap_ns);
        assert_eq!(exits[0]["dur_ns"], 62_486);
        assert_eq!(sum(&exits[0]["parts"], "ns"), 62_486);
    }

    // KVM took longer than in exits without other activities; this time is not its own.
    let thesis = &json["thesis"];
    assert_eq!(thesis["exits"], long);
    assert_eq!(thesis["length_ns"], long * 62_486);
    let ours_ns = thesis["ours_ns"].as_u64().unwrap();
    assert!(
        ours_ns < long * 62_486 && ours_ns > long * 55_000,
        "{thesis}"
    );
}

#[test]
fn the_text_says_the_same() {
    let pair = Pair::with(Flaws::default());
    let reported = pair.explain("guest.rec host.rec -T 20us --top 1");
    assert_eq!((reported.status, &*reported.stderr), (0, ""));
    for part in [
        "guest: a CPU, kernel 6.12.9-guest, a guest of KVM, from 2026-01-01T00:00:00Z\n",
        "\n   0     0  web    4170  1.000 s ",
        "Where the noise of CPU 0 (vCPU 0 of web) went\n",
        "  preempted    ksoftirqd/3:31 on host CPU 3\n",
        "exit interrupt, LW, host CPU 3, 0.215 after the gap's start\n",
        "     20.362  preempted    ksoftirqd/3:31, host CPU 3\n",
        "     11.004  host_irq     local_timer:236, host CPU 3\n",
        "What this result rests on: the host\n exits: tp_btf\n",
    ] {
        assert!(
            reported.stdout.contains(part),
            "{part}\n{}",
            reported.stdout
        );
    }
}

#[test]
fn a_late_task_shows_who_on_the_host_made_it_late() {
    let pair = Pair::with(Flaws::default());
    let json = pair
        .explain("tasks.rec host.rec -T 20 --top 2 --format json")
        .json();
    assert_eq!(json["schema"], "vmnoise.latency_join/1");
    let found = &json["pairs"][0];
    assert_eq!(found["exits_tested"], found["exits_inside"]);
    let first = &json["culprits"][0];
    let who = [&first["name"], &first["share"], &first["side"]];
    assert_eq!(who, ["ksoftirqd/3:31", "preempted", "host"]);
    // Each long exit delays one task by its length, plus 500 ns before and 900 ns after.
    let late = first["wakeups"].as_u64().unwrap();
    assert_eq!(first["total_ns"], late * 20_362);
    assert_eq!(
        sum(&json["culprits"], "total_ns"),
        late * (62_486 + 500 + 900)
    );
    let [irq, _, user] = [0, 1, 2].map(|place| &json["cpus"][0]["contexts"][place]);
    assert_eq!(
        (&irq["context"], &user["context"]),
        (&"irq".into(), &"user".into())
    );
    for sides in [irq, user] {
        let of = |key: &str| sides[key].as_u64().unwrap();
        let both_ns = of("guest_ns") + of("host_ns");
        assert_eq!(both_ns + of("unknown_ns"), of("total_ns"), "{sides}");
        // Phases, and exits in them, that are too short for the clocks.
        let unsure_ns = json["joined"]["unsure"]["ns"].as_u64().unwrap();
        assert!(of("unknown_ns") <= unsure_ns, "{sides} {unsure_ns}");
    }
    assert_eq!(irq["host_ns"], user["host_ns"], "no exit came later");
    let tree = &json["trees"][0];
    assert_eq!(sum(&tree["phases"], "dur_ns"), 62_486 + 500 + 900);
    assert_eq!(tree["phases"][0]["phase"], "irq");
    assert_eq!(tree["phases"][0]["exits"][0]["after_ns"], 500);
    assert_eq!(tree["phases"][0]["exits"][0]["dur_ns"], 62_486);

    let reported = pair.explain("tasks.rec host.rec -T 20us --top 1");
    assert_eq!((reported.status, &*reported.stderr), (0, ""));
    for part in [
        "A guest's wake-ups, and what its host did in them\n guest: a CPU, kernel 6.12.9-guest",
        "  between %  ",
        "How late the task on CPU 0 (vCPU 0 of web) was\n",
        "  preempted    ksoftirqd/3:31 on host CPU 3\n",
        "|-     63.186  irq\n   |   |-     62.486  exit interrupt, LW, host CPU 3, 0.500 after the expiry\n",
        "What this result rests on: the host\n exits: tp_btf\n",
    ] {
        assert!(
            reported.stdout.contains(part),
            "{part}\n{}",
            reported.stdout
        );
    }
}

#[test]
fn a_wrong_clock_of_tasks_is_refused() {
    for offset_tsc in [-7_000, 25_000] {
        let flaws = Flaws {
            offset_tsc,
            ..Flaws::default()
        };
        let pair = Pair::with(flaws);
        pair.explain("tasks.rec host.rec").refused(1, "offset");
    }
}

#[test]
fn a_wrong_clock_is_refused_and_not_averaged_away() {
    for offset_tsc in [4_000_000, -70_000] {
        let flaws = Flaws {
            offset_tsc,
            ..Flaws::default()
        };
        Pair::with(flaws)
            .explain("guest.rec host.rec")
            .refused(1, "offset");
    }
}

#[test]
fn a_vm_that_could_be_another_is_not_proven_whatever_is_named() {
    let flaws = Flaws {
        has_a_twin: true,
        ..Flaws::default()
    };
    let pair = Pair::with(flaws);
    for named in ["", " --vm web", " --vm 4160", " --vm twin"] {
        let words = format!("guest.rec host.rec{named}");
        pair.explain(&words).refused(1, "nothing proves");
        let reported = pair.explain(&format!("{words} --format json"));
        assert_eq!(reported.status, 1);
        let json: Value = serde_json::from_str(&reported.stdout).unwrap();
        assert_eq!(json["schema"], "vmnoise.pairing/1");
        assert_eq!(json["verdict"], "not_proven", "{json}");
        assert_eq!(json["candidates"][0]["against"]["kind"], "vcpu", "{json}");
        assert!(
            json["culprits"].is_null() && json["cpus"].is_null(),
            "{json}"
        );
        assert!(
            reported.stderr.contains(json["why"].as_str().unwrap()),
            "{reported:?}"
        );
    }
    let reported = pair.explain("guest.rec host.rec --vm nobody");
    reported.refused(1, "nobody");
}

#[test]
fn recordings_in_the_wrong_places_are_refused() {
    let pair = Pair::with(Flaws::default());
    pair.explain("host.rec guest.rec")
        .refused(129, "GUEST HOST");
    pair.explain("host.rec host.rec").refused(129, "osnoise -o");
    pair.explain("guest.rec guest.rec").refused(129, "-o");
    pair.explain("guest.rec none.rec").refused(1, "none.rec");
    pair.explain("guest.rec host.rec --trace")
        .refused(129, "--trace");
}

#[test]
fn what_is_no_file_is_refused() {
    let pair = Pair::with(Flaws::default());
    let mut child = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
        .current_dir(pair.folder.path())
        .args(["explain", "guest.rec", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut file = fs::File::open(pair.path("host.rec")).unwrap();
    // The program may refuse before it has read everything.
    let _ = std::io::copy(&mut file, &mut stdin);
    drop(stdin);
    let reported = Reported::from(child.wait_with_output().unwrap());
    reported.refused(129, "works only for a file");
}

#[test]
fn a_recording_that_breaks_off_is_joined_as_far_as_it_goes() {
    for (name, caveat) in [
        ("guest.rec", " not seen: the recording was cut off after "),
        ("host.rec", " the run did not end in order: "),
    ] {
        let pair = Pair::with(Flaws::default());
        pair.cut(name, 70);
        let reported = pair.explain("guest.rec host.rec -T 20");
        assert_eq!(reported.status, 1, "{reported:?}");
        assert!(
            reported.stdout.contains("ksoftirqd/3:31 on host CPU 3\n"),
            "{reported:?}"
        );
        assert!(reported.stdout.contains(caveat), "{reported:?}");
        let line = format!("vmnoise: {name}: the recording breaks off");
        assert!(reported.stderr.starts_with(&line), "{reported:?}");
        assert_eq!(reported.stderr.lines().count(), 1, "{reported:?}");
    }
}
