//! Tests of the reported records: their tasks, CPUs and order.

use vmnoise_events::{ActivityKind, Event, Share, VcpuIntervalKind as Kind};

use super::harness::{CPUID, HLT, Handlers, IDLE, IO, SLEEPS, TASK, VCPU};

/// A task other than `TASK`, on another CPU.
const OTHER: u64 = 8;

fn name(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_vcpu_is_defined_once_and_before_its_first_use() {
    let handlers = Handlers::entered();
    for start in [2_000, 3_000] {
        handlers.run("exit", 0, start, &[VCPU, IO]);
        handlers.run("run_leave", 0, start + 100, &[VCPU]);
        handlers.run("run_enter", 0, start + 300, &[VCPU]);
        handlers.run("entry", 0, start + 500, &[VCPU]);
    }
    let reported = handlers.reported();
    assert!(matches!(&reported[0], Event::Vcpu(vcpu) if vcpu.tid == VCPU as u32));
    assert!(
        matches!(reported[1], Event::VcpuInterval(_)),
        "{reported:?}"
    );
    assert!(matches!(reported[2], Event::Exit(_)), "{reported:?}");
    assert_eq!(reported.len(), 5);
    let vmm = (Kind::Vmm, [0, 0], 2_100, 2_300, None);
    assert_eq!(handlers.intervals()[0], vmm);
    let exit = handlers.exits(1)[1].exit;
    assert_eq!((exit.start_mono_ns, exit.end_mono_ns), (3_000, 3_500));
    assert_eq!((exit.reason.name(), exit.heavy), ("io".into(), true));
    assert_eq!((exit.split[Share::Vmm], exit.split[Share::Kvm]), (200, 300));
}

#[test]
fn every_stay_in_the_vmm_is_reported() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, IO]);
    for left in [2_100, 2_400, 2_800] {
        handlers.run("run_leave", 0, left, &[VCPU]);
        handlers.run("run_enter", 0, left + 200, &[VCPU]);
    }
    handlers.run("entry", 0, 3_100, &[VCPU]);
    let stays = [2_100, 2_400, 2_800].map(|left| (Kind::Vmm, [0, 0], left, left + 200, None));
    assert_eq!(handlers.intervals(), stays);
    assert_eq!(handlers.vcpu(1).split[Share::Vmm], 600);
}

#[test]
fn exits_below_the_threshold_are_counted_and_not_reported() {
    let handlers = Handlers::of(false, 500, 1 << 16);
    handlers.run("entry", 0, 1_000, &[VCPU]);
    for (start, end, halted) in [(2_000, 2_499, 0), (3_000, 3_500, 0), (4_000, 9_000, 4_501)] {
        handlers.run("exit", 0, start, &[VCPU, CPUID]);
        if halted > 0 {
            handlers.run("halted", 0, end, &[halted, 0]);
        }
        handlers.run("entry", 0, end, &[VCPU]);
    }
    let starts: Vec<u64> = handlers
        .exits(1)
        .iter()
        .map(|it| it.exit.start_mono_ns)
        .collect();
    assert_eq!(starts, [3_000]);
    assert_eq!(handlers.counted(1).exits, 3);
}

#[test]
fn a_preemption_is_reported_by_who_it_was_and_on_which_cpu() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x60]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    handlers.run("irq_entry", 0, 2_200, &[]);
    handlers.run("irq_exit", 0, 2_250, &[]);
    handlers.run("softirq_entry", 0, 2_300, &[3]);
    handlers.run("nmi", 0, 2_330, &[10]);
    handlers.run("softirq_exit", 0, 2_350, &[3]);
    handlers.run("switch", 0, 3_000, &[0, SLEEPS, TASK, IDLE]);
    handlers.run("switch", 0, 3_500, &[0, 0, IDLE, VCPU]);
    handlers.run("entry", 0, 3_600, &[VCPU]);
    // No vCPU waits for this CPU.
    handlers.run("switch", 0, 3_700, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("switch", 0, 3_800, &[0, SLEEPS, TASK, IDLE]);
    assert_eq!(
        handlers.activities(),
        [
            (ActivityKind::Irq, 0, 2_200, 2_250, "local_timer:236".into()),
            (ActivityKind::Nmi, 0, 2_320, 2_330, "NMI".into()),
            (ActivityKind::Softirq, 0, 2_300, 2_350, "NET_RX:3".into()),
            (ActivityKind::Thread, 0, 2_100, 3_000, "task:7".into()),
            (ActivityKind::Throttled, 0, 3_000, 3_500, "idle".into()),
        ]
    );
    let waiting = (Kind::Waiting, [0, 0], 2_100, 3_500, None);
    assert_eq!(handlers.intervals(), [waiting]);
    handlers.vcpu(1);
}

#[test]
fn a_sleep_is_reported_by_who_ended_it() {
    for (in_irq, waker) in [(false, "task:9"), (true, "local_timer:236")] {
        let handlers = Handlers::entered();
        handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
        handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, TASK]);
        if in_irq {
            handlers.run("irq_entry", 1, 2_500, &[]);
        }
        handlers.run("waking", 1, 2_600, &[VCPU, 9]);
        handlers.run("switch", 0, 3_000, &[0, 0, TASK, VCPU]);
        handlers.run("entry", 0, 3_100, &[VCPU]);
        assert_eq!(
            handlers.intervals(),
            [
                (Kind::Blocked, [0, 0], 2_100, 2_600, name(waker)),
                (Kind::Waiting, [0, 0], 2_600, 3_000, None),
            ]
        );
        handlers.vcpu(1);
    }
}

#[test]
fn a_sleep_that_nested_interrupts_end_is_ended_by_the_innermost() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
    handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("irq_entry", 1, 2_500, &[34]);
    handlers.run("irq_entry", 1, 2_550, &[236]);
    handlers.run("waking", 1, 2_600, &[VCPU, 9]);
    handlers.run("irq_exit", 1, 2_650, &[236]);
    handlers.run("irq_exit", 1, 2_700, &[34]);
    handlers.run("switch", 0, 3_000, &[0, 0, TASK, VCPU]);
    handlers.run("entry", 0, 3_100, &[VCPU]);
    assert_eq!(
        handlers.intervals(),
        [
            (Kind::Blocked, [0, 0], 2_100, 2_600, name("local_timer:236")),
            (Kind::Waiting, [0, 0], 2_600, 3_000, None),
        ]
    );
    assert_eq!(handlers.unpaired(), 0);
}

#[test]
fn an_interrupt_that_wakes_is_cut_at_the_wake() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
    handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("irq_entry", 0, 2_500, &[]);
    handlers.run("waking", 0, 2_600, &[VCPU, TASK]);
    handlers.run("irq_exit", 0, 2_800, &[]);
    handlers.run("switch", 0, 3_000, &[0, 0, TASK, VCPU]);
    handlers.run("entry", 0, 3_100, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!((split[Share::Blocked], split[Share::HostIrq]), (400, 300));
    assert_eq!((split[Share::Preempted], split[Share::Kvm]), (200, 200));
}

#[test]
fn a_halt_is_reported_with_its_own_length() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, HLT]);
    handlers.run("switch", 0, 2_300, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("waking", 1, 5_000, &[VCPU, 9]);
    handlers.run("switch", 0, 5_200, &[0, 0, TASK, VCPU]);
    handlers.run("halted", 0, 5_250, &[3_150, 1]);
    handlers.run("entry", 0, 5_400, &[VCPU]);
    assert_eq!(
        handlers.intervals(),
        [
            (Kind::Blocked, [0, 0], 2_300, 5_000, name("task:9")),
            (Kind::Waiting, [0, 0], 5_000, 5_200, None),
            (Kind::Halted, [0, 0], 2_100, 5_250, None),
        ]
    );
    handlers.vcpu(1);
}

#[test]
fn a_vcpu_that_moves_away_names_who_kept_it() {
    let handlers = Handlers::entered();
    handlers.run("switch", 3, 1_500, &[0, 0, IDLE, OTHER]);
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    handlers.run("irq_entry", 0, 2_200, &[]);
    handlers.run("irq_exit", 0, 2_300, &[]);
    handlers.run("irq_entry", 3, 2_200, &[]);
    // An interrupt is in progress on each CPU when the vCPU moves.
    handlers.run("irq_entry", 0, 2_450, &[]);
    handlers.run("migrate", 3, 2_500, &[VCPU]);
    handlers.run("irq_exit", 0, 2_550, &[]);
    handlers.run("irq_exit", 3, 2_560, &[]);
    handlers.run("switch", 3, 2_700, &[1, 0, OTHER, VCPU]);
    handlers.run("entry", 3, 2_800, &[VCPU]);
    // The task continues to run without an interrupt, and no vCPU waits for this CPU.
    handlers.run("switch", 0, 2_900, &[0, SLEEPS, TASK, IDLE]);
    let exit = handlers.exits(1)[0].exit;
    assert_eq!((exit.exit_cpu, exit.entry_cpu), (0, 3));
    let split = handlers.vcpu(1).split;
    assert_eq!(
        (split[Share::HostIrq], split[Share::Preempted]),
        (150 + 60, 250 + 140)
    );
    assert_eq!((split[Share::Throttled], split[Share::Kvm]), (0, 200));
    let threads: Vec<_> = handlers
        .activities()
        .into_iter()
        .filter(|it| it.0 == ActivityKind::Thread)
        .collect();
    assert_eq!(
        threads,
        [
            (ActivityKind::Thread, 0, 2_100, 2_500, "task:7".into()),
            (ActivityKind::Thread, 3, 1_500, 2_700, "task:8".into()),
        ]
    );
    assert_eq!(
        handlers.intervals(),
        [
            (Kind::Waiting, [0, 3], 2_100, 2_500, None),
            (Kind::Waiting, [3, 3], 2_500, 2_700, None),
        ]
    );
}

#[test]
fn a_wake_up_on_another_cpu_is_the_sleeps_where_that_cpu_idled() {
    for (prev, blocked, preempted) in [(IDLE, 700, 0), (OTHER, 510, 190)] {
        let handlers = Handlers::entered();
        handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
        handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, IDLE]);
        handlers.run("waking", 1, 2_600, &[VCPU, 9]);
        handlers.run("migrate", 3, 2_610, &[VCPU]);
        handlers.run("switch", 3, 2_800, &[0, 0, prev, VCPU]);
        handlers.run("entry", 3, 2_900, &[VCPU]);
        let split = handlers.vcpu(1).split;
        assert_eq!(
            (split[Share::Blocked], split[Share::Preempted]),
            (blocked, preempted)
        );
        assert_eq!((split[Share::Throttled], split[Share::Kvm]), (0, 200));
    }
}

#[test]
fn a_full_ring_loses_records_and_counts_everything() {
    const EXITS: u64 = 200;
    let handlers = Handlers::of(false, 0, 4096);
    handlers.run("entry", 0, 1_000, &[VCPU]);
    for round in 1..=EXITS {
        let start = 1_000 + round * 1_000;
        handlers.run("exit", 0, start, &[VCPU, IO]);
        handlers.run("run_leave", 0, start + 100, &[VCPU]);
        handlers.run("run_enter", 0, start + 300, &[VCPU]);
        handlers.run("entry", 0, start + 500, &[VCPU]);
    }
    let reported = handlers.exits(1).len();
    assert!(reported > 0 && handlers.lost() > 0);
    assert_eq!(reported as u64 + handlers.lost(), EXITS);
    let counted = handlers.counted(1);
    assert_eq!((counted.exits, counted.heavy), (EXITS, EXITS));
    assert_eq!(
        (counted.split[Share::Vmm], counted.split[Share::Kvm]),
        (200 * EXITS, 300 * EXITS)
    );
}

#[test]
fn inside_kvm_run_intervals_are_reported_where_exits_are_not() {
    let handlers = Handlers::two_runs();
    assert_eq!(
        handlers.intervals(),
        [
            (Kind::Waiting, [0, 0], 2_000, 2_400, None),
            (Kind::Vmm, [0, 0], 3_000, 3_300, None),
        ]
    );
    let hog = (ActivityKind::Thread, 0, 2_000, 2_400, "task:7".into());
    assert_eq!(handlers.activities(), [hog]);
    assert_eq!(handlers.exits(1).len(), 1);
}

/// No switch shows which task runs on CPU 1, where the vCPU waits twice. CPU 1 must not count as
/// idle.
#[test]
fn who_was_never_seen_to_come_is_not_idle() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    for (at, cpu) in [(2_200, 1), (2_300, 0), (2_400, 1), (2_500, 0)] {
        handlers.run("migrate", cpu, at, &[VCPU]);
    }
    let activities = handlers.activities();
    assert!(activities.iter().all(|it| it.1 == 0), "{activities:?}");
}

/// Another CPU wakes the vCPU between the two halves of a switch. The switch then loses the
/// wake-up.
#[test]
fn a_wake_up_amid_a_switch_leaves_nobody_waiting() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
    handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("waking", 1, 2_150, &[VCPU, 9]);
    handlers.forget_wake(1);
    handlers.run("switch", 0, 3_000, &[0, 0, TASK, VCPU]);
    handlers.run("entry", 0, 3_100, &[VCPU]);
    handlers.run("switch", 0, 3_200, &[0, SLEEPS, VCPU, TASK]);
    let reported = handlers.activities();
    handlers.run("switch", 0, 3_900, &[0, SLEEPS, TASK, IDLE]);
    assert_eq!(handlers.activities(), reported, "nobody waits for it");
}
