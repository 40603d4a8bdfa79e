//! Advice on a gap. Each sentence follows only from the evidence about this gap.

use vmnoise_events::{ActivityKind, Policy, RunFacts, Share};
use vmnoise_explain::{NamedInterval, NamedPart, TraceNoise};

/// Length from which a part of the gap gets advice, in percent of the gap.
const WORTH_PERCENT: u64 = 10;

/// Names of interrupts that belong to no device (arch/x86/include/asm/trace/irq_vectors.h).
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

/// Returns one sentence of advice for each large part of the gap, largest part first. Equal
/// sentences appear once. `inside` contains the noise that overlaps the gap, ordered by end.
pub fn advice(gap: &NamedInterval, inside: &[&TraceNoise], facts: &RunFacts) -> Vec<String> {
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

/// Splits `name:number` at the last colon. Without a colon, the number is `?`.
fn split(source: &str) -> (&str, &str) {
    source.rsplit_once(':').unwrap_or((source, "?"))
}

/// Gap, the noise that overlaps it, and the facts of its run.
struct Case<'a> {
    gap: &'a NamedInterval,
    inside: &'a [&'a TraceNoise],
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
                "other threads had the CPU: run as root, so that BPF can name them".into()
            }
            Share::Thread => self.thread(source),
            Share::Steal => self.steal(),
            Share::Throttled => self.throttled(),
            Share::Blocked => format!(
                "the measured thread itself slept until {source} woke it: look there for the cause"
            ),
            Share::Hw => hw(),
            Share::HvOrHw => self.hv_or_hw(),
            Share::Unexplained if self.facts.witnesses.see_nothing() => {
                "this kernel was not traced, so the rest has no known cause: run as root".into()
            }
            Share::Unexplained => {
                "the unexplained time lies around the activities above: avoid them, and it goes too"
                    .into()
            }
            share => format!(
                "`{share}` is work of the host ({source}): keep it off CPU {}",
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
                "another CPU sent work to CPU {cpu} ({source}): keep other tasks off it with `isolcpus=domain,{cpu}` or an isolated cpuset partition"
            ),
            "call_function" | "call_function_single" => format!(
                "another CPU made CPU {cpu} run a function ({source}), for example to unmap shared memory or to patch kernel code: keep processes that run on CPU {cpu} off all other CPUs"
            ),
            "irq_work" => format!(
                "an event on CPU {cpu} deferred its work to this interrupt ({source}): stop perf and tracers on this CPU"
            ),
            "thermal_apic" => format!(
                "the processor of CPU {cpu} reported its temperature ({source}): check its cooling and power limits"
            ),
            _ => format!("{source} belongs to no device and cannot be moved off CPU {cpu}"),
        }
    }

    /// Returns the advice to move a device's interrupt to other CPUs. `did` is the verb of the
    /// sentence: how the interrupt disturbed this CPU.
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
                "timers of CPU {cpu} expired ({source}): keep the tasks that set them off this CPU; `nohz_full={cpu}` at boot moves unpinned timers to other CPUs"
            ),
            "SCHED" => format!(
                "the scheduler balanced load on CPU {cpu} ({source}): exclude the CPU with `isolcpus=domain,{cpu}` or an isolated cpuset partition"
            ),
            "RCU" => rcu(source, cpu),
            _ => match self.device_before(begin_ns) {
                Some(irq) => self.move_irq(irq, &format!("came before {source} on")),
                None => format!(
                    "{source} ran on CPU {cpu}, and no device interrupt came before it in this gap: look earlier in the trace for an interrupt that raised it"
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
                "{source} does work that is not bound to a CPU: write a mask without CPU {cpu} to /sys/devices/virtual/workqueue/cpumask"
            ),
            "kworker" => format!(
                "{source} does work that was queued for CPU {cpu} only: find its function with the tracepoint workqueue:workqueue_queue_work, and keep the task that queues it off CPU {cpu}"
            ),
            "rcuc" => rcu(source, cpu),
            "rcuop" | "rcuos" | "rcuog" | "rcu_preempt" | "rcu_sched" => format!(
                "{source} may run on any CPU: `taskset -pc LIST {pid}` with a list without CPU {cpu}"
            ),
            "migration" => format!(
                "{source} moved a task, or stopped the CPU for another CPU: move no tasks to or from CPU {cpu}, and change no affinities there"
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

    /// Returns the advice for ksoftirqd. This thread runs softirqs that other code has raised, so
    /// the sentence names the device interrupt before it.
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
                "{what} ran softirqs on CPU {cpu}, and no device interrupt came before it in this gap: look earlier in the trace for an interrupt that raised them"
            ),
        }
    }

    /// Returns the names of the softirqs that ran while `thread` had the CPU, without duplicates.
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

    /// Returns the last device interrupt of this gap that had ended by `begin_ns`.
    fn device_before(&self, begin_ns: Option<u64>) -> Option<&str> {
        let before = self.inside.iter().rev().find(|noise| {
            noise.kind == ActivityKind::Irq
                && is_device(&noise.name)
                && begin_ns.is_some_and(|begin_ns| noise.end_mono_ns <= begin_ns)
        });
        before.map(|noise| &*noise.name)
    }

    fn begin_of(&self, kind: ActivityKind, name: &str) -> Option<u64> {
        // If the activity ran several times in the gap, its longest run counts as the cause.
        let longest = self.named(kind, name).max_by_key(|noise| noise.net_ns);
        longest.map(|noise| noise.start_mono_ns)
    }

    fn named(&self, kind: ActivityKind, name: &str) -> impl Iterator<Item = &TraceNoise> {
        let noise = self.inside.iter().copied();
        noise.filter(move |noise| noise.kind == kind && *noise.name == *name)
    }

    fn nmi(&self) -> String {
        format!(
            "NMIs interrupted CPU {}: run `sysctl kernel.nmi_watchdog=0`, and stop perf if it samples",
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
            "the host of this {hypervisor} guest gave the CPU to another task: give this vCPU its own CPU there; `vmnoise microvm` on that CPU names the task"
        )
    }

    fn throttled(&self) -> String {
        let stood = "the measured thread was ready to run, but the CPU was idle";
        match self.facts.options.priority {
            Some(Policy::Fifo(_) | Policy::RoundRobin(_)) => format!(
                "{stood}: the kernel throttled real-time tasks; poll less of each period (-r). Or, if everything else can run on other CPUs, run `sysctl kernel.sched_rt_runtime_us=-1`: a real-time task that never sleeps then keeps its CPU until the machine is reset"
            ),
            Some(Policy::Other(_)) => {
                format!("{stood}: its cgroup has a quota; check cpu.max there")
            }
            _ => format!(
                "{stood}: check the quota of its cgroup (cpu.max) and of real-time tasks (kernel.sched_rt_runtime_us)"
            ),
        }
    }

    fn hv_or_hw(&self) -> String {
        match &self.facts.host.hypervisor {
            Some(name) => format!(
                "the residual belongs to the hypervisor ({name}) or to the hardware, and a guest cannot distinguish them: measure on the host"
            ),
            None => "the residual may be work of this kernel that this run could not trace: `vmnoise doctor` names the missing probes".into(),
        }
    }
}

fn rcu(source: &str, cpu: u32) -> String {
    format!(
        "RCU callbacks ran on CPU {cpu} ({source}): `rcu_nocbs={cpu}` on the kernel command line moves them to threads that can run elsewhere"
    )
}

fn hw() -> String {
    "no kernel activity lies in the residual, so it belongs to the hardware or its firmware: compare the SMI count before and after (`turbostat --show SMI`), and check power management in the firmware's settings".into()
}

fn is_device(irq: &str) -> bool {
    !VECTORS.contains(&split(irq).0)
}

#[cfg(test)]
mod tests;
