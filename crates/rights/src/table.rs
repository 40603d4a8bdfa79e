//! Which capability is for what, and which of them are kept: the table of docs/security.md.

use std::path::Path;

use rustix::thread::CapabilitySet;

/// Something that a process still does once its programs are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Read what a workload of its own and BPF programs report.
    Measure,
    /// Connect to the socket on which the host of this machine says what it took.
    HearHost,
    /// Count the exits of all VMs.
    CountExits,
    /// Find VMs as they come, on a thread of its own.
    FindVms,
    /// Look at the threads of VMs once.
    SeeVms,
    /// Tell guests over the sockets of their VMMs.
    ServeGuests,
    /// Write files under names, as a trace is when its run was stopped.
    SaveFiles,
    /// Send the signals that the user asked for.
    SendSignals,
    /// Keep the books of all vCPUs, and answer whoever asks over HTTP.
    ServeBooks,
    /// Attach programs that count exits, and read what they tell.
    WatchExits,
    /// Write files into folders of this process's user; where the kernel can, it is confined to these.
    WriteFolders,
    /// Connect to the sockets of VMMs whose guests may ask for something, if these let this user.
    HearGuests,
    /// Send what it knows to a server that has to be found and connected to.
    SendOut,
}

/// One row of the table.
#[derive(Debug)]
pub struct Right {
    work: Work,
    pub capability: CapabilitySet,
    /// Of capabilities(7).
    pub name: &'static str,
    /// A sentence without its subject.
    pub purpose: &'static str,
    /// Whether it is kept for as long as the work goes on.
    is_kept: bool,
}

const fn right(
    work: Work,
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

/// The kernel hands out a module's type information to nobody else.
const TRACE_A_MODULE: &str = "trace KVM, where that is a module";
const LOAD: &str = "load BPF programs; before Linux 5.19, to read their maps";

/// The table.
pub const RIGHTS: [Right; 26] = [
    right(Work::Measure, CapabilitySet::BPF, "CAP_BPF", LOAD, true),
    right(
        Work::Measure,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        Work::Measure,
        CapabilitySet::SYS_ADMIN,
        "CAP_SYS_ADMIN",
        TRACE_A_MODULE,
        false,
    ),
    right(
        Work::Measure,
        CapabilitySet::SYS_NICE,
        "CAP_SYS_NICE",
        "have a policy other than the inherited one (`-P`; `timerlat` has one)",
        false,
    ),
    right(
        Work::Measure,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "open devices of root: /dev/cpu_dma_latency, /dev/cpu/N/msr, the port of a feed",
        false,
    ),
    right(
        Work::Measure,
        CapabilitySet::SYS_RAWIO,
        "CAP_SYS_RAWIO",
        "count SMIs",
        false,
    ),
    right(Work::CountExits, CapabilitySet::BPF, "CAP_BPF", LOAD, true),
    right(
        Work::CountExits,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        Work::CountExits,
        CapabilitySet::SYS_ADMIN,
        "CAP_SYS_ADMIN",
        TRACE_A_MODULE,
        false,
    ),
    right(
        Work::FindVms,
        CapabilitySet::BPF,
        "CAP_BPF",
        "walk over the files of processes",
        true,
    ),
    right(
        Work::FindVms,
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "see which process has which VM, where there is no walk, or /proc hides processes (`hidepid`)",
        true,
    ),
    right(
        Work::FindVms,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "read KVM's debugfs, where there is no walk",
        true,
    ),
    right(
        Work::SeeVms,
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "see which process has a VM",
        true,
    ),
    right(
        Work::SeeVms,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "read files of root: debugfs, the folders of its processes",
        true,
    ),
    right(
        Work::ServeGuests,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "connect to the sockets of VMMs",
        true,
    ),
    right(
        Work::ServeGuests,
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "know a process again where /proc hides those of others (`hidepid`)",
        true,
    ),
    right(
        Work::SaveFiles,
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "read and write files in folders of others",
        true,
    ),
    right(
        Work::SaveFiles,
        CapabilitySet::CHOWN,
        "CAP_CHOWN",
        "give files to whoever called sudo",
        true,
    ),
    right(
        Work::SaveFiles,
        CapabilitySet::FOWNER,
        "CAP_FOWNER",
        "with `--user`, replace what was made for root in a folder such as /tmp",
        true,
    ),
    right(
        Work::SendSignals,
        CapabilitySet::KILL,
        "CAP_KILL",
        "send a signal to a process of others",
        true,
    ),
    right(Work::ServeBooks, CapabilitySet::BPF, "CAP_BPF", LOAD, true),
    right(
        Work::ServeBooks,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        Work::ServeBooks,
        CapabilitySet::NET_BIND_SERVICE,
        "CAP_NET_BIND_SERVICE",
        "listen on a port below 1024 (`--listen`)",
        false,
    ),
    right(
        Work::WatchExits,
        CapabilitySet::BPF,
        "CAP_BPF",
        "load BPF programs; to attach them each time",
        true,
    ),
    right(
        Work::WatchExits,
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "trace the kernel",
        false,
    ),
    right(
        Work::WatchExits,
        CapabilitySet::SYS_ADMIN,
        "CAP_SYS_ADMIN",
        TRACE_A_MODULE,
        false,
    ),
];

impl Right {
    pub fn is_needed_by_feed(&self) -> bool {
        let is_of_module = self.purpose == TRACE_A_MODULE;
        let works = [Work::CountExits, Work::FindVms, Work::ServeGuests];
        works.contains(&self.work) && (!is_of_module || Path::new("/sys/kernel/btf/kvm").exists())
    }
}

/// What is kept for all of this work together.
pub fn kept(works: &[Work]) -> CapabilitySet {
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

    /// How the document names this work.
    fn words(work: Work) -> &'static str {
        match work {
            Work::Measure => "`microvm`, `osnoise`, `timerlat`",
            Work::HearHost => "a feed over a socket",
            Work::CountExits => "`exits`",
            Work::FindVms => "finding VMs",
            Work::SeeVms => "`audit`",
            Work::ServeGuests => "`exits --feed`",
            Work::SaveFiles => "files by name",
            Work::SendSignals => "signals",
            Work::ServeBooks => "`serve`",
            Work::WatchExits => "`serve --exits-on`",
            Work::WriteFolders => "`serve --summaries DIR`, `--dumps`",
            Work::HearGuests => "`serve --dumps-for`",
            Work::SendOut => "`serve --summaries URL`, `--otlp`",
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
