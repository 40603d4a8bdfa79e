//! Tests that separate the guest's own halts from other sleep. Each nanosecond counts as exactly
//! one of the two.

use vmnoise_events::{Share, ShareMap};

use super::harness::{HLT, Handlers, IDLE, IO, SLEEPS, TASK, VCPU};

/// Makes the vCPU's thread sleep while a task runs on CPU 0. The thread gets the CPU again when it
/// is woken.
fn sleeps(handlers: &Handlers, from: u64, to: u64) {
    handlers.run("switch", 0, from, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("waking", 1, to, &[VCPU]);
    handlers.run("switch", 0, to, &[0, 0, TASK, VCPU]);
}

#[test]
fn a_halt_is_no_noise_but_its_way_back_is() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, HLT]);
    // The halted vCPU polls from 2100, sleeps from 2300, and waits for the CPU after its wake-up.
    handlers.run("switch", 0, 2_300, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("irq_entry", 0, 2_400, &[]);
    handlers.run("irq_exit", 0, 2_450, &[]);
    handlers.run("waking", 1, 5_000, &[VCPU]);
    handlers.run("switch", 0, 5_200, &[0, 0, TASK, VCPU]);
    handlers.run("halted", 0, 5_250, &[3_150, 1]);
    handlers.run("entry", 0, 5_400, &[VCPU]);
    let vcpu = handlers.vcpu(1);
    let expected = ShareMap::from([
        (Share::Kvm, 250),
        (Share::Preempted, 200),
        (Share::Halted, 2_950),
    ]);
    assert_eq!(vcpu.split, expected);
}

/// A signal ends KVM_RUN of a halted vCPU. The vCPU is still halted at the next KVM_RUN.
#[test]
fn each_halt_of_an_exit_has_its_own_length() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, HLT]);
    sleeps(&handlers, 2_100, 5_000);
    handlers.run("halted", 0, 5_010, &[2_950, 1]);
    handlers.run("run_leave", 0, 5_050, &[VCPU]);
    handlers.run("run_enter", 0, 5_100, &[VCPU]);
    sleeps(&handlers, 5_200, 8_200);
    handlers.run("halted", 0, 8_210, &[3_050, 1]);
    handlers.run("entry", 0, 8_300, &[VCPU]);
    let expected = ShareMap::from([(Share::Kvm, 250), (Share::Vmm, 50), (Share::Halted, 6_000)]);
    assert_eq!(handlers.vcpu(1).split, expected);
}

/// Time before a halt in the same exit is not part of the halt.
#[test]
fn what_came_before_a_halt_takes_nothing_from_it() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, HLT]);
    handlers.run("irq_entry", 0, 2_020, &[]);
    handlers.run("irq_exit", 0, 2_120, &[]);
    handlers.run("switch", 0, 2_200, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 2_700, &[0, SLEEPS, TASK, VCPU]);
    // A sleep without a halt of the guest.
    sleeps(&handlers, 2_800, 3_200);
    // The guest halts at 3300. The vCPU is interrupted and preempted while it polls.
    handlers.run("irq_entry", 0, 3_400, &[]);
    handlers.run("irq_exit", 0, 3_460, &[]);
    handlers.run("switch", 0, 3_500, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 3_540, &[0, SLEEPS, TASK, VCPU]);
    sleeps(&handlers, 3_600, 6_000);
    handlers.run("halted", 0, 6_000, &[2_700, 1]);
    handlers.run("entry", 0, 6_100, &[VCPU]);
    let expected = ShareMap::from([
        (Share::Kvm, 400),
        (Share::HostIrq, 160),
        (Share::Preempted, 540),
        (Share::Blocked, 400),
        (Share::Halted, 2_600),
    ]);
    assert_eq!(handlers.vcpu(1).split, expected);
}

/// KVM checks for work, finds none, and makes the thread sleep again.
#[test]
fn a_sleep_after_a_spurious_wake_up_is_the_same_halts() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, HLT]);
    // The halt begins at 2100. An interrupt follows the sleep before the last one, and a wait
    // follows the last sleep.
    for (from, to) in [(2_200, 3_000), (3_050, 4_000)] {
        sleeps(&handlers, from, to);
    }
    handlers.run("irq_entry", 0, 4_010, &[]);
    handlers.run("irq_exit", 0, 4_030, &[]);
    handlers.run("switch", 0, 4_100, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("irq_entry", 0, 4_200, &[]);
    handlers.run("irq_exit", 0, 4_250, &[]);
    handlers.run("waking", 1, 5_000, &[VCPU]);
    handlers.run("switch", 0, 5_300, &[0, 0, TASK, VCPU]);
    handlers.run("halted", 0, 5_400, &[3_300, 1]);
    handlers.run("entry", 0, 5_500, &[VCPU]);
    let expected = ShareMap::from([
        (Share::Kvm, 200),
        (Share::HostIrq, 20),
        (Share::Preempted, 300),
        (Share::Halted, 2_980),
    ]);
    assert_eq!(handlers.vcpu(1).split, expected);
}

#[test]
fn sleeps_in_the_vmm_are_no_halts() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, IO]);
    handlers.run("run_leave", 0, 2_100, &[VCPU]);
    sleeps(&handlers, 2_200, 2_900);
    handlers.run("run_enter", 0, 3_000, &[VCPU]);
    handlers.run("halted", 0, 3_500, &[450, 0]);
    handlers.run("entry", 0, 3_600, &[VCPU]);
    let expected = ShareMap::from([
        (Share::Kvm, 250),
        (Share::Vmm, 200),
        (Share::Blocked, 700),
        (Share::Halted, 450),
    ]);
    assert_eq!(handlers.vcpu(1).split, expected);
}

#[test]
fn inside_kvm_run_a_halt_is_booked_once() {
    let handlers = Handlers::kvm_run_only();
    handlers.run("run_enter", 0, 1_000, &[VCPU]);
    sleeps(&handlers, 2_000, 4_000);
    // It is still unknown whether this sleep was a halt.
    assert_eq!(handlers.counted(1).split.total(), 0);
    handlers.run("halted", 0, 4_010, &[2_010, 1]);
    assert_eq!(handlers.counted(1).split[Share::Halted], 2_010);
    handlers.run("run_leave", 0, 5_000, &[VCPU]);
    handlers.run("run_enter", 0, 5_100, &[VCPU]);
    let expected = ShareMap::from([(Share::Vmm, 100), (Share::Halted, 2_010)]);
    assert_eq!(handlers.vcpu(1).split, expected);
}

/// A guest may stay in KVM_RUN for any time.
#[test]
fn inside_kvm_run_what_others_took_is_reported_at_once() {
    let handlers = Handlers::kvm_run_only();
    handlers.run("run_enter", 0, 1_000, &[VCPU]);
    handlers.run("switch", 0, 2_000, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 2_300, &[0, SLEEPS, TASK, IDLE]);
    handlers.run("switch", 0, 2_400, &[0, 0, IDLE, VCPU]);
    let counted = handlers.counted(1);
    assert_eq!(
        (
            counted.split[Share::Preempted],
            counted.split[Share::Throttled]
        ),
        (300, 100)
    );
    assert_eq!(
        (counted.first_mono_ns, counted.last_mono_ns),
        (1_000, 2_400)
    );
    // The thread slept without a halt. The handlers know this when KVM_RUN is left.
    sleeps(&handlers, 3_000, 3_500);
    handlers.run("run_leave", 0, 3_600, &[VCPU]);
    let counted = handlers.counted(1);
    assert_eq!(
        (counted.split[Share::Blocked], counted.split.total()),
        (500, 900)
    );
    assert_eq!(counted.last_mono_ns, 3_600);
}

/// Only KVM_RUN and halts show that no halt can have begun earlier.
#[test]
fn inside_kvm_run_a_halt_is_whole_however_much_came_before() {
    for ticks in [4, 8, 40] {
        let handlers = Handlers::kvm_run_only();
        handlers.run("run_enter", 0, 1_000, &[VCPU]);
        for number in 0..ticks {
            handlers.run("irq_entry", 0, 1_010 + 20 * number, &[]);
            handlers.run("irq_exit", 0, 1_020 + 20 * number, &[]);
        }
        handlers.run("switch", 0, 2_000, &[1, 0, VCPU, TASK]);
        handlers.run("switch", 0, 3_000, &[0, SLEEPS, TASK, VCPU]);
        sleeps(&handlers, 3_100, 3_600);
        handlers.run("halted", 0, 3_600, &[500, 1]);
        let expected = ShareMap::from([
            (Share::Preempted, 1_000),
            (Share::HostIrq, 10 * ticks),
            (Share::Halted, 500),
        ]);
        assert_eq!(handlers.counted(1).split, expected, "{ticks} ticks");
    }
}

/// The halt has more interruptions than BPF keeps. It is reported too short, but never too long.
#[test]
fn a_halt_that_is_much_interrupted_is_no_longer_than_it_was() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, HLT]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 2_900, &[0, SLEEPS, TASK, VCPU]);
    // The vCPU polls from 3000. The oldest kept interruption is the fifth interrupt, which ends at
    // 3460.
    for number in 0..12 {
        handlers.run("irq_entry", 0, 3_050 + 100 * number, &[]);
        handlers.run("irq_exit", 0, 3_060 + 100 * number, &[]);
    }
    handlers.run("halted", 0, 4_300, &[1_300, 0]);
    handlers.run("entry", 0, 4_400, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!((split[Share::Preempted], split[Share::HostIrq]), (800, 120));
    // Before 3460, all time could have been taken, but only 50 ns were taken.
    assert_eq!(split[Share::Halted], 1_300 - 120 - (460 - 50));
    assert_eq!(split.total(), 2_400);
}

/// The whole halt is counted, even if it has many spurious wake-ups.
#[test]
fn a_halt_of_many_sleeps_is_whole() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, HLT]);
    for number in 0..12 {
        sleeps(&handlers, 2_100 + 100 * number, 2_190 + 100 * number);
    }
    handlers.run("halted", 0, 3_300, &[1_200, 1]);
    handlers.run("entry", 0, 3_400, &[VCPU]);
    let split = handlers.vcpu(1).split;
    assert_eq!(
        (
            split[Share::Halted],
            split[Share::Kvm],
            split[Share::Blocked]
        ),
        (1_200, 200, 0)
    );
}
