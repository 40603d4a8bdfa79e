//! Faults in the set-up of a machine that `vmnoise audit` must find. Each fault has wrong settings,
//! a disturber that uses them, and the names of the culprits in the kernel's own events.

pub mod cycle;
mod disturb;
mod group;
mod judge;
mod kernel_events;
mod proof;
mod settings;

pub use cycle::{CycleOutcome, RecordingFindings};
pub use disturb::{DisturberKind, work};
pub use judge::FaultVerdict;
pub use proof::{Proof, prove};

/// CPU that should be quiet. Other CPUs do everything else.
pub const QUIET: u32 = 1;
/// The other CPU of a machine with two CPUs.
pub const OTHER: u32 = 0;

/// Kernel parameters that keep CPU [`QUIET`] quiet.
pub const TUNED: &str = "isolcpus=domain,managed_irq,1 nohz_full=1 skew_tick=1 irqaffinity=0";

/// A fault in the set-up of a machine.
#[derive(Debug, Clone, Copy)]
pub struct InjectedFault {
    /// Name of the fault on the command line.
    pub name: &'static str,
    /// Description of the fault.
    pub what: &'static str,
    /// Rule of the audit that must find the fault.
    pub rule: &'static str,
    /// Wrong settings: pairs of a file and its value.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// Beginnings of the names of kernel threads that the fault moves to the quiet CPU.
    pub(crate) on_quiet: &'static [&'static str],
    /// Disturber that uses the fault; `None` if the wrong settings alone take time.
    pub(crate) disturber: Option<DisturberKind>,
    /// Whether the fault is in the cgroup of the measured process. This process then has a cgroup
    /// of its own.
    pub(crate) is_of_group: bool,
    /// Part of the explained time that the change gives back.
    pub(crate) gives: Gives,
    /// Beginnings of the culprits' names in the kernel's events, such as `irq ttyS0`.
    pub(crate) culprits: &'static [&'static str],
    /// Command that records the quiet CPU.
    pub(crate) command: &'static str,
    /// Machine that the fault needs, and how the change is applied.
    pub place: FaultPlace,
}

/// Machine that a fault needs, and how the audit's change is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultPlace {
    /// A machine booted with [`TUNED`]. The audit's script applies the change.
    Tuned,
    /// A machine booted without [`TUNED`], because an isolated CPU cannot have the fault. The
    /// audit's script applies the change.
    Untuned,
    /// A machine booted without [`TUNED`]. A reboot with [`TUNED`] applies the change.
    UntunedUntilNextStart,
}

/// Part of a finding's explained time that the change gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// All of the time.
    All,
    /// The time above a fair share. Two threads of the same weight have half of the CPU each.
    AboveFairShare,
}

/// Command for a polling thread of ordinary priority.
const POLLER: &str = "osnoise";
/// Command for a polling thread with a higher priority than all ordinary tasks.
const URGENT_POLLER: &str = "osnoise -P f:1";
/// Command for a VM whose vCPU polls.
const VM: &str = "microvm";

/// Default values for the fields of a fault.
const NONE: InjectedFault = InjectedFault {
    name: "",
    what: "",
    rule: "",
    settings: &[],
    on_quiet: &[],
    disturber: None,
    is_of_group: false,
    gives: Gives::All,
    culprits: &[],
    command: POLLER,
    place: FaultPlace::Tuned,
};

/// All faults.
pub const FAULTS: [InjectedFault; 17] = [
    InjectedFault {
        name: "serial",
        what: "the interrupt of a serial port",
        rule: "irq-affinity",
        settings: &[("/proc/irq/4/smp_affinity_list", "1")],
        disturber: Some(DisturberKind::Serial),
        culprits: &["irq ttyS0:"],
        ..NONE
    },
    InjectedFault {
        name: "workqueue",
        what: "unbound kernel work, from input on a terminal",
        rule: "workqueues",
        settings: &[("/sys/devices/virtual/workqueue/cpumask", "2")],
        disturber: Some(DisturberKind::Terminal),
        culprits: &["thread kworker/u"],
        ..NONE
    },
    InjectedFault {
        name: "rps",
        what: "packets that another CPU hands over",
        rule: "rps",
        settings: &[("/sys/class/net/lo/queues/rx-0/rps_cpus", "2")],
        disturber: Some(DisturberKind::Packets),
        culprits: &["softirq NET_RX:"],
        place: FaultPlace::Untuned,
        ..NONE
    },
    InjectedFault {
        name: "thp",
        what: "huge pages for all processes, made on the quiet CPU",
        rule: "thp",
        settings: &[
            (
                "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
                "10",
            ),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "always"),
        ],
        on_quiet: &["khugepaged"],
        disturber: Some(DisturberKind::SmallPages),
        culprits: &["thread khugepaged:"],
        ..NONE
    },
    InjectedFault {
        name: "ksm",
        what: "equal pages, merged on the quiet CPU",
        rule: "ksm",
        settings: &[
            ("/sys/kernel/mm/ksm/sleep_millisecs", "10"),
            ("/sys/kernel/mm/ksm/run", "1"),
        ],
        on_quiet: &["ksmd"],
        disturber: Some(DisturberKind::Mergeable),
        culprits: &["thread ksmd:"],
        ..NONE
    },
    InjectedFault {
        name: "compaction",
        what: "proactive compaction of memory, on the quiet CPU",
        rule: "compaction",
        settings: &[("/proc/sys/vm/compaction_proactiveness", "100")],
        on_quiet: &["kcompactd0"],
        disturber: Some(DisturberKind::Holes),
        culprits: &["thread kcompactd0:"],
        ..NONE
    },
    InjectedFault {
        name: "throttling",
        what: "real-time tasks lose 5 % of each second",
        rule: "rt-throttling",
        settings: &[("/proc/sys/kernel/sched_rt_runtime_us", "950000")],
        culprits: &["thread swapper/1:"],
        command: URGENT_POLLER,
        place: FaultPlace::Untuned,
        ..NONE
    },
    InjectedFault {
        name: "vm-serial",
        what: "the interrupt of a serial port, with a vCPU",
        rule: "irq-affinity",
        settings: &[("/proc/irq/4/smp_affinity_list", "1")],
        disturber: Some(DisturberKind::Serial),
        culprits: &["irq ttyS0:"],
        command: VM,
        ..NONE
    },
    InjectedFault {
        name: "vm-workqueue",
        what: "unbound kernel work, with a vCPU",
        rule: "workqueues",
        settings: &[("/sys/devices/virtual/workqueue/cpumask", "2")],
        disturber: Some(DisturberKind::Terminal),
        culprits: &["thread kworker/u"],
        command: VM,
        ..NONE
    },
    InjectedFault {
        name: "vm-ksm",
        what: "equal pages, merged, with a vCPU",
        rule: "ksm",
        settings: &[
            ("/sys/kernel/mm/ksm/sleep_millisecs", "10"),
            ("/sys/kernel/mm/ksm/run", "1"),
        ],
        on_quiet: &["ksmd"],
        disturber: Some(DisturberKind::Mergeable),
        culprits: &["thread ksmd:"],
        command: VM,
        ..NONE
    },
    InjectedFault {
        name: "vm-task",
        what: "ordinary tasks that never sleep, with a vCPU",
        rule: "isolated-cpus",
        disturber: Some(DisturberKind::Tasks),
        culprits: &["thread lab-fault:"],
        command: VM,
        place: FaultPlace::UntunedUntilNextStart,
        ..NONE
    },
    InjectedFault {
        name: "tick",
        what: "the tick",
        rule: "nohz-full",
        culprits: &["irq local_timer:"],
        place: FaultPlace::UntunedUntilNextStart,
        ..NONE
    },
    InjectedFault {
        name: "task",
        what: "ordinary tasks that never sleep",
        rule: "isolated-cpus",
        disturber: Some(DisturberKind::Tasks),
        culprits: &["thread lab-fault:"],
        place: FaultPlace::UntunedUntilNextStart,
        ..NONE
    },
    InjectedFault {
        name: "weight",
        what: "an ordinary task of nine times the weight (nice -10), on the quiet CPU",
        rule: "heavier-threads",
        disturber: Some(DisturberKind::Heavier),
        gives: Gives::AboveFairShare,
        culprits: &["thread lab-fault:"],
        ..NONE
    },
    InjectedFault {
        name: "vm-weight",
        what: "the same, with a vCPU",
        rule: "heavier-threads",
        disturber: Some(DisturberKind::Heavier),
        gives: Gives::AboveFairShare,
        culprits: &["thread lab-fault:"],
        command: VM,
        ..NONE
    },
    InjectedFault {
        name: "quota",
        what: "a quota: 80 % of one CPU for the control group of the poller",
        rule: "quota",
        settings: &[(group::QUOTA, "80000 100000")],
        is_of_group: true,
        culprits: &["thread swapper/1:"],
        place: FaultPlace::Untuned,
        ..NONE
    },
    InjectedFault {
        name: "vm-quota",
        what: "the same, with a vCPU",
        rule: "quota",
        settings: &[(group::QUOTA, "80000 100000")],
        is_of_group: true,
        culprits: &["thread swapper/1:"],
        command: VM,
        place: FaultPlace::Untuned,
        ..NONE
    },
];

/// Sets of faults, each with the names of the faults that are caused at the same time: every fault
/// alone, and three faults together.
pub const SETS: [&[&str]; 18] = [
    &["serial"],
    &["workqueue"],
    &["rps"],
    &["thp"],
    &["ksm"],
    &["compaction"],
    &["throttling"],
    &["vm-serial"],
    &["vm-workqueue"],
    &["vm-ksm"],
    &["vm-task"],
    &["tick"],
    &["task"],
    &["weight"],
    &["vm-weight"],
    &["quota"],
    &["vm-quota"],
    &["serial", "workqueue", "ksm"],
];

/// Returns the fault of this name; `None` if there is none.
pub fn named(name: &str) -> Option<&'static InjectedFault> {
    FAULTS.iter().find(|it| it.name == name)
}
