//! The purpose of each capability, and whether it is kept: the table in docs/security.md.

use std::path::Path;

use rustix::thread::CapabilitySet;

/// A work that a process does after its BPF programs are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachedWork {
    /// Reads the reports of the process's own workload and BPF programs.
    Measure,
    /// Connects to a socket on which this machine's host reports the time that the host took.
    HearHost,
    /// Counts the exits of all VMs.
    CountExits,
    /// Finds new VMs, on a separate thread.
    FindVms,
    /// Reads the facts about the threads of VMs once.
    SeeVms,
    /// Sends data to guests over the sockets of their VMMs.
    ServeGuests,
    /// Writes files by name, for instance a trace of a run that was stopped.
    SaveFiles,
    /// Sends the signals that the user requested.
    SendSignals,
    /// Counts the times of all vCPUs, and answers HTTP requests.
    ServeBooks,
    /// Attaches programs that count exits, and reads their counts.
    WatchExits,
    /// Writes files into folders of this process's user. The process is confined to these folders
    /// if the kernel supports this.
    WriteFolders,
    /// Connects to the sockets of VMMs whose guests may send requests. This works only for sockets
    /// that this user may use.
    HearGuests,
    /// Sends data to a server on another machine, after finding the server's address.
    SendOut,
}

/// One row of the table: a capability for a work.
#[derive(Debug)]
pub struct Right {
    work: AttachedWork,
    pub capability: CapabilitySet,
    /// Name in capabilities(7).
    pub name: &'static str,
    /// Purpose of the capability, as a sentence without a subject.
    pub purpose: &'static str,
    /// Whether the process keeps the capability while it does the work.
    is_kept: bool,
}

const fn right(
    work: AttachedWork,
    capability: CapabilitySet,
    name: &'static str,
    purpose: &'static str,
    is_kept: bool,
) -> Right {
    Right {
        work,
        capability,
        name,
        purpose,
        is_kept,
    }
}

/// Purpose of CAP_SYS_ADMIN. Without this capability, the kernel does not provide a module's type
/// information.
const TRACE_A_MODULE: &str = "trace KVM, if it is a module";
const LOAD: &str = "load BPF programs; before Linux 5.19, also read their maps";

/// All rows of the table.
pub const RIGHTS: [Right; 26] = [
    right(
        AttachedWork::Measure,
        CapabilitySet::BPF,
        "CAP_BPF",
        LOAD,
        true,
    ),
    right(
        AttachedWork::Measure,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        AttachedWork::Measure,
        CapabilitySet::SYS_ADMIN,
        "CAP_SYS_ADMIN",
        TRACE_A_MODULE,
        false,
    ),
    right(
        AttachedWork::Measure,
        CapabilitySet::SYS_NICE,
        "CAP_SYS_NICE",
        "set a scheduling policy (`-P`; `timerlat` always sets one)",
        false,
    ),
    right(
        AttachedWork::Measure,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "open root's devices: /dev/cpu_dma_latency, /dev/cpu/N/msr, the port of a feed",
        false,
    ),
    right(
        AttachedWork::Measure,
        CapabilitySet::SYS_RAWIO,
        "CAP_SYS_RAWIO",
        "count SMIs",
        false,
    ),
    right(
        AttachedWork::CountExits,
        CapabilitySet::BPF,
        "CAP_BPF",
        LOAD,
        true,
    ),
    right(
        AttachedWork::CountExits,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        AttachedWork::CountExits,
        CapabilitySet::SYS_ADMIN,
        "CAP_SYS_ADMIN",
        TRACE_A_MODULE,
        false,
    ),
    right(
        AttachedWork::FindVms,
        CapabilitySet::BPF,
        "CAP_BPF",
        "walk over the files of processes",
        true,
    ),
    right(
        AttachedWork::FindVms,
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "see which process has which VM, without that walk, or if /proc hides processes (`hidepid`)",
        true,
    ),
    right(
        AttachedWork::FindVms,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "read KVM's debugfs, without that walk",
        true,
    ),
    right(
        AttachedWork::SeeVms,
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "see which process has a VM",
        true,
    ),
    right(
        AttachedWork::SeeVms,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "read root's files: debugfs, the folders of its processes",
        true,
    ),
    right(
        AttachedWork::ServeGuests,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "connect to the sockets of VMMs",
        true,
    ),
    right(
        AttachedWork::ServeGuests,
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "recognise a process again if /proc hides processes (`hidepid`)",
        true,
    ),
    right(
        AttachedWork::SaveFiles,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "read and write files in folders of other users",
        true,
    ),
    right(
        AttachedWork::SaveFiles,
        CapabilitySet::CHOWN,
        "CAP_CHOWN",
        "give files to the user who called sudo",
        true,
    ),
    right(
        AttachedWork::SaveFiles,
        CapabilitySet::FOWNER,
        "CAP_FOWNER",
        "with `--user`, replace files of root in a folder such as /tmp",
        true,
    ),
    right(
        AttachedWork::SendSignals,
        CapabilitySet::KILL,
        "CAP_KILL",
        "send a signal to a process of another user",
        true,
    ),
    right(
        AttachedWork::ServeBooks,
        CapabilitySet::BPF,
        "CAP_BPF",
        LOAD,
        true,
    ),
    right(
        AttachedWork::ServeBooks,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        AttachedWork::ServeBooks,
        CapabilitySet::NET_BIND_SERVICE,
        "CAP_NET_BIND_SERVICE",
        "listen on a port below 1024 (`--listen`)",
        false,
    ),
    right(
        AttachedWork::WatchExits,
        CapabilitySet::BPF,
        "CAP_BPF",
        "load BPF programs, and attach them each time",
        true,
    ),
    right(
        AttachedWork::WatchExits,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        AttachedWork::WatchExits,
        CapabilitySet::SYS_ADMIN,
        "CAP_SYS_ADMIN",
        TRACE_A_MODULE,
        false,
    ),
];

impl Right {
    pub fn is_needed_by_feed(&self) -> bool {
        let is_of_module = self.purpose == TRACE_A_MODULE;
        let works = [
            AttachedWork::CountExits,
            AttachedWork::FindVms,
            AttachedWork::ServeGuests,
        ];
        works.contains(&self.work) && (!is_of_module || Path::new("/sys/kernel/btf/kvm").exists())
    }
}

/// Returns the capabilities that a process keeps for these works.
pub fn kept(works: &[AttachedWork]) -> CapabilitySet {
    let kept = RIGHTS
        .iter()
        .filter(|right| right.is_kept && works.contains(&right.work));
    kept.fold(CapabilitySet::empty(), |all, right| {
        all.union(right.capability)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text for this work in docs/security.md.
    fn words(work: AttachedWork) -> &'static str {
        match work {
            AttachedWork::Measure => "`microvm`, `osnoise`, `timerlat`",
            AttachedWork::HearHost => "a feed over a socket",
            AttachedWork::CountExits => "`exits`",
            AttachedWork::FindVms => "finding VMs",
            AttachedWork::SeeVms => "`audit`",
            AttachedWork::ServeGuests => "`exits --feed`",
            AttachedWork::SaveFiles => "files by name",
            AttachedWork::SendSignals => "signals",
            AttachedWork::ServeBooks => "`serve`",
            AttachedWork::WatchExits => "`serve --exits-on`",
            AttachedWork::WriteFolders => "`serve --summaries DIR`, `--dumps`",
            AttachedWork::HearGuests => "`serve --dumps-for`",
            AttachedWork::SendOut => "`serve --summaries URL`, `--otlp`",
        }
    }

    #[test]
    fn the_document_has_the_same_table() {
        let document = include_str!("../../../docs/security.md");
        let rows = RIGHTS.iter().map(|right| {
            let kept = if right.is_kept { "yes" } else { "no" };
            let (work, name, purpose) = (words(right.work), right.name, right.purpose);
            format!("| {work} | {name} | {purpose} | {kept} |")
        });
        let head = "| work | capability | what for: to | kept |";
        let (_, table) = document
            .split_once(head)
            .unwrap_or_else(|| panic!("{head}"));
        let reported = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let rows: Vec<String> = rows.collect();
        assert_eq!(reported.collect::<Vec<_>>(), rows, "{}", rows.join("\n"));
    }
}
