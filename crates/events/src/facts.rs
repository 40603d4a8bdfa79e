//! Facts about the machine and the run that are known before the first event.

use serde::{Deserialize, Serialize};

use crate::{ClockFacts, ExitFilter, Name, Policy, Settings, ShownLine};

/// The command that measured. Recordings and documents use other names for some commands, because
/// these names are older than the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuringCommand {
    /// `vmnoise microvm`: vmnoise runs a guest of its own on /dev/kvm. The gaps are gaps of this
    /// guest, and the probes run on the guest's host.
    Microvm,
    /// `vmnoise osnoise`: a polling thread runs on each CPU. The gaps are gaps of this machine,
    /// which may itself be a guest.
    #[serde(rename = "spin")]
    Osnoise,
    /// `vmnoise osnoise --pid`: vmnoise observes threads of other programs. It derives their gaps
    /// from the events on their CPUs.
    Observed,
    /// `vmnoise exits`: there is no workload. The kernel reports the exits of this host's vCPUs.
    #[serde(rename = "vcpus")]
    Exits,
    /// `vmnoise timerlat`: a thread on each CPU repeatedly sleeps until a given time. The run has
    /// wake-up latencies instead of gaps.
    #[serde(rename = "timer")]
    Timerlat,
}

impl MeasuringCommand {
    /// Returns the name of the command.
    pub const fn command(self) -> &'static str {
        match self {
            MeasuringCommand::Microvm => "microvm",
            MeasuringCommand::Osnoise | MeasuringCommand::Observed => "osnoise",
            MeasuringCommand::Exits => "exits",
            MeasuringCommand::Timerlat => "timerlat",
        }
    }

    /// Returns whether the probes run on the host of the measured system. If not, they run in the
    /// kernel of the measured system.
    pub const fn is_witnessed_by_host(self) -> bool {
        match self {
            MeasuringCommand::Microvm | MeasuringCommand::Exits => true,
            MeasuringCommand::Osnoise | MeasuringCommand::Observed | MeasuringCommand::Timerlat => {
                false
            }
        }
    }
}

/// Kinds of events that the probes of a run could see. A share whose events could not be seen is
/// unknown.
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
    /// Entries to and returns from KVM_RUN (`kvm:kvm_fpu`, `kvm:kvm_userspace_exit`).
    pub kvm_run: bool,
    /// Each exit (`kvm:kvm_exit`, `kvm:kvm_entry`).
    pub kvm_exit: bool,
    /// The steal clock of the hypervisor, which the workload reads.
    pub steal_clock: bool,
    /// This kernel's own steal clock at the start and end of each activity.
    #[serde(default)]
    pub activity_steal: bool,
    /// `timer:hrtimer_start` and `timer:hrtimer_expire_entry` of the periodic tasks.
    #[serde(default)]
    pub timer: bool,
    /// Run delay of the workload's thread, as the scheduler counts it. It is used if `sched` is
    /// `false`.
    #[serde(default)]
    pub run_delay: bool,
    /// Whether some interrupt vectors have a tracepoint to which no program is attached. Interrupts
    /// on these vectors are not seen.
    #[serde(default)]
    pub hides_vectors: bool,
}

impl Witnesses {
    /// All kinds of events that a host can record about the exits of its guests.
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

    /// Returns whether the probes see all work that the kernel does for itself.
    pub fn see_kernel(&self) -> bool {
        self.irq && self.softirq && self.nmi && self.sched
    }

    /// Returns whether the probes see no work of the kernel, for instance without BPF. Then no
    /// culprit can be named.
    pub fn see_nothing(&self) -> bool {
        !(self.irq || self.softirq || self.nmi || self.sched)
    }
}

/// A thread that vmnoise observes while the thread does its own work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedThread {
    /// The kernel's thread id.
    pub tid: u32,
    /// Name of the thread at the start of the run.
    pub comm: Name,
}

/// Options of a run that affect its result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunOptions {
    /// Measured CPUs, ascending.
    pub cpus: Vec<u32>,
    /// Planned duration, in nanoseconds.
    pub duration_ns: u64,
    /// Minimum length of a recorded gap, in nanoseconds. In a run over vCPUs: minimum noise of an
    /// exit for which the run reports an event of its own.
    pub threshold_ns: u64,
    /// Length of one period of the live view, in nanoseconds.
    pub period_ns: u64,
    /// Policy of the workload's threads; `None` if inherited.
    pub priority: Option<Policy>,
    /// Number of longest gaps to list. In a run over vCPUs: number of longest exits.
    pub top: usize,
    /// Length of a gap that ends the run, in nanoseconds; `None` for no limit.
    pub stop_ns: Option<u64>,
    /// Total noise in one period that ends the run, in nanoseconds; `None` for no limit.
    #[serde(default)]
    pub stop_total_ns: Option<u64>,
    /// Time in each period for which the workload polls, in nanoseconds; `None` if it polls all the
    /// time.
    #[serde(default)]
    pub runtime_ns: Option<u64>,
    /// Whether BPF probes were requested.
    pub trace: bool,
    /// Observed threads; empty if the workload is vmnoise's own.
    #[serde(default)]
    pub observed: Vec<ObservedThread>,
    /// Filter of the requested exits; `None` if the run is not over vCPUs.
    #[serde(default)]
    pub exits: Option<ExitFilter>,
    /// Options of the periodic tasks; `None` for any other workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerOptions>,
}

impl RunOptions {
    /// Duration of a run without a requested end, in nanoseconds: one year.
    pub const FOREVER_NS: u64 = 365 * 86_400 * 1_000_000_000;

    /// Returns whether the workload polls only during part of each period.
    pub fn pauses(&self) -> bool {
        self.runtime_ns.is_some_and(|ns| ns < self.period_ns)
    }
}

/// Options of the periodic tasks. Each measured CPU has one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerOptions {
    /// Time from one expiry to the next, in nanoseconds.
    pub period_ns: u64,
    /// Delay of each CPU's expiries compared with the expiries of the previous CPU, in nanoseconds;
    /// `None` if the tasks are not aligned.
    pub aligned_ns: Option<u64>,
    /// Latency of a timer's interrupt that ends the run, in nanoseconds; `None` for no limit.
    pub stop_irq_ns: Option<u64>,
    /// Latency of a task's wake-up that ends the run, in nanoseconds; `None` for no limit.
    pub stop_thread_ns: Option<u64>,
    /// Wake-up latency limit for idle CPUs, in microseconds; `None` for no limit.
    pub dma_latency_us: Option<i32>,
}

/// Facts about a machine as its own kernel reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Host name (`uname -n`); `None` in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// Kernel release (`uname -r`).
    pub kernel: Name,
    /// Hypervisor that this machine runs on (`KVM`, `Xen`, …); `None` on bare metal.
    pub hypervisor: Option<Name>,
    /// CPU model name of /proc/cpuinfo.
    pub cpu_model: Name,
    /// CPUs that this process was allowed to use at start, ascending.
    pub allowed_cpus: Vec<u32>,
    /// Current clocksource of the kernel.
    pub clocksource: Name,
    /// Pairs of CPU number and APIC id, ascending. A hypervisor numbers vCPUs by APIC id. The list
    /// is empty if unknown, for instance in recordings before format 4.
    #[serde(default)]
    pub apic_ids: Vec<(u32, u32)>,
    /// KVM vendor module (`kvm_intel`, `kvm_amd`, `kvm_pvm`); `None` if no module is visible.
    pub kvm_module: Option<Name>,
    /// Whether KVM may use posted interrupts (VMX with APICv), whose vectors have no tracepoint;
    /// `None` if the recording has no such entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted_interrupts: Option<bool>,
    /// Settings of the machine when the run began; `None` if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// Status of one probe. A probe can get its events in several ways, which vmnoise tries from the
/// best way to the worst. The status describes the way in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStatus {
    /// Name of the probe: `irq vectors`, `steal clock of this host`, ….
    pub probe: Name,
    /// Name of the way in use, for instance `tp_btf` or `raw_tp`; `none` if the probe has no
    /// events.
    #[serde(rename = "rung")]
    pub in_use: Name,
    /// Whether the way in use is the best way.
    pub best: bool,
    /// Events that the probe cannot show; empty if none.
    pub limit: ShownLine,
    /// Remedy after which the probe would get its events in a better way; empty if there is none.
    pub remedy: ShownLine,
}

impl ProbeStatus {
    /// Returns the status of a probe that uses the best way to get its events.
    pub fn best(probe: &str, in_use: &str) -> ProbeStatus {
        ProbeStatus {
            best: true,
            ..ProbeStatus::limited(probe, in_use, "", "")
        }
    }

    /// Returns the status of a probe that has a limit. `remedy` says what to do about the limit.
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

/// Facts about a run that every result needs: the machine, the options and the probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Version of vmnoise that measured.
    pub tool_version: Name,
    /// Command that measured.
    pub workload: MeasuringCommand,
    /// Wall-clock time of the start, RFC 3339 in UTC.
    pub started_at: Name,
    /// Rank of the recording process in a parallel program, from 0, as its launcher (PMIx, Open
    /// MPI, Slurm) numbers it; `None` if there is no launcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Options of the run.
    pub options: RunOptions,
    /// Facts about the measured machine.
    pub host: HostFacts,
    /// The clock of the run.
    pub clock: ClockFacts,
    /// Kinds of events that the probes could report.
    pub witnesses: Witnesses,
    /// Status of each probe, and what the probe cannot show.
    #[serde(rename = "rungs")]
    pub probe_statuses: Vec<ProbeStatus>,
    /// Whether vmnoise's own threads (not the workload) had to share a measured CPU.
    pub shares_cpu: bool,
    /// Cycles of one `rdtsc` instruction in a bare loop on this machine.
    pub rdtsc_cycles: u64,
}

impl RunFacts {
    /// Returns whether a hypervisor is below this machine. No probe of this machine can see the
    /// hypervisor.
    pub fn layer_below_unwitnessed(&self) -> bool {
        self.host.hypervisor.is_some()
    }

    /// Returns whether a recording of vCPUs contains every exit. This holds if neither a threshold
    /// nor a filter by reasons dropped exits.
    pub fn reports_each_exit(&self) -> bool {
        let filter = self.options.exits.as_ref();
        let takes_all = filter.is_none_or(|filter| filter.reasons.is_empty());
        takes_all && self.options.threshold_ns == 0
    }

    /// Returns whether this machine may get interrupts that no probe sees. Such interrupts come on
    /// vectors without an attached program, or are posted by KVM.
    pub fn has_hidden_interrupts(&self) -> bool {
        self.witnesses.hides_vectors || self.may_have_posted_interrupts()
    }

    /// Returns whether KVM may post interrupts (VMX). No tracepoint reports posted interrupts. If
    /// the recording has no entry about this, returns `true` only for the module `kvm_intel`.
    pub fn may_have_posted_interrupts(&self) -> bool {
        let on_intel = self.host.kvm_module.as_deref() == Some("kvm_intel");
        self.host.posted_interrupts.unwrap_or(on_intel)
    }
}
