//! Facts about the machine and the run, known before the first event.

use serde::{Deserialize, Serialize};

use crate::{ClockFacts, ExitFilter, Name, Policy, Settings, ShownLine};

/// The command that measured. Files and documents use other names for some commands, because the
/// names there are older than the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuringCommand {
    /// `vmnoise microvm`: a guest of vmnoise on /dev/kvm. The gaps are those of this guest, and the
    /// probes run on its host.
    Microvm,
    /// `vmnoise osnoise`: a polling thread on each CPU. The gaps are those of this machine, which
    /// may be a guest.
    #[serde(rename = "spin")]
    Osnoise,
    /// `osnoise --pid`: threads of other programs were observed. Their gaps are derived from the
    /// events on their CPUs.
    Observed,
    /// No workload: the kernel reports the exits of this host's vCPUs.
    #[serde(rename = "vcpus")]
    Exits,
    /// A thread on each CPU that repeatedly sleeps until a given time. It yields no gaps but
    /// wake-up latencies.
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

    /// Returns whether the probes run on the host of the measured system, not in its own kernel.
    pub const fn is_witnessed_by_host(self) -> bool {
        match self {
            MeasuringCommand::Microvm | MeasuringCommand::Exits => true,
            MeasuringCommand::Osnoise | MeasuringCommand::Observed | MeasuringCommand::Timerlat => {
                false
            }
        }
    }
}

/// Events that this run could see. A share whose events are missing is unknown.
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
    /// The hypervisor's steal clock, as the workload reads it.
    pub steal_clock: bool,
    /// This kernel's own steal clock at the start and end of each activity.
    #[serde(default)]
    pub activity_steal: bool,
    /// `timer:hrtimer_start` and `timer:hrtimer_expire_entry` of the periodic tasks.
    #[serde(default)]
    pub timer: bool,
    /// The scheduler's own run delay of the workload's thread, used if `sched` is missing.
    #[serde(default)]
    pub run_delay: bool,
    /// Whether interrupt vectors have a tracepoint without an attached program; such interrupts
    /// stay unseen.
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

    /// Returns whether all work that the kernel does for itself is seen.
    pub fn see_kernel(&self) -> bool {
        self.irq && self.softirq && self.nmi && self.sched
    }

    /// Returns whether no such work is seen, as without BPF: no culprit can be named.
    pub fn see_nothing(&self) -> bool {
        !(self.irq || self.softirq || self.nmi || self.sched)
    }
}

/// A thread that is observed while it does its own work.
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
    /// Planned duration.
    pub duration_ns: u64,
    /// Minimum length of a recorded gap. In a run over vCPUs: minimum noise of an exit that is
    /// reported individually.
    pub threshold_ns: u64,
    /// Length of one period of the live view.
    pub period_ns: u64,
    /// Policy of the workload's threads; `None` if inherited.
    pub priority: Option<Policy>,
    /// Number of longest gaps, or exits of vCPUs, to list.
    pub top: usize,
    /// Gap length that ends the run.
    pub stop_ns: Option<u64>,
    /// Noise in one period that ends the run.
    #[serde(default)]
    pub stop_total_ns: Option<u64>,
    /// Time in each period for which the workload polls; `None` if it polls all the time.
    #[serde(default)]
    pub runtime_ns: Option<u64>,
    /// Whether BPF probes were requested.
    pub trace: bool,
    /// Observed threads; empty if the workload is our own.
    #[serde(default)]
    pub observed: Vec<ObservedThread>,
    /// Requested exits; `None` if the run is not over vCPUs.
    #[serde(default)]
    pub exits: Option<ExitFilter>,
    /// Options of the periodic tasks; `None` for another workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerOptions>,
}

impl RunOptions {
    /// Duration of a run without a requested end: one year.
    pub const FOREVER_NS: u64 = 365 * 86_400 * 1_000_000_000;

    /// Returns whether the workload polls only during part of each period.
    pub fn pauses(&self) -> bool {
        self.runtime_ns.is_some_and(|ns| ns < self.period_ns)
    }
}

/// Periodic tasks, one on each CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerOptions {
    /// Time from one expiry to the next.
    pub period_ns: u64,
    /// Delay of each CPU's timer expiries after those of the previous CPU; `None` if they are not
    /// aligned.
    pub aligned_ns: Option<u64>,
    /// Lateness of a timer's interrupt that ends the run.
    pub stop_irq_ns: Option<u64>,
    /// Lateness of a task's switch-in that ends the run.
    pub stop_thread_ns: Option<u64>,
    /// Wake-up latency limit for idle CPUs, in microseconds; `None` for no limit.
    pub dma_latency_us: Option<i32>,
}

/// Description of a machine by its own kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Host name (`uname -n`); `None` in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// `uname -r`.
    pub kernel: Name,
    /// The hypervisor this machine runs on (`KVM`, `Xen`, …); `None` on bare metal.
    pub hypervisor: Option<Name>,
    /// CPU model name of /proc/cpuinfo.
    pub cpu_model: Name,
    /// CPUs that this process was allowed to use at start, ascending.
    pub allowed_cpus: Vec<u32>,
    /// Current clocksource of the kernel.
    pub clocksource: Name,
    /// Pairs of CPU number and APIC id, ascending. A hypervisor numbers vCPUs by APIC id. Empty if
    /// unknown, as in recordings before format 4.
    #[serde(default)]
    pub apic_ids: Vec<(u32, u32)>,
    /// The KVM vendor module (`kvm_intel`, `kvm_amd`, `kvm_pvm`), if visible.
    pub kvm_module: Option<Name>,
    /// Whether KVM may use posted interrupts (VMX with APICv), whose vectors have no tracepoint;
    /// `None` in recordings that lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted_interrupts: Option<bool>,
    /// Settings of the machine when the run began; `None` if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// Status of one probe. A probe has several ways to get its events, from the best way to none; this
/// is the way in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStatus {
    /// Name of the probe: `irq vectors`, `steal clock of this host`, ….
    pub probe: Name,
    /// The link in use: `tp_btf`, `raw_tp`, `none`, ….
    #[serde(rename = "rung")]
    pub in_use: Name,
    /// Whether this link is the best of the chain.
    pub best: bool,
    /// Events that the probe cannot show; empty if none.
    pub limit: ShownLine,
    /// Remedy that would attach the probe better; empty if none.
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

    /// Returns the status of a probe with a limit, and the remedy.
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
    /// Version of the vmnoise that measured.
    pub tool_version: Name,
    /// Command that measured.
    pub workload: MeasuringCommand,
    /// Wall-clock start, RFC 3339 in UTC.
    pub started_at: Name,
    /// Rank of the recording process in a parallel program, from 0, as numbered by its launcher
    /// (PMIx, Open MPI, Slurm); `None` if there is no launcher.
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
    /// Whether the tool's own threads had to share a measured CPU.
    pub shares_cpu: bool,
    /// Cycles of one `rdtsc` in a bare loop on this machine.
    pub rdtsc_cycles: u64,
}

impl RunFacts {
    /// Returns whether a hypervisor lies under this machine: a layer that no probe here can see.
    pub fn layer_below_unwitnessed(&self) -> bool {
        self.host.hypervisor.is_some()
    }

    /// Returns whether a recording of vCPUs has every exit: no threshold and no choice of reasons
    /// dropped any.
    pub fn reports_each_exit(&self) -> bool {
        let filter = self.options.exits.as_ref();
        let takes_all = filter.is_none_or(|filter| filter.reasons.is_empty());
        takes_all && self.options.threshold_ns == 0
    }

    /// Returns whether this machine may get interrupts that no program sees, over vectors without a
    /// program or posted by KVM.
    pub fn has_hidden_interrupts(&self) -> bool {
        self.witnesses.hides_vectors || self.may_have_posted_interrupts()
    }

    /// Returns whether KVM may post interrupts (VMX). No tracepoint reports posted interrupts. If a
    /// recording does not say, returns true only for Intel's module.
    pub fn may_have_posted_interrupts(&self) -> bool {
        let on_intel = self.host.kvm_module.as_deref() == Some("kvm_intel");
        self.host.posted_interrupts.unwrap_or(on_intel)
    }
}
