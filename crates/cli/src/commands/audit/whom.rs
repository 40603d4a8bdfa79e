//! The side to audit, parsed from the words before the recordings.

use std::path::{Path, PathBuf};

use anyhow::Result;
use vmnoise_audit::{AuditRule, MachineSide};
use vmnoise_console::status::UsageError;
use vmnoise_engine::vcpus::is_called;
use vmnoise_host::{Host, VmProcess};

/// Side to audit.
pub enum Whom {
    /// Both sides.
    Any,
    /// Only this side.
    Side(MachineSide),
    /// Host of this VM.
    Vm(VmProcess),
}

impl Whom {
    /// Parses the side, and returns it with the recordings that follow.
    ///
    /// # Errors
    /// If no VM of this name runs here.
    pub fn of<'a>(words: &'a [PathBuf], here: &Host) -> Result<(Whom, &'a [PathBuf])> {
        let is = |word: &Path, what: &str| word == Path::new(what);
        Ok(match words {
            [word, rest @ ..] if is(word, "host") => (Whom::Side(MachineSide::Host), rest),
            [word, rest @ ..] if is(word, "guest") => (Whom::Side(MachineSide::Guest), rest),
            [word, name, rest @ ..] if is(word, "vm") => {
                let name = name.to_string_lossy();
                (Whom::Vm(running(here, &name)?), rest)
            }
            [word] if is(word, "vm") => {
                let why = "audit vm: write the VM's name after `vm`; `vmnoise exits --list` shows those of this host";
                return Err(UsageError(why.into()).into());
            }
            recordings => (Whom::Any, recordings),
        })
    }

    /// Returns whether a rule belongs to this side.
    pub fn asks(&self, rule: &AuditRule) -> bool {
        let side = match self {
            Whom::Any => return true,
            Whom::Side(side) => *side,
            Whom::Vm(_) => MachineSide::Host,
        };
        rule.of.is_none_or(|it| it == side)
    }

    /// Returns the VM, if the audit is for one.
    pub fn vm(&self) -> Option<&VmProcess> {
        match self {
            Whom::Vm(vm) => Some(vm),
            Whom::Any | Whom::Side(_) => None,
        }
    }
}

fn running(here: &Host, name: &str) -> Result<VmProcess, UsageError> {
    let mut vms = here.vms().into_iter().filter(|vm| is_called(vm, name));
    let vm = vms.next().ok_or_else(|| {
        UsageError(format!(
            "no VM that you may see is called `{name}`; `sudo vmnoise exits --list` shows all VMs of this host"
        ))
    })?;
    if let Some(other) = vms.next() {
        return Err(UsageError(format!(
            "more than one VM is called `{name}`: name the process id of its VMM, {} or {}",
            vm.pid, other.pid
        )));
    }
    Ok(vm)
}
