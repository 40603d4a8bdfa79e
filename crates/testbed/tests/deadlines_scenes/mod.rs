//! Runs periodic tasks while `vmnoise` records, on this machine or in a lab.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use vmnoise_testbed::bed::{DebianKernel, Lab};
use vmnoise_testbed::{VmnoiseRun, lab_program};

use crate::deadlines_judge::RecordedSet;

/// Duration of recordings. It is longer than any run; each recording ends when the tasks are done.
const LONG: &str = "600s";

/// Runs tasks for `milliseconds` on a CPU of this machine. The recorder polls at the lowest
/// real-time priority. So a gap contains exactly the time in which a task could not run.
pub fn here(cpu: u32, milliseconds: u64, tasks: &str, folder: &Path) -> RecordedSet {
    let [gaps, jobs] = ["gaps.vmn", "jobs.json"].map(|name| folder.join(name));
    let polled = cpu.to_string();
    let options = ["osnoise", "-c", &polled, "-P", "f:1", "-d", LONG, "-o"];
    let file = gaps.to_str().unwrap();
    let recorder = VmnoiseRun::start(&[&options[..], &[file]].concat()).unwrap();
    let mut command = Command::new(lab_program("lab-tasks").unwrap());
    command.args([&polled, &milliseconds.to_string()]);
    command.args([&gaps, &jobs]).args(tasks.split(' '));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    recorder.signal(Signal::INT).unwrap();
    let (status, _, said) = recorder.output().unwrap();
    assert_eq!(status, Some(0), "{said}");
    // Since Linux 6.12, the fair server runs an ordinary task that has waited for a second before
    // tasks of SCHED_FIFO.
    let go_before = has_deadlines(tasks).then_some(STOP);
    recorded(cpu, folder, "", go_before, false)
}

/// Tasks and disturbers that run at the same time in a lab.
pub struct TaskScene {
    pub tasks: String,
    pub milliseconds: u64,
    /// Commands of disturbers. A disturber that does not end by itself also runs in later scenes.
    pub beside: Vec<String>,
    pub has_timerlat: bool,
}

/// Runs the scenes one after the other, on the only CPU of a lab under virtual time. In the lab,
/// the recorder is an ordinary task: at a real-time priority, its other threads would never run.
pub fn in_a_lab(scenes: &[TaskScene], folder: &Path) -> Vec<RecordedSet> {
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
    let lab = Lab::kernel(DebianKernel::Cloud).virtual_time(0);
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

/// Names of threads that run before tasks of SCHED_DEADLINE: the kernel's threads that stop a CPU.
const STOP: &[&str] = &["migration"];
/// Beginnings of the names of threads that run before tasks of SCHED_FIFO in a lab: disturbers, the
/// tasks of `timerlat`, and some kernel threads.
const REAL_TIME: &[&str] = &[
    "migration",
    "lab-disturb",
    "vmnoise-timer",
    "idle_inject",
    "irq/",
];

/// Maximum time of a lab before it counts as hung. Labs usually take much less.
const PATIENCE: Duration = Duration::from_secs(1_800);

impl TaskScene {
    fn go_before(&self) -> &'static [&'static str] {
        match has_deadlines(&self.tasks) {
            true => STOP,
            false => REAL_TIME,
        }
    }

    /// Returns the commands of the scene. The lab waits for the end of the last command. The tasks
    /// start when the recorder polls, which is after less than 1.5 s. `lab-tasks` fails if the
    /// recorder ends before the tasks.
    fn commands(&self, nth: usize) -> Vec<String> {
        let TaskScene {
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
) -> RecordedSet {
    let file = |name: &str| folder.join(format!("{prefix}{name}"));
    RecordedSet {
        cpu,
        tasks: serde_json::from_slice(&fs::read(file("jobs.json")).unwrap()).unwrap(),
        gaps: file("gaps.vmn"),
        go_before,
        wakeups: has_timerlat.then(|| file("wakeups.vmn")),
    }
}
