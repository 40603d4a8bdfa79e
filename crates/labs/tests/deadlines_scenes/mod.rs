//! Runs periodic tasks while `vmnoise` records, on this machine or in a lab.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use vmnoise_labs::bed::{Kernel, Lab};
use vmnoise_labs::{Run, lab_program};

use crate::deadlines_judge::Recorded;

/// More than any run needs: each is ended when the tasks are through.
const LONG: &str = "600s";

/// One run of so many milliseconds on a CPU of this machine. The recorder polls at the lowest real-time priority, so that all
/// that keeps a task from running is a gap in it, and nothing that does not.
pub fn here(cpu: u32, milliseconds: u64, tasks: &str, folder: &Path) -> Recorded {
    let [gaps, jobs] = ["gaps.vmn", "jobs.json"].map(|name| folder.join(name));
    let polled = cpu.to_string();
    let options = ["osnoise", "-c", &polled, "-P", "f:1", "-d", LONG, "-o"];
    let file = gaps.to_str().unwrap();
    let recorder = Run::start(&[&options[..], &[file]].concat()).unwrap();
    let mut command = Command::new(lab_program("lab-tasks").unwrap());
    command.args([&polled, &milliseconds.to_string()]);
    command.args([&gaps, &jobs]).args(tasks.split(' '));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    recorder.signal(Signal::INT).unwrap();
    let (status, _, said) = recorder.output().unwrap();
    assert_eq!(status, Some(0), "{said}");
    // An ordinary task that has waited for a second goes before tasks of SCHED_FIFO (the fair server, Linux 6.12).
    let go_before = has_deadlines(tasks).then_some(STOP);
    recorded(cpu, folder, "", go_before, false)
}

/// What runs in a lab at a time.
pub struct Scene {
    pub tasks: String,
    pub milliseconds: u64,
    /// Disturbers. Those that do not end by themselves are there in later scenes, too.
    pub beside: Vec<String>,
    pub has_timerlat: bool,
}

/// One scene after the other on the one CPU of a lab in virtual time. The recorder is an ordinary task there: at a real-time
/// priority its other threads would have no turn.
pub fn in_a_lab(scenes: &[Scene], folder: &Path) -> Vec<Recorded> {
    let (mut commands, mut files) = (Vec::new(), Vec::new());
    for (nth, scene) in scenes.iter().enumerate() {
        commands.extend(scene.commands(nth));
        let wakeups = scene.has_timerlat.then(|| format!("{nth}-wakeups.vmn"));
        let all = [format!("{nth}-gaps.vmn"), format!("{nth}-jobs.json")];
        files.extend(all.into_iter().chain(wakeups));
    }
    commands.extend(files.iter().map(|it| format!("lab-guest print /tmp/{it}")));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let programs = ["lab-disturb", "lab-tasks", "lab-guest"].map(|it| lab_program(it).unwrap());
    let lab = Lab::kernel(Kernel::Cloud).virtual_time(0);
    let lab = programs
        .iter()
        .fold(lab, |lab, program| lab.program(program));
    let report = lab.patience(PATIENCE).run(&commands).unwrap();
    let (said, printed) = report.outputs.split_at(scenes.len());
    for said in said {
        said.text().unwrap();
    }
    for (file, output) in files.iter().zip(printed) {
        fs::write(folder.join(file), output.file().unwrap()).unwrap();
    }
    let scenes = scenes.iter().enumerate();
    let scenes = scenes.map(|(nth, scene)| {
        recorded(
            0,
            folder,
            &format!("{nth}-"),
            Some(scene.go_before()),
            scene.has_timerlat,
        )
    });
    scenes.collect()
}

fn has_deadlines(tasks: &str) -> bool {
    tasks.contains(":deadline:")
}

/// Which threads go before all of SCHED_DEADLINE: those that stop a CPU.
const STOP: &[&str] = &["migration"];
/// And in a lab before tasks of SCHED_FIFO besides: disturbers, the tasks of `timerlat`, and some of the kernel's own.
const REAL_TIME: &[&str] = &[
    "migration",
    "lab-disturb",
    "vmnoise-timer",
    "idle_inject",
    "irq/",
];

/// How long a lab may take before it counts as hung; no estimate of how long it takes.
const PATIENCE: Duration = Duration::from_secs(1_800);

impl Scene {
    fn go_before(&self) -> &'static [&'static str] {
        match has_deadlines(&self.tasks) {
            true => STOP,
            false => REAL_TIME,
        }
    }

    /// What is done in it; its last command is waited for. The tasks begin when the recorder polls: 1.5 s are enough to come
    /// to that, and `lab-tasks` fails where the recorder has ended before its tasks.
    fn commands(&self, nth: usize) -> Vec<String> {
        let Scene {
            tasks,
            milliseconds,
            ..
        } = self;
        let mut commands: Vec<String> = self.beside.iter().map(|it| format!("& {it}")).collect();
        commands.push(format!(
            "& lab-tasks 0 {milliseconds} /tmp/{nth}-gaps.vmn /tmp/{nth}-jobs.json {tasks}"
        ));
        let lasts = milliseconds + 1_500;
        if self.has_timerlat {
            commands.push(format!(
                "& vmnoise timerlat -p 1370 -P f:95 -d {lasts}ms -o /tmp/{nth}-wakeups.vmn"
            ));
        }
        commands.push(format!(
            "vmnoise osnoise -d {lasts}ms -o /tmp/{nth}-gaps.vmn"
        ));
        commands
    }
}

fn recorded(
    cpu: u32,
    folder: &Path,
    prefix: &str,
    go_before: Option<&'static [&'static str]>,
    has_timerlat: bool,
) -> Recorded {
    let file = |name: &str| folder.join(format!("{prefix}{name}"));
    Recorded {
        cpu,
        tasks: serde_json::from_slice(&fs::read(file("jobs.json")).unwrap()).unwrap(),
        gaps: file("gaps.vmn"),
        go_before,
        wakeups: has_timerlat.then(|| file("wakeups.vmn")),
    }
}
