//! Writes the last minutes of all vCPUs into dumps: the content, recipient and reason of a dump.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use vmnoise_events::Name;

use super::Watch;
use crate::clock::now_ns;
use crate::dumps::{self, Due};
use crate::exits;
use crate::flight::{self, Made, Material, Wanted};
use crate::say::say;

/// Largest number of findings in the text of a dump's reason. A host with many CPUs may have one
/// finding for each CPU.
const FOUND_TOLD: usize = 3;
/// Reason why there is no dump, if vmnoise could not make or queue it.
const FAILED: &str = "the dump could not be written";

impl Watch {
    /// Returns a recording of the wanted VM and time window, as far as the history reaches.
    ///
    /// # Errors
    /// If the recording cannot be encoded.
    pub(crate) fn recording(&mut self, wanted: &Wanted) -> Result<Vec<u8>> {
        self.recording_made(wanted, None)
    }

    fn recording_made(&mut self, wanted: &Wanted, made: Option<&Made>) -> Result<Vec<u8>> {
        self.look_at_clocks();
        self.confirm();
        // This snapshot includes the vCPUs and waits that ended since the last poll.
        let now = self.snapshot();
        let material = Material {
            machine: &self.machine,
            pieces: self.gate.lost_pieces(),
            snapshots: &self.snapshots,
            now,
            member: &|vcpu| self.members.get(&vcpu).cloned(),
            clocks: &|vcpu| self.clocks.of(vcpu),
        };
        flight::recording(material, wanted, made)
    }

    /// Reads the guests' clocks again. If an offset equals the first reading, it either never
    /// changed or was set back.
    pub(super) fn look_at_clocks(&mut self) {
        let present = self.gate.present();
        let present = present.filter_map(|found| Some((found.id, self.members.get(&found.id)?)));
        let present: Vec<_> = present.map(|(id, it)| (id, Arc::clone(it))).collect();
        self.clocks.look(&present);
    }

    /// Writes a dump because of a signal.
    ///
    /// # Errors
    /// If no dump was queued. The error is a text with the reason.
    pub(crate) fn dump(&mut self) -> Result<(), &'static str> {
        const NO_FOLDER: &str =
            "there is no folder for it: start `vmnoise serve` with --dumps FOLDER";
        if self.dumps.is_none() {
            return Err(NO_FOLDER);
        }
        let made = Made {
            why: "a signal (SIGUSR1)".to_owned(),
            beside: None,
        };
        let is_written = self.write_dump(&dumps::name(), &dumps::WANTED, &made);
        if is_written && let Some(dumps) = &mut self.dumps {
            dumps.count_signal();
        }
        is_written.then_some(()).ok_or(FAILED)
    }

    /// Writes a dump for the guest that runs in this VMM and requested the dump. Returns the name
    /// of the dump.
    ///
    /// # Errors
    /// If no dump was queued. The error is a text with the reason.
    pub(crate) fn dump_for(&mut self, vmm_pid: u32, vm: Name) -> Result<String, &'static str> {
        self.dumps.as_mut().ok_or(FAILED)?.guest_asks(vmm_pid)?;
        let name = dumps::name_for_guest();
        let made = Made {
            why: "a request of its guest".to_owned(),
            beside: None,
        };
        let wanted = Wanted {
            vm: Some(vm),
            vmm_pid: Some(vmm_pid),
            ..dumps::WANTED
        };
        let is_written = self.write_dump(&name, &wanted, &made);
        if is_written && let Some(dumps) = &mut self.dumps {
            dumps.count_guest();
        }
        is_written.then_some(name).ok_or(FAILED)
    }

    /// Returns the name of the only VM of this process. `None` if the process has no VM. `None`
    /// also if it has several VMs, because a socket then identifies no guest.
    pub(crate) fn vm_of_process(&self, process: u32) -> Option<Name> {
        let its = self.gate.present().filter(|found| found.tgid == process);
        let mut numbers: Vec<u32> = its.filter_map(|found| found.number).collect();
        numbers.sort_unstable();
        let has_several = numbers.windows(2).any(|pair| pair[0] == pair[1]);
        let vm = self.vms.get(&process).filter(|_| !has_several)?;
        Some(vm.label.clone())
    }

    /// Writes a dump if there is a reason. Then starts to record the exits of one VM: the VM with
    /// the longest wait, or else the VM that a finding names.
    pub(super) fn dump_if_due(&mut self) {
        let dumps = self.dumps.as_mut();
        let Some(due) = dumps.and_then(|dumps| dumps.due(self.vms.values())) else {
            return;
        };
        let waits = self.longest_waits(&due.waited);
        let name = dumps::name();
        let follows = self.exits.as_ref().filter(|it| it.follows_dumps());
        let longest = waits.iter().max_by_key(|(_, length_ns, _)| *length_ns);
        let of_wait = longest.map(|(vm, ..)| vm);
        let of_sign = || due.found.iter().find_map(|it| it.vm.as_ref());
        let beside = follows
            .and(of_wait.or_else(of_sign))
            .map(|vm| exits::beside(&name, vm));
        let made = Made {
            why: why(&due, longest),
            beside,
        };
        if !self.write_dump(&name, &dumps::WANTED, &made) {
            return;
        }
        if let Some(dumps) = &mut self.dumps {
            dumps.count(&due);
        }
        let vm = made.beside.and_then(|beside| self.vm_called(&beside.vm));
        if let (Some(exits), Some(vm)) = (&self.exits, vm) {
            exits.follow_dump(vm, name.clone());
        }
        for (vm, length_ns, culprit) in waits {
            if let Some(dumps) = &mut self.dumps {
                dumps.made_for(vm, &name, length_ns, culprit);
            }
        }
    }

    /// Returns the longest wait of each of these VMs in the time window of a dump: its length in
    /// ns, and the task that had the CPU for most of it.
    fn longest_waits(&self, vms: &[Name]) -> Vec<(Name, u64, String)> {
        let lost = self.gate.lost_pieces().pieces;
        let from_ns = now_ns().saturating_sub(dumps::WANTED.last_ns.unwrap_or(u64::MAX));
        let member = |vcpu| self.members.get(&vcpu).cloned();
        let waits = vms.iter().filter_map(|vm| {
            let is_of_vm = |vcpu| self.members.get(&vcpu).is_some_and(|it| it.vm == *vm);
            let of_vm = lost.iter().filter(|piece| is_of_vm(piece.vcpu));
            let (length_ns, culprit) = flight::longest_wait(of_vm, from_ns, &member)?;
            Some((vm.clone(), length_ns, culprit))
        });
        waits.collect()
    }

    /// Makes a dump, and queues it for writing. Returns whether it was queued. Without a folder for
    /// dumps, returns false.
    fn write_dump(&mut self, name: &str, wanted: &Wanted, made: &Made) -> bool {
        if self.dumps.is_none() {
            return false;
        }
        let recording = self.recording_made(wanted, Some(made));
        match (recording, &self.dumps) {
            (Ok(recording), Some(dumps)) => dumps.write(name, recording),
            (Err(error), _) => {
                say(&format!("a dump could not be made: {error:#}"));
                false
            }
            (Ok(_), None) => false,
        }
    }
}

/// Returns a text with the reasons for a dump.
fn why(due: &Due, longest: Option<&(Name, u64, String)>) -> String {
    let wait = match longest {
        Some((vm, length_ns, _)) => {
            let length = Duration::from_micros(length_ns / 1_000);
            Some(format!("wait: {vm} waited for a CPU for {length:?}"))
        }
        None if due.waited.is_empty() => None,
        None => Some(format!(
            "wait: {} waited too long for a CPU",
            due.waited.join(", ")
        )),
    };
    let found = due.found.iter().map(|finding| finding.words.clone());
    let mut all: Vec<String> = wait.into_iter().chain(found.take(FOUND_TOLD)).collect();
    let more = due.found.len().saturating_sub(FOUND_TOLD);
    all.extend((more > 0).then(|| format!("and {more} more")));
    all.join(", ")
}
