//! The processes that faults affect: one run of each measuring command, and a VMM whose exits the
//! host's run records.

use std::panic::resume_unwind;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::disk::Disk;
use super::subject::Subject;
use crate::binary;

/// The CPU that the runs measure.
pub(super) const CPU: u32 = 1;
/// All commands that measure. The commands that poll or sleep do this on [`CPU`].
const COMMANDS: [&str; 4] = [
    "exits -T 1ms",
    "osnoise -c 1",
    "timerlat -c 1 -p 10ms",
    "microvm -c 1",
];
/// Arguments of a VMM whose guest exits to the VMM as often as possible.
const VMM: [&str; 6] = ["microvm", "--exercise", "io", "-c0", "-d", "24h"];

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) subjects: Vec<Subject>,
    pub(super) vmm: Vmm,
    pub(super) disk: Disk,
    folder: TempDir,
}

impl Scene {
    /// Starts all runs and the VMM, and waits until every run has recorded something.
    pub(super) fn begin() -> Result<Scene> {
        let folder = tempfile::tempdir()?;
        let mut scene = Scene {
            subjects: Vec::new(),
            vmm: Vmm::start()?,
            disk: Disk::new(folder.path())?,
            folder,
        };
        for command in COMMANDS {
            scene.start(command)?;
        }
        scene.each(Subject::wait_until_it_records)?;
        Ok(scene)
    }

    fn start(&mut self, command: &'static str) -> Result<()> {
        let recording = self.disk.path(&format!("{command}.rec"));
        let subject = Subject::start(command, recording, self.folder.path())?;
        self.subjects.push(subject);
        Ok(())
    }

    /// Returns the runs that measure [`CPU`].
    pub(super) fn on_the_cpu(&mut self) -> impl Iterator<Item = &mut Subject> {
        let subjects = self.subjects.iter_mut();
        subjects.filter(|subject| subject.command.contains("-c "))
    }

    pub(super) fn named(&mut self, command: &str) -> Result<&mut Subject> {
        let mut subjects = self.subjects.iter_mut();
        let subject = subjects.find(|subject| subject.command.starts_with(command));
        subject.with_context(|| format!("nobody runs {command}"))
    }

    /// Checks that each run met its fate, and restarts the runs that ended.
    pub(super) fn aftermath(&mut self) -> Result<()> {
        self.each(Subject::judge)?;
        let is_over = |subject: &mut Subject| subject.fate.is_the_end();
        let over: Vec<Subject> = self.subjects.extract_if(.., is_over).collect();
        for subject in &over {
            self.start(subject.command)?;
        }
        if over.is_empty() {
            return Ok(());
        }
        self.each(Subject::wait_until_it_records)
    }

    /// Calls `act` for all runs at the same time, because each call waits for the recording of its
    /// run.
    fn each(&mut self, act: fn(&mut Subject) -> Result<()>) -> Result<()> {
        thread::scope(|scope| {
            let act = |subject: &mut Subject| act(subject).context(subject.command);
            let subjects = self.subjects.iter_mut();
            let acts: Vec<_> = subjects
                .map(|subject| scope.spawn(move || act(subject)))
                .collect();
            let mut acts = acts.into_iter();
            acts.try_for_each(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }

    /// Ends the VMM, so that the VMM no longer competes for the CPU. Then ends every run, and
    /// checks its result.
    pub(super) fn end(mut self) -> Result<()> {
        self.vmm.signal(Signal::KILL)?;
        self.each(Subject::end)
    }
}

/// A VMM that faults affect.
#[derive(Debug)]
pub(super) struct Vmm(Child);

impl Vmm {
    pub(super) fn start() -> Result<Vmm> {
        let mut command = Command::new(binary());
        command.args(VMM).stdin(Stdio::null());
        let vmm = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Vmm(vmm.context("starting a VMM")?))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid().cast_signed()).context("its process id")?;
        kill_process(pid, signal).context("the VMM has ended by itself")
    }
}

impl Drop for Vmm {
    fn drop(&mut self) {
        // The VMM may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
