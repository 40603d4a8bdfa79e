//! Advice for a gap: sentences that follow only from the evidence about this gap.

use vmnoise_events::{ActivityKind, Policy, RunFacts, Share};
use vmnoise_explain::{NamedInterval, NamedPart, Noise};

/// Least part of the gap, in percent, for which a change is suggested.
const WORTH_PERCENT: u64 = 10;

/// Interrupts that belong to no device (arch/x86/include/asm/trace/irq_vectors.h).
const VECTORS: [&str; 11] = [
    "local_timer",
    "x86_platform_ipi",
    "call_function",
    "call_function_single",
    "reschedule",
    "error_apic",
    "spurious_apic",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
    "irq_work",
];

/// Returns a sentence for each cause of a large part of the gap, largest first. `inside` is the
/// noise that overlaps the gap, ordered by end.
pub fn advice(gap: &NamedInterval, inside: &[&Noise], facts: &RunFacts) -> Vec<String> {
    let case = Case { gap, inside, facts };
    let worth = |part: &&NamedPart| {
        u128::from(part.ns) * 100 >= u128::from(gap.dur_ns) * u128::from(WORTH_PERCENT)
    };
    let mut sentences: Vec<String> = Vec::new();
    for sentence in gap.parts.iter().filter(worth).map(|part| case.of(part)) {
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// Splits `name:number` into `(name, number)`.
fn split(source: &str) -> (&str, &str) {
    source.rsplit_once(':').unwrap_or((source, "?"))
}

/// Gap with the evidence about it.
struct Case<'a> {
    gap: &'a NamedInterval,
    inside: &'a [&'a Noise],
    facts: &'a RunFacts,
}

impl Case<'_> {
    fn of(&self, part: &NamedPart) -> String {
        let source = part.source.as_deref().unwrap_or("unknown");
        match part.share {
            Share::Nmi => self.nmi(),
            Share::Irq => self.irq(source),
            Share::Softirq => self.softirq(source),
            Share::Thread if part.source.is_none() => {
                "other threads had the CPU: run as root, and BPF names them".into()
            }
            Share::Thread => self.thread(source),
            Share::Steal => self.steal(),
            Share::Throttled => self.throttled(),
            Share::Blocked => format!(
                "the measured thread itself slept until {source} woke it: look there for what it waited for"
            ),
            Share::Hw => hw(),
            Share::HvOrHw => self.hv_or_hw(),
            Share::Unexplained if self.facts.witnesses.see_nothing() => {
                "nothing of this kernel was seen, so the rest may be anybody's: run as root".into()
            }
            Share::Unexplained => {
                "what is unexplained lies around the activities above and goes with them".into()
            }
            share => format!(
                "`{share}` is the host's work, {source}: keep it off CPU {}",
                self.gap.cpu
            ),
        }
    }

    fn irq(&self, source: &str) -> String {
        let cpu = self.gap.cpu;
        let (name, _) = split(source);
        match name {
            _ if is_device(source) => self.move_irq(source, "interrupted"),
            "local_timer" => format!(
                "the tick or a timer ({source}) interrupted CPU {cpu}: `nohz_full={cpu}` on the kernel command line stops the tick while one task runs there"
            ),
            "reschedule" => format!(
                "another CPU sent work to CPU {cpu} ({source}): keep other tasks off it, `isolcpus=domain,{cpu}` or an isolated cpuset partition"
            ),
            "call_function" | "call_function_single" => format!(
                "another CPU had CPU {cpu} run a function for it ({source}), as unmapping shared memory and patching kernel code do: keep threads of processes that run on CPU {cpu} from other CPUs"
            ),
            "irq_work" => format!(
                "work deferred by an event on CPU {cpu} itself ({source}): end perf and tracers that watch it"
            ),
            "thermal_apic" => format!(
                "the processor of CPU {cpu} reported its temperature ({source}): look at its cooling and power limits"
            ),
            _ => format!("{source} belongs to no device and cannot be moved off CPU {cpu}"),
        }
    }

    /// Returns the advice for the interrupt of a device; `did` says how it took part in the gap.
    fn move_irq(&self, source: &str, did: &str) -> String {
        let cpu = self.gap.cpu;
        let (name, number) = split(source);
        format!(
            "IRQ {number} ({name}) {did} CPU {cpu}: write other CPUs to /proc/irq/{number}/smp_affinity_list; if the kernel refuses, `isolcpus=managed_irq,{cpu}` at boot"
        )
    }

    fn softirq(&self, source: &str) -> String {
        let cpu = self.gap.cpu;
        let (name, _) = split(source);
        let begin_ns = self.begin_of(ActivityKind::Softirq, source);
        match name {
            "TIMER" | "HRTIMER" => format!(
                "timers of CPU {cpu} expired ({source}): keep the tasks that arm them off it; `nohz_full={cpu}` at boot moves unpinned ones to other CPUs"
            ),
            "SCHED" => format!(
                "the scheduler balanced load on CPU {cpu} ({source}): `isolcpus=domain,{cpu}` or an isolated cpuset partition takes it out of that"
            ),
            "RCU" => rcu(source, cpu),
            _ => match self.device_before(begin_ns) {
                Some(irq) => self.move_irq(irq, &format!("came before {source} on")),
                None => format!(
                    "{source} ran on CPU {cpu}, and no device interrupt came before it in this gap: what raised it is earlier in the trace, if it was an interrupt"
                ),
            },
        }
    }

    fn thread(&self, source: &str) -> String {
        let cpu = self.gap.cpu;
        let (comm, pid) = split(source);
        let family = comm.split('/').next().unwrap_or(comm);
        match family {
            "ksoftirqd" => self.ksoftirqd(source),
            "kworker" if comm.starts_with("kworker/u") => format!(
                "{source} does work that is bound to no CPU: write a mask without CPU {cpu} to /sys/devices/virtual/workqueue/cpumask"
            ),
            "kworker" => format!(
                "{source} does work that was queued on CPU {cpu} for it alone: the tracepoint workqueue:workqueue_queue_work names the function; keep what queues it off CPU {cpu}"
            ),
            "rcuc" => rcu(source, cpu),
            "rcuop" | "rcuos" | "rcuog" | "rcu_preempt" | "rcu_sched" => format!(
                "{source} may run anywhere: `taskset -pc LIST {pid}` with a list of other CPUs than {cpu}"
            ),
            "migration" => format!(
                "{source} moved a task or stopped the CPU for another: keep tasks and changes of affinities away from CPU {cpu}"
            ),
            "irq" => {
                let rest = comm.strip_prefix("irq/").unwrap_or(comm);
                let (number, name) = rest.split_once('-').unwrap_or((rest, "?"));
                self.move_irq(
                    &format!("{name}:{number}"),
                    &format!("ran its thread {source} on"),
                )
            }
            _ => format!(
                "{source} ran on CPU {cpu}: pin it elsewhere (`taskset -pc LIST {pid}`), or reserve the CPU with `isolcpus=domain,{cpu}` or an isolated cpuset partition"
            ),
        }
    }

    /// Returns the advice for ksoftirqd, which runs softirqs that others have raised.
    fn ksoftirqd(&self, source: &str) -> String {
        let cpu = self.gap.cpu;
        let softirqs = self.softirqs_in(source);
        let what = match softirqs.is_empty() {
            true => source.to_owned(),
            false => format!("{} in {source}", softirqs.join(", ")),
        };
        match self.device_before(self.begin_of(ActivityKind::Thread, source)) {
            Some(irq) => self.move_irq(irq, &format!("came before {what} on")),
            None => format!(
                "{what} worked off soft interrupts on CPU {cpu}, and no device interrupt came before it in this gap: what raised them is earlier in the trace"
            ),
        }
    }

    /// Returns the names of the softirqs that ran while this thread had the CPU, each once.
    fn softirqs_in(&self, thread: &str) -> Vec<&str> {
        let mut found = Vec::new();
        for turn in self.named(ActivityKind::Thread, thread) {
            let nested = self.inside.iter().filter(|noise| {
                noise.kind == ActivityKind::Softirq
                    && noise.start_mono_ns >= turn.start_mono_ns
                    && noise.end_mono_ns <= turn.end_mono_ns
            });
            for softirq in nested.map(|noise| split(&noise.name).0) {
                if !found.contains(&softirq) {
                    found.push(softirq);
                }
            }
        }
        found
    }

    /// Returns the last device interrupt of this gap that ended before `begin_ns`.
    fn device_before(&self, begin_ns: Option<u64>) -> Option<&str> {
        let before = self.inside.iter().rev().find(|noise| {
            noise.kind == ActivityKind::Irq
                && is_device(&noise.name)
                && begin_ns.is_some_and(|begin_ns| noise.end_mono_ns <= begin_ns)
        });
        before.map(|noise| &*noise.name)
    }

    fn begin_of(&self, kind: ActivityKind, name: &str) -> Option<u64> {
        // The longest turn is the main cause of the gap.
        let longest = self.named(kind, name).max_by_key(|noise| noise.net_ns);
        longest.map(|noise| noise.start_mono_ns)
    }

    fn named(&self, kind: ActivityKind, name: &str) -> impl Iterator<Item = &Noise> {
        let noise = self.inside.iter().copied();
        noise.filter(move |noise| noise.kind == kind && *noise.name == *name)
    }

    fn nmi(&self) -> String {
        format!(
            "non-maskable interrupts hit CPU {}: `sysctl kernel.nmi_watchdog=0`, and end perf where it samples",
            self.gap.cpu
        )
    }

    fn steal(&self) -> String {
        let hypervisor = self
            .facts
            .host
            .hypervisor
            .as_deref()
            .unwrap_or("hypervisor");
        format!(
            "the host of this {hypervisor} guest gave the CPU to somebody else: there, give this vCPU a CPU of its own; `vmnoise microvm` on that CPU says who takes it"
        )
    }

    fn throttled(&self) -> String {
        let stood = "the measured thread could run and the CPU stood idle";
        match self.facts.options.priority {
            Some(Policy::Fifo(_) | Policy::RoundRobin(_)) => format!(
                "{stood}: real-time throttling of its policy; poll less of each period (-r), or, if other CPUs are left for all else that has to run, `sysctl kernel.sched_rt_runtime_us=-1`: a real-time task that never sleeps then has its CPU until the machine is reset"
            ),
            Some(Policy::Other(_)) => {
                format!("{stood}: a quota of its cgroup; look at cpu.max there")
            }
            _ => format!(
                "{stood}: a quota of its cgroup (cpu.max), or of its real-time policy (kernel.sched_rt_runtime_us)"
            ),
        }
    }

    fn hv_or_hw(&self) -> String {
        match &self.facts.host.hypervisor {
            Some(name) => format!(
                "the residual is the hypervisor's ({name}) or the hardware's, and from inside a guest nobody can know which: measure on the host"
            ),
            None => "the residual may be this kernel's own work, which this run could not see: `vmnoise doctor` says what would show it".into(),
        }
    }
}

fn rcu(source: &str, cpu: u32) -> String {
    format!(
        "callbacks of RCU ran on CPU {cpu} ({source}): `rcu_nocbs={cpu}` on the kernel command line hands them to threads that can run elsewhere"
    )
}

fn hw() -> String {
    "nothing that a kernel does lies in the residual: it is the hardware or its firmware; compare the SMI count before and after (`turbostat --show SMI`), and look for power management in the firmware's settings".into()
}

fn is_device(irq: &str) -> bool {
    !VECTORS.contains(&split(irq).0)
}

#[cfg(test)]
mod tests;
