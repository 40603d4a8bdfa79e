//! A Linux guest and its host that record at the same time, in one lab. The guest's
//! recordings come to the host by its disk, and are joined there.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bed::inside::outputs;
use crate::bed::{CommandOutput, Kernel, Lab, Suite};
use crate::lab_program;
use crate::vmm_steps::Treatment;

/// The guest's recording of a time when nobody was let loose on it.
pub const QUIET: &str = "/tmp/quiet.rec";
/// The guest's recording of a time with a disturber.
pub const DISTURBED: &str = "/tmp/guest.rec";
/// The host's recording of both times.
pub const HOST: &str = "/tmp/host.rec";
/// What the guest's VM is called.
pub const NAME: &str = "l2";

/// How a pair is recorded.
#[derive(Debug, Clone)]
pub struct Pair {
    lab: Lab,
    /// What is done to the guest's VM before the disturber comes, and with it.
    disturb: Vec<String>,
    /// Commands of the guest, beside the disturber, before `vmnoise osnoise`.
    in_guest: Vec<String>,
    /// How long the guest measures, each time.
    duration: String,
}

/// What was recorded, and what the host made of it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// `uname -r` of both kernels.
    pub kernel_version: String,
    /// What was done to the VM.
    pub treatment: Treatment,
    /// What the guest's own commands said, in their order.
    pub in_guest: Vec<CommandOutput>,
    /// What the host's commands said, in their order.
    pub outputs: Vec<CommandOutput>,
}

impl Pair {
    /// On this kernel, in the guest as on the host, beside a task on CPU 0 of the host
    /// that never sleeps.
    ///
    /// # Errors
    /// If a program of the lab was not built.
    pub fn of(kernel: Kernel, suite: Suite) -> Result<Pair> {
        let programs = ["lab-vmm", "lab-guest", "lab-disturb", "lab-tracefs"];
        let lab = Lab::kernel(kernel).from(suite);
        let lab = programs.iter().try_fold(lab, |lab, name| {
            anyhow::Ok(lab.program(&lab_program(name)?))
        })?;
        Ok(Pair {
            lab,
            disturb: vec!["hog:0".into()],
            in_guest: Vec::new(),
            duration: "1s".into(),
        })
    }

    /// With another kernel in the guest.
    pub fn guest_kernel(mut self, kernel: Kernel) -> Pair {
        self.lab = self.lab.guest_kernel(kernel);
        self
    }

    /// Under virtual time: one CPU.
    pub fn virtual_time(mut self, shift: u8) -> Pair {
        self.lab = self.lab.virtual_time(shift);
        self
    }

    /// On this many CPUs, in real time.
    pub fn cpus(mut self, cpus: u32) -> Pair {
        self.lab = self.lab.cpus(cpus);
        self
    }

    /// Does this (steps of `lab-vmm`) when the quiet time is over; one of them lets
    /// a `hog` loose.
    pub fn disturb(mut self, steps: &[&str]) -> Pair {
        self.disturb = owned(steps);
        self
    }

    /// The guest runs these as well, beside the disturber.
    pub fn in_guest(mut self, commands: &[&str]) -> Pair {
        self.in_guest = owned(commands);
        self
    }

    /// How long the guest measures, each time.
    pub fn duration(mut self, duration: &str) -> Pair {
        self.duration = duration.to_owned();
        self
    }

    /// Records, and runs these commands on the host when all recordings are there.
    ///
    /// # Errors
    /// If the lab fails, or a command of its guest.
    pub fn run(&self, commands: &[&str]) -> Result<Recorded> {
        let measure = |file: &str| format!("vmnoise osnoise -q -d {} -o {file}", self.duration);
        // The first says that the guest is there. While the second waits it is stopped, until
        // its host records; the fourth lets the disturber come.
        let before = ["vmnoise --version", "lab-vmm run:200 --"].map(str::to_owned);
        let mut in_guest = before.to_vec();
        in_guest.extend([measure(QUIET), "lab-vmm run:200 --".into()]);
        let quiet_is_over = before.len() + 1;
        in_guest.extend(self.in_guest.iter().cloned());
        in_guest.push(measure(DISTURBED));
        let all_is_over = in_guest.len();
        in_guest.push(format!("lab-guest save {QUIET} {DISTURBED}"));

        let vmm = format!(
            "&& lab-vmm start told:1 stop traced cont told:{quiet_is_over} read {} told:{all_is_over} \
             read unhog untrace end -- lab-guest boot -name {NAME},debug-threads=on",
            self.disturb.join(" ")
        );
        let host = format!("&& vmnoise exits -T 1 -d 5m -o {HOST}");
        let wait = format!("lab-guest told {}", in_guest.len());
        let load = format!("lab-guest load {QUIET} {DISTURBED}");
        let mut all = vec![&*vmm, "lab-guest told 1", &*host, &*wait, &*load];
        all.extend(["lab-guest results"].iter().chain(commands));

        let in_guest: Vec<&str> = in_guest.iter().map(String::as_str).collect();
        let report = self.lab.clone().guest(&in_guest).run(&all)?;
        let mut outputs = report.outputs.into_iter().skip(3);
        let results = outputs.next().context("what the guest said")?;
        let in_guest = self::outputs(results.text()?.as_bytes())?;
        for output in &in_guest {
            output.text().context("in the guest")?;
        }
        let mut outputs: Vec<CommandOutput> = outputs.collect();
        let [treatment, host] = &outputs.split_off(commands.len())[..] else {
            anyhow::bail!("neither the VM's end nor that of the host's recording was told");
        };
        host.text().context("vmnoise exits")?;
        let treatment: Treatment = serde_json::from_str(treatment.text()?)?;
        Ok(Recorded {
            kernel_version: report.kernel_version,
            in_guest,
            treatment,
            outputs,
        })
    }
}

impl Recorded {
    /// The disturber, as results must name it.
    ///
    /// # Errors
    /// If none was let loose.
    pub fn disturber(&self) -> Result<&str> {
        let mut hogs = self.treatment.steps.iter();
        let hog = hogs.find_map(|step| step.hog.as_deref());
        hog.context("no disturber was let loose")
    }

    /// A file that `lab-guest print` brought out.
    ///
    /// # Errors
    /// If that command printed none.
    pub fn file(&self, output: usize) -> Result<Vec<u8>> {
        self.outputs.get(output).context("no such output")?.file()
    }

    /// The JSON of a command.
    ///
    /// # Errors
    /// If it failed, or printed none.
    pub fn json(&self, output: usize) -> Result<Value> {
        self.outputs.get(output).context("no such output")?.json()
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
