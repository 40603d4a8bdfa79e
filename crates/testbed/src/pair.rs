//! A lab in which a Linux guest and its host record at the same time. Tests copy the recordings to
//! this machine, and explain them here as a user would.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::bed::inside::outputs;
use crate::bed::{CommandOutput, DebianKernel, DebianSuite, Lab};
use crate::vmm_steps::{TURNS, Treatment};
use crate::{binary, lab_program};

/// File name of the guest's recording without a disturber.
pub const QUIET: &str = "quiet.rec";
/// File name of the guest's recording with a disturber.
pub const DISTURBED: &str = "guest.rec";
/// File name of the host's recording, which covers both recordings of the guest.
pub const HOST: &str = "host.rec";
/// Value of `--top` that lists all gaps. A guest's recording has fewer gaps than this.
pub const EVERY: &str = "65536";
/// File name of the log that the disturber `turns` writes.
const BURSTS: &str = "turns";
/// Name of the guest's VM.
pub const NAME: &str = "l2";
/// Folder of the recordings inside each machine.
const INSIDE: &str = "/tmp/";
/// Command that prints the guest kernel's own steal time.
const STEAL: &str = "lab-guest steal";
/// Command with which the guest sleeps 200 ms, while its host does pending work.
const PAUSE: &str = "lab-vmm run:200 --";

/// Setup of a lab that records a guest and its host.
#[derive(Debug, Clone)]
pub struct PairPlan {
    lab: Lab,
    /// Steps that `lab-vmm` performs on the guest's VM. One of these steps starts the disturber.
    disturb: Vec<String>,
    /// Time in microseconds after which the guest's vCPU moves to another CPU, while the disturber
    /// runs. `None` if the vCPU does not move.
    moves_us: Option<u32>,
    /// Further commands that the guest runs after the disturber has started, before the
    /// measurement.
    in_guest: Vec<String>,
    /// Command with which the guest measures, without its duration.
    measure: String,
    /// Duration of each measurement of the guest.
    duration: String,
    /// Command with which the host records, without its duration.
    exits: String,
}

/// Recordings of a guest and its host.
#[derive(Debug)]
pub struct PairRecordings {
    /// `uname -r` of the host's kernel.
    pub kernel_version: String,
    /// Steps that `lab-vmm` performed on the VM, and their results.
    pub treatment: Treatment,
    /// Outputs of the guest's own commands, in order.
    pub in_guest: Vec<CommandOutput>,
    /// Steal time that the guest's kernel had counted after the quiet measurement and after the
    /// disturbed measurement, nanoseconds. The kernel counts in multiples of 10 ms. The treatment
    /// has two reads at the same times.
    pub guest_steal_ns: [u64; 2],
    folder: TempDir,
}

impl PairPlan {
    /// Creates a setup in which the guest and the host run this kernel. The disturber is a task on
    /// the host's CPU 0 that never sleeps.
    ///
    /// # Errors
    /// If a program of the lab is not built.
    pub fn of(kernel: DebianKernel, suite: DebianSuite) -> Result<PairPlan> {
        let programs = ["lab-vmm", "lab-guest", "lab-disturb", "lab-tracefs"];
        let lab = Lab::kernel(kernel).from(suite);
        let lab = programs.iter().try_fold(lab, |lab, name| {
            anyhow::Ok(lab.program(&lab_program(name)?))
        })?;
        Ok(PairPlan {
            lab,
            disturb: vec!["hog:0".into()],
            moves_us: None,
            in_guest: Vec::new(),
            measure: "vmnoise osnoise -q".into(),
            duration: "1s".into(),
            exits: "vmnoise exits -T 1".into(),
        })
    }

    /// Uses another kernel in the guest.
    pub fn guest_kernel(mut self, kernel: DebianKernel) -> PairPlan {
        self.lab = self.lab.guest_kernel(kernel);
        self
    }

    /// Uses virtual time, in which several CPUs take turns.
    pub fn virtual_time(mut self, shift: u8) -> PairPlan {
        self.lab = self.lab.virtual_time(shift);
        self
    }

    /// Uses this many CPUs on the host.
    pub fn cpus(mut self, cpus: u32) -> PairPlan {
        self.lab = self.lab.cpus(cpus);
        self
    }

    /// Sets the steps that `lab-vmm` performs after the quiet measurement. One of them must start a
    /// disturber.
    pub fn disturb(mut self, steps: &[&str]) -> PairPlan {
        self.disturb = owned(steps);
        self
    }

    /// Moves the guest's vCPU between CPUs 0 and 1 while the disturber runs, every `us`
    /// microseconds.
    pub fn moves_every_us(mut self, us: u32) -> PairPlan {
        self.moves_us = Some(us);
        self
    }

    /// Sets the commands that the guest runs while the disturber runs, before the measurement.
    pub fn in_guest(mut self, commands: &[&str]) -> PairPlan {
        self.in_guest = owned(commands);
        self
    }

    /// Sets the duration of each measurement of the guest.
    pub fn duration(mut self, duration: &str) -> PairPlan {
        self.duration = duration.to_owned();
        self
    }

    /// Measures the guest's timers with `vmnoise timerlat`. The host records every exit. A task on
    /// the host takes the guest's CPU for 3 ms, and sleeps about 10 ms before the next time.
    pub fn timerlat(mut self) -> PairPlan {
        self.measure = "vmnoise timerlat -q".into();
        self.exits = "vmnoise exits".into();
        self.disturb(&["turns:0:3000:10007"])
    }

    /// Boots the lab, and returns the recordings.
    ///
    /// # Errors
    /// If the lab fails, or a command in the lab fails.
    pub fn record(&self) -> Result<PairRecordings> {
        let [quiet, disturbed, host] =
            [QUIET, DISTURBED, HOST].map(|name| format!("{INSIDE}{name}"));
        let measure = |file: &str| format!("{} -d {} -o {file}", self.measure, self.duration);
        // The end of the first command shows that the guest has booted. While the guest sleeps for
        // the first time, `lab-vmm` stops it until the host's recording has begun. While the guest
        // sleeps for the second time, `lab-vmm` starts the disturber.
        let mut in_guest = ["vmnoise --version", PAUSE].map(str::to_owned).to_vec();
        in_guest.extend([measure(&quiet), STEAL.into()]);
        let quiet_is_over = in_guest.len();
        in_guest.push(PAUSE.into());
        in_guest.extend(self.in_guest.iter().cloned());
        in_guest.extend([measure(&disturbed), STEAL.into()]);
        let all_is_over = in_guest.len();
        in_guest.push(PAUSE.into());
        in_guest.push(format!("lab-guest save {quiet} {disturbed}"));

        let watch = match self.moves_us {
            Some(us) => format!("moves:{all_is_over}:{us}"),
            None => format!("looks:{all_is_over}"),
        };
        let vmm = format!(
            "&& lab-vmm start told:1 stop traced cont told:{quiet_is_over} read {} {watch} \
             read unhog untrace end -- lab-guest boot -name {NAME},debug-threads=on",
            self.disturb.join(" ")
        );
        let exits = format!("&& {} -d 5m -o {host}", self.exits);
        let wait = format!("lab-guest told {}", in_guest.len());
        let load = format!("lab-guest load {quiet} {disturbed}");
        let reported = [
            "lab-guest told 1",
            &exits,
            &wait,
            &load,
            "lab-guest results",
        ];
        let logs = self.disturb.iter().any(|step| step.starts_with("turns"));
        let files = [&*quiet, &disturbed, &host].into_iter();
        let files = files.chain(logs.then_some(TURNS));
        let print: Vec<String> = files
            .map(|file| format!("lab-guest print {file}"))
            .collect();
        let all = std::iter::once(&*vmm).chain(reported);
        let all: Vec<&str> = all.chain(print.iter().map(String::as_str)).collect();

        let in_guest: Vec<&str> = in_guest.iter().map(String::as_str).collect();
        let report = self.lab.clone().guest(&in_guest).run(&all)?;
        let [_, _, _, results, recordings @ .., treatment, exits] = &report.outputs[..] else {
            anyhow::bail!("{} commands ended", report.outputs.len());
        };
        // `lab-vmm` ends the recorder. If `lab-vmm` fails, the lab kills the recorder.
        let treatment = treatment.text().context("lab-vmm")?;
        exits.text().context("vmnoise exits")?;
        let treatment: Treatment = serde_json::from_str(treatment)?;
        let in_guest = outputs(results.text()?.as_bytes())?;
        for output in &in_guest {
            output.text().context("in the guest")?;
        }
        let steal_ns = [quiet_is_over, all_is_over].map(|count| {
            let said = in_guest.get(count - 1).context("the guest's steal")?.text();
            anyhow::Ok(said?.trim().parse()?)
        });
        let [before_ns, after_ns] = steal_ns;
        let folder = tempfile::tempdir()?;
        for (name, recording) in [QUIET, DISTURBED, HOST, BURSTS].iter().zip(recordings) {
            std::fs::write(folder.path().join(name), recording.file()?)?;
        }
        Ok(PairRecordings {
            kernel_version: report.kernel_version,
            treatment,
            in_guest,
            guest_steal_ns: [before_ns?, after_ns?],
            folder,
        })
    }
}

impl PairRecordings {
    /// Returns the name of the disturber that results must blame.
    ///
    /// # Errors
    /// If no disturber was started.
    pub fn disturber(&self) -> Result<&str> {
        let mut hogs = self.treatment.steps.iter();
        let hog = hogs.find_map(|step| step.hog.as_deref());
        hog.context("no disturber was started")
    }

    /// Returns the folder of all recordings; it is deleted with this value.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the recording with this name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the start and the end of each burst of the disturber `turns`, by the host's
    /// CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// If the disturber left no log, or the log cannot be read.
    pub fn turns(&self) -> Result<Vec<(u64, u64)>> {
        let log = std::fs::read_to_string(self.file(BURSTS))?;
        let bursts = log.lines().map(|line| {
            let (begin_ns, end_ns) = line.split_once(' ').context("a burst without end")?;
            Ok((begin_ns.parse()?, end_ns.parse()?))
        });
        bursts.collect()
    }

    /// Runs `vmnoise explain` with these options on the recordings of these names. Returns its
    /// JSON.
    ///
    /// # Errors
    /// If the command fails.
    pub fn explain(&self, names: &[&str], options: &[&str]) -> Result<Value> {
        let files: Vec<PathBuf> = names.iter().map(|name| self.file(name)).collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        explain(&files, options)
    }

    /// Returns the output of `vmnoise explain --trace` for the recording of this name.
    ///
    /// # Errors
    /// If the command fails.
    pub fn trace(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8(reported(
            &[&self.file(name)],
            &["--trace"],
        )?)?)
    }
}

/// Runs `vmnoise explain` on these files with these options. Returns its JSON.
///
/// # Errors
/// If the command fails. The error contains the command's message.
pub fn explain(files: &[&Path], options: &[&str]) -> Result<Value> {
    let reported = reported(files, &[options, &["--format", "json"]].concat())?;
    Ok(serde_json::from_slice(&reported)?)
}

fn reported(files: &[&Path], options: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(binary());
    let output = command.arg("explain").args(files).args(options).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(output.stdout)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
