//! The audited machine: this machine as it is now, or the machine of a recording as it was when the
//! run began.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_audit::{Audit, AuditMachine, AuditRule, BOOT_ID, NoiseEvidence};
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_events::{HostFacts, Name, RunFacts};
use vmnoise_host::{Host, cpu_list};
use vmnoise_render::audit::AuditSubject;

/// A machine, before its CPUs to audit are known.
pub struct Subject {
    facts: HostFacts,
    recorded_at: Option<Name>,
    machine: AuditMachine,
    /// This machine as it is now, if the recording is of this machine.
    now: Option<AuditMachine>,
}

/// A machine with its CPUs to audit.
pub struct MachineWithCpus {
    /// Machine in the state that is judged.
    pub machine: AuditMachine,
    now: Option<AuditMachine>,
}

impl MachineWithCpus {
    /// Removes all VMs except the VM of this process.
    pub fn of_vm(self, pid: u32) -> MachineWithCpus {
        MachineWithCpus {
            machine: self.machine.of_vm(pid),
            now: self.now.map(|now| now.of_vm(pid)),
        }
    }

    /// Applies these rules.
    pub fn audit(&self, rules: Vec<AuditRule>, evidence: Option<&NoiseEvidence>) -> Audit {
        match (&self.now, evidence) {
            (Some(now), Some(evidence)) => Audit::of_run(&rules, &self.machine, now, evidence),
            _ => Audit::new(rules, &self.machine, evidence),
        }
    }
}

impl Subject {
    /// Returns this machine as it is now.
    ///
    /// # Errors
    /// If /proc or /sys is missing.
    pub fn here(facts: HostFacts) -> Result<Subject> {
        Ok(Subject {
            facts,
            recorded_at: None,
            machine: here_now()?,
            now: None,
        })
    }

    /// Returns the machine of a recording, as it was when the run began. If the recording is of
    /// this machine since its last boot, settings that the recording lacks are read now.
    ///
    /// # Errors
    /// If the recording is of another machine or boot and has no settings, or if settings cannot be
    /// read.
    pub fn of(path: &Path, recorded: &RunFacts, here: &Host) -> Result<Subject> {
        let here = here.facts()?;
        let its = &recorded.host;
        let is_here =
            (&its.name, &its.kernel) == (&here.name, &here.kernel) && !is_of_another_start(its);
        let Some(settings) = its.settings.clone() else {
            if is_here {
                return Subject::here(here);
            }
            let of = |facts: &HostFacts| {
                let name = facts.name.as_deref().unwrap_or("-");
                format!("{name} with Linux {}", facts.kernel)
            };
            return Err(UsageError(format!(
                "{} is of {} and lacks its settings, and this is {}: audit on the recorded machine, or record with a newer vmnoise",
                say::name_of(path),
                of(its),
                of(&here)
            ))
            .into());
        };
        let machine = match is_here {
            true => AuditMachine::recorded_under("/", settings, &[]),
            false => AuditMachine::recorded(settings, &[]),
        };
        Ok(Subject {
            facts: its.clone(),
            recorded_at: Some(recorded.started_at.clone()),
            machine: machine.with_context(|| say::name_of(path))?,
            now: is_here.then(here_now).transpose()?,
        })
    }

    /// Parses a list of CPUs.
    ///
    /// # Errors
    /// If the machine has no such CPU.
    pub fn cpus(&self, list: &str) -> Result<Vec<u32>> {
        let cpus = cpu_list::parse(list).map_err(|error| UsageError(error.to_string()))?;
        let online = &self.machine.others;
        match cpus.iter().find(|cpu| !online.contains(cpu)) {
            Some(cpu) => {
                Err(UsageError(format!("CPU {cpu} is not online; name online CPUs with -c")).into())
            }
            None => Ok(cpus),
        }
    }

    /// Returns whether the recording is of another machine, or of an earlier boot of this one.
    pub fn is_elsewhere(&self) -> bool {
        self.recorded_at.is_some() && self.now.is_none()
    }

    /// Returns the isolated CPUs, including isolated partitions of cpusets.
    pub fn isolated(&self) -> Vec<u32> {
        self.machine.isolated_cpus()
    }

    /// Returns the CPUs that are online.
    pub fn online(&self) -> &[u32] {
        &self.machine.others
    }

    /// Returns the machine for an audit of these CPUs, and its description for the result.
    pub fn about(self, cpus: Vec<u32>) -> (MachineWithCpus, AuditSubject) {
        let of = AuditSubject {
            is_here: !self.is_elsewhere(),
            facts: self.facts,
            recorded_at: self.recorded_at,
            cpus,
        };
        let looked = MachineWithCpus {
            machine: self.machine.about(&of.cpus),
            now: self.now.map(|now| now.about(&of.cpus)),
        };
        (looked, of)
    }
}

fn here_now() -> Result<AuditMachine> {
    AuditMachine::under("/", &[]).context("reading which CPUs are online")
}

/// Returns whether the recording is of another boot than the current boot. Returns false for older
/// recordings, which have no boot id.
fn is_of_another_start(its: &HostFacts) -> bool {
    let settings = its.settings.as_ref();
    let recorded = settings.and_then(|it| it.get(BOOT_ID)).flatten();
    let here = fs::read_to_string(Path::new("/").join(BOOT_ID));
    let here = here.ok();
    recorded
        .zip(here.as_deref())
        .is_some_and(|(then, now)| then.trim() != now.trim())
}
