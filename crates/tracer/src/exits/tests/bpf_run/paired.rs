//! Tests of interrupts without a begin or without an end. Complete interrupts are counted, and
//! incomplete interrupts are reported as lost.

use vmnoise_events::Share;

use super::harness::{CPUID, Handlers, IO, SLEEPS, TASK, VCPU};

/// Vector other than the timer's.
const CALL: u64 = 251;

/// Makes an exit from 2000 to 3000, and calls `happens` during it. Returns the exit's time of KVM
/// and of interrupts, in ns.
fn exit_with(handlers: &Handlers, happens: impl FnOnce()) -> (u64, u64) {
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID]);
    happens();
    handlers.run("entry", 0, 3_000, &[VCPU]);
    let split = handlers.vcpu(1).split;
    (split[Share::HostIrq], split[Share::Kvm])
}

#[test]
fn an_interrupt_without_its_end_hides_no_other() {
    let handlers = Handlers::entered();
    handlers.run("irq_entry", 0, 1_900, &[CALL]);
    let split = exit_with(&handlers, || {
        handlers.run("irq_entry", 0, 2_100, &[]);
        handlers.run("irq_exit", 0, 2_900, &[]);
    });
    // The exit began with the interrupt.
    assert_eq!(split, (800, 300));
    assert_eq!(handlers.unpaired(), 1);
    // The loss has no effect on later exits.
    handlers.run("exit", 0, 4_000, &[VCPU, CPUID]);
    handlers.run("irq_entry", 0, 4_100, &[CALL]);
    handlers.run("irq_exit", 0, 4_200, &[CALL]);
    handlers.run("entry", 0, 4_300, &[VCPU]);
    assert_eq!(handlers.vcpu(1).split[Share::HostIrq], 900);
    assert_eq!(handlers.unpaired(), 1);
}

#[test]
fn an_interrupt_inside_another_is_taken_off_it() {
    let handlers = Handlers::entered();
    let split = exit_with(&handlers, || {
        handlers.run("irq_entry", 0, 2_100, &[CALL]);
        handlers.run("irq_entry", 0, 2_300, &[]);
        handlers.run("nmi", 0, 2_400, &[50]);
        handlers.run("irq_exit", 0, 2_500, &[]);
        handlers.run("irq_exit", 0, 2_900, &[CALL]);
    });
    assert_eq!(split, (750, 200));
    assert_eq!(handlers.unpaired(), 0);
}

#[test]
fn ends_are_those_of_the_begins_they_name() {
    let handlers = Handlers::entered();
    let split = exit_with(&handlers, || {
        // The inner interrupt has no end, and the last end has no begin.
        handlers.run("irq_entry", 0, 2_100, &[CALL]);
        handlers.run("irq_entry", 0, 2_300, &[]);
        handlers.run("irq_exit", 0, 2_500, &[CALL]);
        handlers.run("irq_exit", 0, 2_700, &[]);
    });
    assert_eq!(split, (400, 600));
    assert_eq!(handlers.unpaired(), 2);
}

#[test]
fn interrupts_deeper_than_there_is_room_are_reported() {
    let handlers = Handlers::entered();
    let split = exit_with(&handlers, || {
        for vector in 1..=5 {
            handlers.run("irq_entry", 0, 2_000 + 100 * vector, &[vector]);
        }
        for vector in (1..=5).rev() {
            handlers.run("irq_exit", 0, 3_000 - 100 * vector, &[vector]);
        }
    });
    // There is no room for the fifth interrupt. Its time belongs to the fourth interrupt, and its
    // end is not matched.
    assert_eq!(split, (800, 200));
    assert_eq!(handlers.unpaired(), 2);
}

#[test]
fn no_begin_is_looked_at_before_its_end_can_be_seen() {
    let handlers = Handlers::new();
    handlers.counts(false);
    // While the programs are attached one by one, they see some begins without ends, and some ends
    // without begins.
    handlers.run("irq_entry", 0, 500, &[CALL]);
    handlers.run("softirq_entry", 0, 600, &[3]);
    handlers.counts(true);
    handlers.run("softirq_exit", 0, 700, &[3]);
    handlers.run("irq_exit", 0, 800, &[CALL]);
    handlers.run("entry", 0, 1_000, &[VCPU]);
    let split = exit_with(&handlers, || {
        handlers.run("irq_entry", 0, 2_100, &[]);
        handlers.run("irq_exit", 0, 2_200, &[]);
    });
    assert_eq!(split, (100, 900));
    // This end has no begin, although begins are observed.
    handlers.run("irq_exit", 0, 3_100, &[CALL]);
    assert_eq!(handlers.unpaired(), 1);
    // Programs are also detached one by one.
    handlers.counts(false);
    handlers.run("irq_entry", 0, 3_200, &[]);
    handlers.run("irq_exit", 0, 3_300, &[]);
    handlers.run("softirq_entry", 0, 3_400, &[3]);
    handlers.run("softirq_exit", 0, 3_500, &[3]);
    assert_eq!(handlers.unpaired(), 1);
}

#[test]
fn where_no_vcpu_ever_was_nothing_is_missed() {
    let handlers = Handlers::entered();
    for (cpu, leaves) in [(0, VCPU), (3, TASK)] {
        handlers.run("irq_entry", cpu, 1_100, &[]);
        handlers.run("irq_exit", cpu, 1_200, &[CALL]);
        handlers.run("softirq_entry", cpu, 1_300, &[1]);
        handlers.run("switch", cpu, 1_400, &[0, SLEEPS, leaves, TASK + 1]);
    }
    // Losses on CPU 0: an end without a begin, a begin without an end, and a softirq.
    assert_eq!(handlers.unpaired(), 3);
}

#[test]
fn soft_interrupts_are_matched_by_their_numbers() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, IO]);
    handlers.run("softirq_entry", 0, 2_100, &[1]);
    handlers.run("softirq_entry", 0, 2_200, &[3]);
    handlers.run("softirq_exit", 0, 2_300, &[3]);
    handlers.run("softirq_entry", 0, 2_400, &[1]);
    handlers.run("softirq_exit", 0, 2_500, &[7]);
    handlers.run("entry", 0, 3_000, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!((split[Share::HostSoftirq], split[Share::Kvm]), (100, 900));
    assert_eq!(handlers.unpaired(), 2);
}

/// On PREEMPT_RT, a switch during a softirq is normal, and is not a loss.
#[test]
fn a_soft_interrupt_that_is_preempted_counts_until_then() {
    for (handlers, softirq_ns, unpaired) in
        [(Handlers::preempt_rt(), 100, 0), (Handlers::new(), 0, 2)]
    {
        handlers.run("entry", 0, 1_000, &[VCPU]);
        handlers.run("exit", 0, 2_000, &[VCPU, IO]);
        handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
        handlers.run("softirq_entry", 0, 2_200, &[3]);
        handlers.run("switch", 0, 2_300, &[1, 0, TASK, TASK + 1]);
        handlers.run("switch", 0, 2_500, &[0, SLEEPS, TASK + 1, TASK]);
        handlers.run("softirq_exit", 0, 2_600, &[3]);
        handlers.run("switch", 0, 2_700, &[0, SLEEPS, TASK, VCPU]);
        handlers.run("entry", 0, 3_000, &[VCPU]);
        let split = handlers.vcpu(1).split;
        assert_eq!(split[Share::HostSoftirq], softirq_ns);
        assert_eq!(split[Share::Preempted], 600 - softirq_ns);
        assert_eq!(handlers.unpaired(), unpaired);
    }
}

#[test]
fn interrupts_without_an_end_before_kvm_run_is_left_do_not_reach_into_the_exit() {
    let handlers = Handlers::kvm_run_only();
    handlers.run("run_enter", 0, 1_100, &[VCPU]);
    // These interrupts fill the stack of nested interrupts. The next begin finds no room.
    for at in 1..=4 {
        handlers.run("irq_entry", 0, 1_100 + 100 * at, &[]);
    }
    handlers.run("run_leave", 0, 2_000, &[VCPU]);
    handlers.run("irq_entry", 0, 2_100, &[]);
    handlers.run("irq_exit", 0, 2_300, &[]);
    handlers.run("run_enter", 0, 2_400, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!((split[Share::HostIrq], split[Share::Vmm]), (200, 200));
    assert_eq!(handlers.unpaired(), 4);
}
