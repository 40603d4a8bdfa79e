//! Tests of the counts: each part of an exit counts for the task or cause that had it.

use proptest::prelude::*;
use vmnoise_events::{ReasonTotals, Share, ShareMap, VcpuTotals};

use super::harness::{CPUID, HLT, Handlers, IDLE, IO, SLEEPS, TASK, VCPU};

fn only_reason(vcpu: &VcpuTotals) -> &ReasonTotals {
    assert_eq!(vcpu.reasons.len(), 1, "{vcpu:?}");
    assert_eq!(vcpu.reasons[0].split, vcpu.split);
    &vcpu.reasons[0]
}

#[test]
fn an_exit_that_nobody_disturbs_is_kvms_own() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID]);
    handlers.run("entry", 0, 2_500, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    assert_eq!((vcpu.exits, vcpu.heavy), (1, 0));
    let reason = only_reason(&vcpu);
    assert_eq!(reason.reason.unwrap().name(), "cpuid");
    assert_eq!((reason.min_ns, reason.max_ns), (500, 500));
    assert_eq!(reason.split[Share::Kvm], 500);
    assert_eq!(reason.histogram, [(500, 1)]);
}

#[test]
fn an_exit_whose_entry_nobody_saw_is_not_counted() {
    let handlers = Handlers::new();
    // Tracing begins while another task has the CPU. This time is not part of the next exit.
    handlers.run("exit", 0, 900, &[VCPU, IO]);
    handlers.run("switch", 0, 1_000, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 5_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("exit", 0, 6_000, &[VCPU, CPUID]);
    handlers.run("entry", 0, 6_100, &[VCPU]);
    handlers.run("exit", 0, 7_000, &[VCPU, CPUID]);
    handlers.run("entry", 0, 7_300, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    assert_eq!(vcpu.exits, 1);
    assert_eq!((vcpu.first_mono_ns, vcpu.last_mono_ns), (6_100, 7_300));
    assert_eq!((vcpu.split[Share::Kvm], vcpu.split.total()), (300, 300));
}

#[test]
fn an_exit_to_the_vmm_is_heavy_and_the_vmms() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, IO]);
    handlers.run("run_leave", 0, 2_100, &[VCPU]);
    handlers.run("run_enter", 0, 2_900, &[VCPU]);
    handlers.run("entry", 0, 3_000, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    assert_eq!((vcpu.exits, vcpu.heavy), (1, 1));
    assert_eq!((vcpu.split[Share::Vmm], vcpu.split[Share::Kvm]), (800, 200));
    only_reason(&vcpu);
}

#[test]
fn an_interrupt_before_kvm_exit_begins_the_exit() {
    let handlers = Handlers::entered();
    handlers.run("irq_entry", 0, 2_000, &[]);
    handlers.run("nmi", 0, 2_250, &[50]);
    handlers.run("irq_exit", 0, 2_300, &[]);
    handlers.run("softirq_entry", 0, 2_310, &[]);
    handlers.run("softirq_exit", 0, 2_350, &[]);
    handlers.run("exit", 0, 2_400, &[VCPU, 0x60]);
    handlers.run("entry", 0, 2_500, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    let expected = ShareMap::from([
        (Share::Kvm, 160),
        (Share::HostIrq, 250),
        (Share::HostSoftirq, 40),
        (Share::HostNmi, 50),
    ]);
    assert_eq!(vcpu.split, expected);
    assert_eq!(only_reason(&vcpu).max_ns, 500);
}

/// The hardware enters the guest a short time after kvm_entry. An NMI in between does not end guest
/// time.
#[test]
fn an_nmi_before_the_guest_runs_begins_no_exit() {
    let handlers = Handlers::entered();
    handlers.run("nmi", 0, 1_100, &[50]);
    handlers.run("exit", 0, 2_001_000, &[VCPU, CPUID]);
    handlers.run("entry", 0, 2_002_000, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    assert_eq!(
        (only_reason(&vcpu).max_ns, vcpu.split.total()),
        (1_000, 1_000)
    );
    assert_eq!(vcpu.split[Share::Kvm], 1_000);
    // An NMI while the guest leaves is part of the exit.
    handlers.run("nmi", 0, 4_000_000, &[50]);
    handlers.run("exit", 0, 4_000_020, &[VCPU, CPUID]);
    handlers.run("entry", 0, 4_000_950, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    assert_eq!(
        (only_reason(&vcpu).min_ns, vcpu.split[Share::HostNmi]),
        (1_000, 50)
    );
    assert_eq!(vcpu.split[Share::Kvm], 1_950);
}

#[test]
fn interrupts_inside_the_vmm_are_not_the_vmms() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, IO]);
    handlers.run("run_leave", 0, 2_100, &[VCPU]);
    handlers.run("irq_entry", 0, 2_200, &[]);
    handlers.run("irq_exit", 0, 2_300, &[]);
    handlers.run("switch", 0, 2_400, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 2_600, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("run_enter", 0, 2_900, &[VCPU]);
    handlers.run("entry", 0, 3_000, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!(
        (
            split[Share::Vmm],
            split[Share::HostIrq],
            split[Share::Preempted]
        ),
        (500, 100, 200)
    );
    assert_eq!(split[Share::Kvm], 200);
}

#[test]
fn an_interrupt_after_the_clock_was_read_is_inside_what_it_ended() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, IO]);
    handlers.run("run_leave", 0, 2_100, &[VCPU]);
    handlers.run("irq_entry", 0, 2_310, &[]);
    handlers.run("irq_exit", 0, 2_910, &[]);
    // The program at run_enter read its clock before the interrupt began.
    handlers.run("run_enter", 0, 2_300, &[VCPU]);
    handlers.run("entry", 0, 3_000, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!(
        (split[Share::Vmm], split[Share::HostIrq], split[Share::Kvm]),
        (210, 600, 190)
    );
}

#[test]
fn a_preemption_is_net_of_interrupts_and_of_throttling() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x60]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    handlers.run("irq_entry", 0, 2_200, &[]);
    handlers.run("irq_exit", 0, 2_250, &[]);
    handlers.run("switch", 0, 3_000, &[0, SLEEPS, TASK, IDLE]);
    handlers.run("irq_entry", 0, 3_100, &[]);
    handlers.run("irq_exit", 0, 3_120, &[]);
    handlers.run("switch", 0, 3_500, &[0, 0, IDLE, VCPU]);
    handlers.run("entry", 0, 3_600, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!(split[Share::Preempted], 850);
    assert_eq!(split[Share::Throttled], 480);
    assert_eq!((split[Share::HostIrq], split[Share::Kvm]), (70, 200));
}

#[test]
fn state_follows_the_vcpu_to_another_cpu() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    // The vCPU no longer waits for this CPU, so neither the interrupt nor the switch affects it.
    handlers.run("irq_entry", 3, 2_200, &[]);
    handlers.run("irq_exit", 3, 2_400, &[]);
    handlers.run("switch", 3, 3_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 3, 3_100, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    let worst = vcpu.worst.unwrap();
    assert_eq!((worst.exit_cpu, worst.entry_cpu), (0, 3));
    assert_eq!(
        (worst.split[Share::Preempted], worst.split[Share::Kvm]),
        (900, 200)
    );
    // The CPU that the vCPU left has no vCPU any more.
    handlers.run("entry", 0, 4_000, &[VCPU + 1]);
    assert_eq!(handlers.wire_vcpu(2).tid, VCPU as u32 + 1);
}

#[test]
fn a_sleep_nobody_asked_for_is_blocked_until_the_wake() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
    handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("waking", 1, 2_600, &[VCPU]);
    handlers.run("switch", 0, 3_000, &[0, 0, TASK, VCPU]);
    handlers.run("entry", 0, 3_100, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!(
        (
            split[Share::Blocked],
            split[Share::Preempted],
            split[Share::Kvm]
        ),
        (500, 400, 200)
    );
}

/// The waker read its clock before the vCPU's CPU did, but reported after it.
#[test]
fn a_vcpu_that_is_woken_as_it_leaves_has_not_slept() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
    handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("waking", 1, 2_050, &[VCPU]);
    handlers.run("switch", 0, 3_000, &[0, 0, TASK, VCPU]);
    handlers.run("entry", 0, 3_100, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!(
        (
            split[Share::Blocked],
            split[Share::Preempted],
            split[Share::Kvm]
        ),
        (0, 900, 200)
    );
}

#[test]
fn the_longest_exit_is_kept_whole_and_halts_do_not_count() {
    let handlers = Handlers::entered();
    for (start, code, halted, end) in [
        (2_000, CPUID, 0, 2_300),
        (3_000, HLT, 4_900, 8_000),
        (9_000, IO, 0, 9_700),
        (10_000, CPUID, 0, 10_100),
    ] {
        handlers.run("exit", 0, start, &[VCPU, code]);
        if halted > 0 {
            handlers.run("halted", 0, start, &[halted, 0]);
        }
        handlers.run("entry", 0, end, &[VCPU]);
    }
    let worst = handlers.vcpu(1).worst.unwrap();
    assert_eq!((worst.start_mono_ns, worst.reason.code), (9_000, IO));
    assert_eq!(worst.split.total(), worst.dur_ns());
}

#[test]
fn what_was_open_when_tracing_began_is_not_counted() {
    let handlers = Handlers::new();
    handlers.run("run_enter", 0, 500, &[VCPU]);
    handlers.run("irq_exit", 0, 600, &[]);
    handlers.run("exit", 0, 700, &[VCPU, IO]);
    handlers.run("entry", 0, 1_000, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    assert_eq!((vcpu.exits, vcpu.split.total()), (0, 0));
    assert_eq!(vcpu.first_mono_ns, 1_000);
}

#[test]
fn without_kvm_exit_an_exit_is_the_time_between_two_runs() {
    let handlers = Handlers::two_runs();
    let vcpu = handlers.vcpu(1);
    assert_eq!((vcpu.exits, vcpu.heavy), (1, 1));
    assert_eq!(
        (vcpu.split[Share::Preempted], vcpu.split[Share::Vmm]),
        (400, 300)
    );
    assert_eq!(vcpu.split[Share::Kvm], 0);
    assert_eq!(vcpu.reasons[0].split[Share::Vmm], 300);
}

/// NMIs may come at any time. Other interrupts may come when KVM_RUN is entered or left.
#[test]
fn what_comes_while_the_books_are_brought_up_to_date_is_booked_once() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, IO]);
    handlers.run("irq_entry", 0, 2_010, &[]);
    handlers.run("irq_exit", 0, 2_020, &[]);
    handlers.run("amid", 0, 2_200, &[90]);
    handlers.run("run_leave", 0, 2_100, &[VCPU]);
    handlers.run("run_enter", 0, 2_800, &[VCPU]);
    handlers.run("switch", 0, 3_000, &[1, 0, VCPU, TASK]);
    // The switch back reads its clock before the NMI comes.
    handlers.run("amid", 0, 3_580, &[70]);
    handlers.run("switch", 0, 3_500, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 4_000, &[VCPU]);
    let expected = ShareMap::from([
        // KVM has the time until the end of the first NMI, which came before KVM_RUN was left.
        (Share::Kvm, 200 + 200 - 10 - 90 + 500 - 70),
        (Share::Vmm, 600),
        (Share::Preempted, 500),
        (Share::HostIrq, 10),
        (Share::HostNmi, 90 + 70),
    ]);
    assert_eq!(handlers.vcpu(1).split, expected);
}

/// Another CPU wakes the vCPU exactly when a softirq ends on the vCPU's CPU. The softirq is counted
/// late, but not twice.
#[test]
fn what_ends_as_another_cpu_looks_is_booked_once() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, 0x400]);
    handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("softirq_entry", 0, 2_200, &[3]);
    handlers.run("amid", 1, 2_500, &[0, VCPU]);
    handlers.run("softirq_exit", 0, 2_500, &[3]);
    handlers.run("switch", 0, 3_000, &[0, 0, TASK, VCPU]);
    handlers.run("entry", 0, 3_100, &[VCPU]);
    let expected = ShareMap::from([
        (Share::Kvm, 200),
        (Share::Blocked, 400),
        (Share::Preempted, 200),
        (Share::HostSoftirq, 300),
    ]);
    assert_eq!(handlers.vcpu(1).split, expected);
}

/// A vCPU is switched in and halts while the programs are being attached one by one.
#[test]
fn inside_kvm_run_nothing_is_counted_before_counting() {
    let handlers = Handlers::kvm_run_only();
    handlers.expects(VCPU);
    handlers.counts(false);
    handlers.run("switch", 0, 1_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("switch", 0, 1_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("switch", 0, 1_900, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("halted", 0, 2_000, &[1_500, 1]);
    handlers.counts(true);
    let counted = handlers.counted(1);
    assert_eq!((counted.first_mono_ns, counted.split.total()), (0, 0));
    handlers.run("switch", 0, 3_000, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 3_400, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("switch", 0, 4_000, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 4_100, &[0, SLEEPS, TASK, VCPU]);
    let counted = handlers.counted(1);
    assert_eq!(
        (counted.first_mono_ns, counted.last_mono_ns),
        (3_400, 4_100)
    );
    assert_eq!(
        (counted.split[Share::Preempted], counted.split.total()),
        (100, 100)
    );
    // After counting has stopped, ends are still counted, but begins are not.
    handlers.counts(false);
    handlers.run("switch", 0, 4_200, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 4_500, &[0, SLEEPS, TASK, VCPU]);
    let counted = handlers.counted(1);
    assert_eq!((counted.last_mono_ns, counted.split.total()), (4_500, 400));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any events in any order, the counts equal those of the reported exits: number, length,
    /// and each share (`Handlers::vcpu`). The oracle tests that the shares add up.
    #[test]
    fn any_stream_is_counted_as_reported(
        stream in proptest::collection::vec((0_usize..13, 0_u64..3, 1_u64..500, 0_u64..3), 0..60),
    ) {
        let handlers = Handlers::new();
        let mut now_ns = 1_000;
        for (event, cpu, step, choice) in stream {
            now_ns += step;
            let thread = [VCPU, VCPU + 1, TASK][choice as usize];
            let (name, values): (_, &[u64]) = match event {
                0 => ("irq_entry", &[]),
                1 => ("irq_exit", &[]),
                2 => ("softirq_entry", &[]),
                3 => ("softirq_exit", &[]),
                4 => ("nmi", &[step]),
                5 => ("switch", &[choice & 1, choice, thread, VCPU]),
                6 => ("switch", &[choice & 1, choice, VCPU, thread]),
                7 => ("waking", &[thread]),
                8 => ("run_leave", &[VCPU]),
                9 => ("run_enter", &[VCPU]),
                10 => ("exit", &[VCPU, CPUID]),
                11 => ("halted", &[step * choice, choice & 1]),
                _ => ("entry", &[VCPU]),
            };
            handlers.run(name, cpu, now_ns, values);
        }
        let vcpu = handlers.vcpu(1);
        let reported = handlers.exits(1);
        let lengths: Vec<u64> = reported.iter().map(|reported| reported.exit.dur_ns()).collect();
        prop_assert_eq!(vcpu.exits, reported.len() as u64);
        for reason in &vcpu.reasons {
            prop_assert_eq!(Some(&reason.min_ns), lengths.iter().min());
            prop_assert_eq!(Some(&reason.max_ns), lengths.iter().max());
            let of_histogram: u64 = reason.histogram.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(of_histogram, reported.len() as u64);
        }
    }
}

/// The NMI comes after the switch that ends the idle time has read its clock.
#[test]
fn an_nmi_longer_than_the_idle_time_it_ends_is_no_throttling() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 3_000, &[0, SLEEPS, TASK, IDLE]);
    handlers.run("nmi", 0, 3_610, &[400]);
    handlers.run("switch", 0, 3_200, &[0, 0, IDLE, TASK]);
    handlers.run("switch", 0, 4_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 4_100, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!(
        (
            split[Share::HostNmi],
            split[Share::Preempted],
            split[Share::Throttled]
        ),
        (400, 1_500, 0)
    );
}
