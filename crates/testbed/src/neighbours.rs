//! A lab with one host and two Linux guests of two vCPUs each. The host and both guests record at
//! the same time. Each guest's recording must join with its own VM only.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::bed::inside::outputs;
use crate::bed::{DebianKernel, DebianSuite, Lab};
use crate::lab_program;

/// Names of the guests' VMs.
pub const VMS: [&str; 2] = ["one", "two"];
/// Number of vCPUs per guest.
pub const VCPUS: u32 = 2;
/// File name of the host's recording, which covers the whole time.
pub const HOST: &str = "host.rec";
/// Recordings that each guest makes, one after the other: name of the recording, and `vmnoise`
/// command.
pub const RUNS: [(&str, &str); 3] = [
    ("polled", "osnoise -d 500ms"),
    ("spared", "osnoise -p 20ms -r 4ms -d 400ms"),
    ("timers", "timerlat -d 400ms"),
];
/// Command with which a guest sleeps 200 ms, while its host does pending work.
const PAUSE: &str = "lab-vmm run:200 --";

/// Setup of a lab with two guests.
#[derive(Debug, Clone)]
pub struct Neighbours {
    lab: Lab,
}

/// Recordings that a lab with two guests made.
#[derive(Debug)]
pub struct NeighbourRecordings {
    /// `uname -r` of the kernel that the host and both guests ran.
    pub kernel_version: String,
    folder: tempfile::TempDir,
}

impl Neighbours {
    /// Creates a setup in which the host and both guests run this kernel.
    ///
    /// # Errors
    /// If a program of the lab is not built.
    pub fn of(kernel: DebianKernel, suite: DebianSuite) -> Result<Neighbours> {
        let programs = ["lab-vmm", "lab-guest"];
        let lab = Lab::kernel(kernel).from(suite);
        let lab = programs.iter().try_fold(lab, |lab, name| {
            anyhow::Ok(lab.program(&lab_program(name)?))
        })?;
        Ok(Neighbours { lab })
    }

    /// Uses virtual time. All four vCPUs then share one CPU.
    #[must_use]
    pub fn virtual_time(mut self, shift: u8) -> Neighbours {
        self.lab = self.lab.virtual_time(shift);
        self
    }

    /// Uses this many CPUs on the host, in real time.
    #[must_use]
    pub fn cpus(mut self, cpus: u32) -> Neighbours {
        self.lab = self.lab.cpus(cpus);
        self
    }

    /// Boots the lab, and returns the recordings.
    ///
    /// # Errors
    /// If the lab fails, or a command in the lab fails.
    pub fn record(&self) -> Result<NeighbourRecordings> {
        // The end of the first command shows that the guest has booted. While the guest sleeps,
        // `lab-vmm` stops it until the host's recording has begun.
        let mut in_guest = vec!["vmnoise --version".to_owned()];
        for (name, measure) in RUNS {
            in_guest.push(PAUSE.into());
            in_guest.push(format!("vmnoise {measure} -q -o /tmp/{name}.rec"));
        }
        let saved = RUNS.map(|(name, _)| format!("/tmp/{name}.rec")).join(" ");
        in_guest.extend([PAUSE.into(), format!("lab-guest save {saved}")]);
        let count = in_guest.len();

        // The step `traced` searches for the recorder, which takes the only CPU. So it waits for
        // both guests first.
        let treat = |guest: usize, vm: &str| {
            let other = 1 - guest;
            format!(
                "&& lab-vmm start told:1:{guest} stop told:1:{other} traced cont end -- \
                 lab-guest {guest} boot -name {vm},debug-threads=on -smp {VCPUS}"
            )
        };
        let mut commands: Vec<String> =
            (0..).zip(VMS).map(|(guest, vm)| treat(guest, vm)).collect();
        let wait =
            |count| (0..VMS.len()).map(move |guest| format!("lab-guest {guest} told {count}"));
        commands.extend(wait(1));
        commands.push(format!("&& vmnoise exits -T 1 -d 5m -o /tmp/{HOST}"));
        commands.extend(wait(count));
        commands.push("lab-vmm untrace --".into());
        for (guest, vm) in VMS.iter().enumerate() {
            let files = RUNS.map(|(name, _)| format!("/tmp/{vm}-{name}.rec"));
            commands.push(format!("lab-guest {guest} load {}", files.join(" ")));
            commands.push(format!("lab-guest {guest} results"));
        }
        let waited_for = commands.len() - 3;
        let names: Vec<String> = files().collect();
        let print = names
            .iter()
            .map(|name| format!("lab-guest print /tmp/{name}"));
        commands.extend(print);

        let in_guest: Vec<&str> = in_guest.iter().map(String::as_str).collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let report = self.lab.clone().guest(&in_guest).run(&commands)?;
        let (before, recordings) = report.outputs.split_at(waited_for);
        for results in [&before[waited_for - 3], &before[waited_for - 1]] {
            for output in outputs(results.text()?.as_bytes())? {
                output.text().context("in a guest")?;
            }
        }
        let folder = tempfile::tempdir()?;
        for (name, recording) in names.iter().zip(recordings) {
            std::fs::write(folder.path().join(name), recording.file()?)?;
        }
        let last = &report.outputs[waited_for + names.len()..];
        ensure!(last.len() == 3, "{} commands ended at last", last.len());
        for output in last {
            output.text().context("a VMM, or the host's recorder")?;
        }
        Ok(NeighbourRecordings {
            kernel_version: report.kernel_version,
            folder,
        })
    }
}

impl NeighbourRecordings {
    /// Returns the folder of all recordings. Their names are [`HOST`], and [`guest_file`] for the
    /// guests. The folder is deleted with this value.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Returns the name of the file in which guest `vm` recorded the entry `run` of [`RUNS`].
pub fn guest_file(vm: &str, run: &str) -> String {
    format!("{vm}-{run}.rec")
}

/// Returns the file names of all recordings of a lab.
pub fn files() -> impl Iterator<Item = String> {
    let of_guest = |vm| RUNS.iter().map(move |(run, _)| guest_file(vm, run));
    VMS.into_iter().flat_map(of_guest).chain([HOST.into()])
}
