//! What was true of the machine and the run before the first event.

use serde::{Deserialize, Serialize};

use crate::{ClockFacts, ExitFilter, Line, Name, Policy, Settings};

/// Which command measured, and so who observed. Files and documents have names of their own, which
/// are older than the commands'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Our own guest on /dev/kvm: the gaps are a VM's, the witnesses its host's.
    Microvm,
    /// A polling thread on each CPU: the gaps are this machine's, guest or not.
    #[serde(rename = "spin")]
    Osnoise,
    /// `osnoise --pid`: threads that were there anyway were observed, and their gaps follow from
    /// what was witnessed on their CPUs.
    Observed,
    /// Nobody: the exits of this host's vCPUs are reported by the kernel itself.
    #[serde(rename = "vcpus")]
    Exits,
    /// A thread on each CPU that sleeps until a given time, again and again: no gaps, but
    /// how late it woke up.
    #[serde(rename = "timer")]
    Timerlat,
}

impl Workload {
    /// The command's word.
    pub const fn command(self) -> &'static str {
        match self {
            Workload::Microvm => "microvm",
            Workload::Osnoise | Workload::Observed => "osnoise",
            Workload::Exits => "exits",
            Workload::Timerlat => "timerlat",
        }
    }

    /// Whether the kernel that witnesses is the host of who is measured, and not its own.
    pub const fn is_witnessed_by_host(self) -> bool {
        match self {
            Workload::Microvm | Workload::Exits => true,
            Workload::Osnoise | Workload::Observed | Workload::Timerlat => false,
        }
    }
}

/// Which events this run could see; a share whose witness is missing is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Witnesses {
    /// `irq:irq_handler_*` and `irq_vectors:*`.
    pub irq: bool,
    /// `irq:softirq_*`.
    pub softirq: bool,
    /// `nmi:nmi_handler` (a lower bound).
    pub nmi: bool,
    /// `sched:sched_switch` and `sched:sched_waking`.
    pub sched: bool,
    /// KVM_RUN left and entered (`kvm:kvm_fpu`, `kvm:kvm_userspace_exit`).
    pub kvm_run: bool,
    /// Each exit (`kvm:kvm_exit`, `kvm:kvm_entry`).
    pub kvm_exit: bool,
    /// The hypervisor's steal clock, as the workload reads it.
    pub steal_clock: bool,
    /// This kernel's own steal clock at the begin and end of each activity.
    #[serde(default)]
    pub activity_steal: bool,
    /// `timer:hrtimer_start` and `timer:hrtimer_expire_entry` of the periodic tasks.
    #[serde(default)]
    pub timer: bool,
    /// The scheduler's own count of how long the workload's thread waited, where `sched` is missing.
    #[serde(default)]
    pub run_delay: bool,
    /// Interrupt vectors with a tracepoint that no program is attached to: what comes over them is not seen.
    #[serde(default)]
    pub hides_vectors: bool,
}

impl Witnesses {
    /// All that a host has of its guests' exits.
    pub const OF_EXITS: Witnesses = Witnesses {
        irq: true,
        softirq: true,
        nmi: true,
        sched: true,
        kvm_run: true,
        kvm_exit: true,
        steal_clock: false,
        activity_steal: false,
        timer: false,
        run_delay: false,
        hides_vectors: false,
    };

    /// Whether everything is seen that a kernel does on its own account.
    pub fn see_kernel(&self) -> bool {
        self.irq && self.softirq && self.nmi && self.sched
    }

    /// Whether nothing of that is seen, as without BPF: no culprit can be named.
    pub fn see_nothing(&self) -> bool {
        !(self.irq || self.softirq || self.nmi || self.sched)
    }
}

/// A thread that is observed while it does its own work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedThread {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its name at start.
    pub comm: Name,
}

/// The options of a run that its result depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Options {
    /// Measured CPUs, ascending.
    pub cpus: Vec<u32>,
    /// How long to measure.
    pub duration_ns: u64,
    /// Gaps of at least this length are recorded; of a run over vCPUs, exits whose noise
    /// is at least this long are reported one by one.
    pub threshold_ns: u64,
    /// Length of one period of the live view.
    pub period_ns: u64,
    /// Policy of the workload's threads; `None` is as inherited.
    pub priority: Option<Policy>,
    /// How many of the longest gaps, or exits of vCPUs, are listed.
    pub top: usize,
    /// A gap of at least this length ends the run.
    pub stop_ns: Option<u64>,
    /// Noise of at least this much in one period ends the run.
    #[serde(default)]
    pub stop_total_ns: Option<u64>,
    /// How long of each period the workload polls; `None` is all of it.
    #[serde(default)]
    pub runtime_ns: Option<u64>,
    /// Whether BPF witnesses were asked for.
    pub trace: bool,
    /// Threads that are observed; empty where the workload is our own.
    #[serde(default)]
    pub observed: Vec<ObservedThread>,
    /// Exits that were asked for; `None` where the run is not over vCPUs.
    #[serde(default)]
    pub exits: Option<ExitFilter>,
    /// What the periodic tasks do; `None` where the workload is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerOptions>,
}

impl Options {
    /// Length of a run that was asked for no end: a year.
    pub const FOREVER_NS: u64 = 365 * 86_400 * 1_000_000_000;

    /// Whether the workload polls but a part of each period.
    pub fn pauses(&self) -> bool {
        self.runtime_ns.is_some_and(|ns| ns < self.period_ns)
    }
}

/// Periodic tasks, one on each CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerOptions {
    /// From one expiry to the next.
    pub period_ns: u64,
    /// How far the expiries of one CPU lie behind those of the CPU before; `None` is as it
    /// happens.
    pub aligned_ns: Option<u64>,
    /// A timer that is this late at its interrupt ends the run.
    pub stop_irq_ns: Option<u64>,
    /// A task that is this late when it is switched in ends the run.
    pub stop_thread_ns: Option<u64>,
    /// The wake-up latency that CPUs in idle were held to, in microseconds; `None` is not to
    /// hold them.
    pub dma_latency_us: Option<i32>,
}

/// The machine, as it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name (`uname -n`); `None` where unknown, as of recordings that do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// `uname -r`.
    pub kernel: Name,
    /// The hypervisor this machine runs on (`KVM`, `Xen`, …); `None` on bare metal.
    pub hypervisor: Option<Name>,
    /// CPU model name of /proc/cpuinfo.
    pub cpu_model: Name,
    /// CPUs this process was allowed to use at start, ascending.
    pub allowed_cpus: Vec<u32>,
    /// Current clocksource of the kernel.
    pub clocksource: Name,
    /// Numbers of its CPUs and their APIC ids, ascending, which a hypervisor gives to vCPUs
    /// as their numbers; empty where unknown, as of recordings before format 4.
    #[serde(default)]
    pub apic_ids: Vec<(u32, u32)>,
    /// The KVM vendor module (`kvm_intel`, `kvm_amd`, `kvm_pvm`), where visible.
    pub kvm_module: Option<Name>,
    /// Whether KVM may use posted interrupts (VMX with APICv), whose vectors have no
    /// tracepoint; `None` where unknown, as of recordings that do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted_interrupts: Option<bool>,
    /// How it was set when the run began; `None` where that was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// How a probe is attached: which link of its fallback chain, from the best witness to none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStatus {
    /// What is probed: `irq vectors`, `steal clock of this host`, ….
    pub probe: Name,
    /// The link in use: `tp_btf`, `raw_tp`, `none`, ….
    #[serde(rename = "rung")]
    pub in_use: Name,
    /// Whether this is the best there is.
    pub best: bool,
    /// What it cannot show; empty if nothing.
    pub limit: Line,
    /// What would attach it better; empty if nothing would.
    pub remedy: Line,
}

impl ProbeStatus {
    /// This probe at its best.
    pub fn best(probe: &str, in_use: &str) -> ProbeStatus {
        ProbeStatus {
            best: true,
            ..ProbeStatus::limited(probe, in_use, "", "")
        }
    }

    /// One that cannot show all, and what would.
    pub fn limited(probe: &str, in_use: &str, limit: &str, remedy: &str) -> ProbeStatus {
        ProbeStatus {
            probe: probe.into(),
            in_use: in_use.into(),
            best: false,
            limit: limit.into(),
            remedy: remedy.into(),
        }
    }
}

/// Everything a result says before its first number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Version of the vmnoise that measured.
    pub tool_version: Name,
    /// Which command measured.
    pub workload: Workload,
    /// Wall-clock start, RFC 3339 in UTC.
    pub started_at: Name,
    /// Which process of a parallel program recorded, as its launcher (PMIx, Open MPI, Slurm) numbers
    /// them from 0; `None` where none said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Options of the run.
    pub options: Options,
    /// The machine.
    pub host: HostFacts,
    /// The clock.
    pub clock: ClockFacts,
    /// Which events were visible.
    pub witnesses: Witnesses,
    /// How they were made visible, and what is missing.
    #[serde(rename = "rungs")]
    pub probe_statuses: Vec<ProbeStatus>,
    /// Whether the tool's own threads had to share a measured CPU.
    pub shares_cpu: bool,
    /// Cycles per `rdtsc` in a bare loop on this machine.
    pub rdtsc_cycles: u64,
}

impl RunFacts {
    /// Whether a layer below the witnesses exists that none of them can see:
    /// a hypervisor under this machine.
    pub fn layer_below_unwitnessed(&self) -> bool {
        self.host.hypervisor.is_some()
    }

    /// Whether a recording of vCPUs has every exit: neither a threshold nor a choice of reasons left any out.
    pub fn reports_each_exit(&self) -> bool {
        let filter = self.options.exits.as_ref();
        let takes_all = filter.is_none_or(|filter| filter.reasons.is_empty());
        takes_all && self.options.threshold_ns == 0
    }

    /// Whether interrupts may come to this machine that no program sees: over vectors without
    /// one, or posted by KVM.
    pub fn has_hidden_interrupts(&self) -> bool {
        self.witnesses.hides_vectors || self.may_have_posted_interrupts()
    }

    /// Whether KVM may post interrupts, as with VMX: no tracepoint reports them. Where that is
    /// not recorded, Intel's module alone may.
    pub fn may_have_posted_interrupts(&self) -> bool {
        let on_intel = self.host.kvm_module.as_deref() == Some("kvm_intel");
        self.host.posted_interrupts.unwrap_or(on_intel)
    }
}
