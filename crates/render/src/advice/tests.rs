//! Tests of the exact sentence for each cause.

use vmnoise_events::ActivityKind::{Irq, Softirq, Thread};
use vmnoise_events::fixtures;
use vmnoise_explain::Detail;

use super::*;

const GAP_NS: u64 = 50_000;

fn gap(parts: &[(Share, Option<&str>, u64)]) -> NamedInterval {
    NamedInterval {
        cpu: 16,
        at_ns: 0,
        start_mono_ns: 1_000_000,
        dur_ns: GAP_NS,
        detail: Detail::default(),
        parts: parts
            .iter()
            .map(|&(share, source, ns)| NamedPart {
                phase: None,
                host_cpu: None,
                share,
                source: source.map(str::to_owned).map(Into::into),
                ns,
                count: u32::from(source.is_some()),
            })
            .collect(),
    }
}

/// Returns noise from `from_us` to `to_us`, in microseconds after the start of the gap.
fn noise(kind: ActivityKind, name: &str, from_us: u64, to_us: u64) -> TraceNoise {
    TraceNoise {
        cpu: 16,
        kind,
        name: name.into(),
        start_mono_ns: 1_000_000 + from_us * 1000,
        end_mono_ns: 1_000_000 + to_us * 1000,
        net_ns: (to_us - from_us) * 1000,
    }
}

fn reported(gap: &NamedInterval, inside: &[TraceNoise], facts: &RunFacts) -> Vec<String> {
    advice(gap, &inside.iter().collect::<Vec<_>>(), facts)
}

/// Returns the advice for a gap that has a single part. An empty `source` means no source.
fn of(share: Share, source: &str) -> String {
    let source = Some(source).filter(|source| !source.is_empty());
    let reported = reported(
        &gap(&[(share, source, GAP_NS)]),
        &[],
        &fixtures::polling_facts(),
    );
    assert_eq!(reported.len(), 1, "{reported:?}");
    reported.concat()
}

/// Tests the case of the osnoise paper: a short interrupt raises a long softirq.
#[test]
fn an_interrupt_is_named_with_what_came_of_it() {
    let gap = gap(&[
        (Share::Thread, Some("ksoftirqd/16:129"), 43_000),
        (Share::Irq, Some("local_timer:236"), 3_000),
        (Share::Irq, Some("eno1:62"), 2_000),
        (Share::HvOrHw, None, 2_000),
    ]);
    let mut inside = vec![
        noise(Irq, "local_timer:236", 0, 1),
        noise(Irq, "eno1:62", 1, 3),
        noise(Softirq, "NET_RX:3", 6, 40),
        noise(Softirq, "NET_RX:3", 41, 44),
        noise(Thread, "ksoftirqd/16:129", 5, 48),
    ];
    assert_eq!(
        reported(&gap, &inside, &fixtures::polling_facts()),
        [
            "IRQ 62 (eno1) came before NET_RX in ksoftirqd/16:129 on CPU 16: write other CPUs to \
             /proc/irq/62/smp_affinity_list; if the kernel refuses, `isolcpus=managed_irq,16` at boot"
        ]
    );
    inside.remove(1);
    assert_eq!(
        reported(&gap, &inside, &fixtures::polling_facts()),
        [
            "NET_RX in ksoftirqd/16:129 ran softirqs on CPU 16, and no device interrupt came before \
             it in this gap: look earlier in the trace for an interrupt that raised them"
        ]
    );
}

#[test]
fn a_soft_interrupt_of_a_device_is_blamed_on_the_interrupt_before_it() {
    let gap = gap(&[(Share::Softirq, Some("NET_RX:3"), GAP_NS)]);
    let mut inside = vec![
        noise(Irq, "eno1:62", 1, 3),
        noise(Softirq, "NET_RX:3", 4, 40),
        noise(Irq, "eno2:63", 41, 42),
    ];
    assert_eq!(
        reported(&gap, &inside, &fixtures::polling_facts()),
        [
            "IRQ 62 (eno1) came before NET_RX:3 on CPU 16: write other CPUs to \
             /proc/irq/62/smp_affinity_list; if the kernel refuses, `isolcpus=managed_irq,16` at boot"
        ]
    );
    inside.remove(0);
    assert_eq!(
        reported(&gap, &inside, &fixtures::polling_facts()),
        [
            "NET_RX:3 ran on CPU 16, and no device interrupt came before it in this gap: look \
             earlier in the trace for an interrupt that raised it"
        ]
    );
}

#[test]
fn every_cause_has_its_sentence() {
    for (share, source, sentence) in [
        (
            Share::Irq,
            "eno1:62",
            "IRQ 62 (eno1) interrupted CPU 16: write other CPUs to /proc/irq/62/smp_affinity_list; if the kernel refuses, `isolcpus=managed_irq,16` at boot",
        ),
        (
            Share::Irq,
            "local_timer:236",
            "the tick or a timer (local_timer:236) interrupted CPU 16: `nohz_full=16` on the kernel command line stops the tick while one task runs there",
        ),
        (
            Share::Irq,
            "reschedule:253",
            "another CPU sent work to CPU 16 (reschedule:253): keep other tasks off it with `isolcpus=domain,16` or an isolated cpuset partition",
        ),
        (
            Share::Irq,
            "error_apic:254",
            "error_apic:254 belongs to no device and cannot be moved off CPU 16",
        ),
        (
            Share::Softirq,
            "TIMER:1",
            "timers of CPU 16 expired (TIMER:1): keep the tasks that set them off this CPU; `nohz_full=16` at boot moves unpinned timers to other CPUs",
        ),
        (
            Share::Softirq,
            "SCHED:7",
            "the scheduler balanced load on CPU 16 (SCHED:7): exclude the CPU with `isolcpus=domain,16` or an isolated cpuset partition",
        ),
        (
            Share::Softirq,
            "RCU:9",
            "RCU callbacks ran on CPU 16 (RCU:9): `rcu_nocbs=16` on the kernel command line moves them to threads that can run elsewhere",
        ),
        (
            Share::Thread,
            "rcuc/16:130",
            "RCU callbacks ran on CPU 16 (rcuc/16:130): `rcu_nocbs=16` on the kernel command line moves them to threads that can run elsewhere",
        ),
        (
            Share::Thread,
            "rcuop/16:131",
            "rcuop/16:131 may run on any CPU: `taskset -pc LIST 131` with a list without CPU 16",
        ),
        (
            Share::Thread,
            "kworker/u40:2:77",
            "kworker/u40:2:77 does work that is not bound to a CPU: write a mask without CPU 16 to /sys/devices/virtual/workqueue/cpumask",
        ),
        (
            Share::Thread,
            "kworker/16:1:78",
            "kworker/16:1:78 does work that was queued for CPU 16 only: find its function with the tracepoint workqueue:workqueue_queue_work, and keep the task that queues it off CPU 16",
        ),
        (
            Share::Thread,
            "migration/16:99",
            "migration/16:99 moved a task, or stopped the CPU for another CPU: move no tasks to or from CPU 16, and change no affinities there",
        ),
        (
            Share::Thread,
            "irq/62-eno1:400",
            "IRQ 62 (eno1) ran its thread irq/62-eno1:400 on CPU 16: write other CPUs to /proc/irq/62/smp_affinity_list; if the kernel refuses, `isolcpus=managed_irq,16` at boot",
        ),
        (
            Share::Thread,
            "stress-ng:4711",
            "stress-ng:4711 ran on CPU 16: pin it elsewhere (`taskset -pc LIST 4711`), or reserve the CPU with `isolcpus=domain,16` or an isolated cpuset partition",
        ),
        (
            Share::Nmi,
            "NMI",
            "NMIs interrupted CPU 16: run `sysctl kernel.nmi_watchdog=0`, and stop perf if it samples",
        ),
        (
            Share::Blocked,
            "kswapd0:80",
            "the measured thread itself slept until kswapd0:80 woke it: look there for the cause",
        ),
        (
            Share::Hw,
            "",
            "no kernel activity lies in the residual, so it belongs to the hardware or its firmware: compare the SMI count before and after (`turbostat --show SMI`), and check power management in the firmware's settings",
        ),
        (
            Share::HvOrHw,
            "",
            "the residual may be work of this kernel that this run could not trace: `vmnoise doctor` names the missing probes",
        ),
    ] {
        assert_eq!(of(share, source), sentence);
    }
}

#[test]
fn what_lies_below_is_reported_as_far_as_it_is_known() {
    let mut facts = fixtures::polling_facts();
    facts.host.hypervisor = Some("KVM".into());
    let gap = gap(&[(Share::Steal, None, 30_000), (Share::HvOrHw, None, 20_000)]);
    assert_eq!(
        reported(&gap, &[], &facts),
        [
            "the host of this KVM guest gave the CPU to another task: give this vCPU its own CPU \
             there; `vmnoise microvm` on that CPU names the task",
            "the residual belongs to the hypervisor (KVM) or to the hardware, and a guest cannot \
             distinguish them: measure on the host"
        ]
    );
}

#[test]
fn throttling_depends_on_the_policy() {
    let gap = gap(&[(Share::Throttled, Some("idle"), GAP_NS)]);
    let mut facts = fixtures::polling_facts();
    for (priority, sentence) in [
        (
            Some(Policy::Fifo(50)),
            "the kernel throttled real-time tasks; poll less of each period (-r). Or, if everything else can run on other CPUs, run `sysctl kernel.sched_rt_runtime_us=-1`: a real-time task that never sleeps then keeps its CPU until the machine is reset",
        ),
        (
            Some(Policy::Other(0)),
            "its cgroup has a quota; check cpu.max there",
        ),
        (
            None,
            "check the quota of its cgroup (cpu.max) and of real-time tasks (kernel.sched_rt_runtime_us)",
        ),
    ] {
        facts.options.priority = priority;
        let reported = reported(&gap, &[], &facts);
        let sentence =
            format!("the measured thread was ready to run, but the CPU was idle: {sentence}");
        assert_eq!(reported, [sentence]);
    }
}

#[test]
fn small_parts_are_left_alone() {
    let parts = [
        (Share::Irq, Some("eno1:62"), 46_000),
        (Share::Thread, Some("sh:7"), 4_000),
    ];
    assert_eq!(
        reported(&gap(&parts), &[], &fixtures::polling_facts()).len(),
        1
    );
}
