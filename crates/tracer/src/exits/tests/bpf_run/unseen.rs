//! Tests for machines that hide some switches (docs/design.md). The state of a vCPU's thread is not
//! guessed. Time with an unknown state is reported.

use vmnoise_events::{Share, ShareMap, VcpuIntervalKind as Kind};

use super::harness::{CPUID, HLT, Handlers, IDLE, SLEEPS, TASK, VCPU};

/// A task other than `TASK`. [`OTHER_VCPU`] is the thread of another vCPU.
const OTHER: u64 = 8;
const OTHER_VCPU: u64 = 200;

/// Returns handlers after the vCPU's thread got the CPU at 900 and entered its guest at 1000.
fn came() -> Handlers {
    let handlers = Handlers::new();
    handlers.run("switch", 0, 900, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 1_000, &[VCPU, 0xa0, 0x1]);
    handlers
}

/// Makes one exit of 100 ns.
fn one_exit(handlers: &Handlers, tid: u64, at: u64) {
    handlers.run("exit", 0, at, &[tid, CPUID, 0x1]);
    handlers.run("entry", 0, at + 100, &[tid]);
}

#[test]
fn who_is_back_unseen_has_waited_until_it_is_seen() {
    for (idle, split) in [
        (
            TASK,
            ShareMap::from([(Share::Kvm, 100), (Share::Preempted, 4_000)]),
        ),
        (
            IDLE,
            ShareMap::from([(Share::Kvm, 100), (Share::Throttled, 4_000)]),
        ),
    ] {
        let handlers = came();
        handlers.run("exit", 0, 2_000, &[VCPU, CPUID, 0x1]);
        handlers.run("switch", 0, 2_100, &[1, 0, VCPU, idle]);
        // The vCPU's thread came back without an event at 6000.
        handlers.run("entry", 0, 6_100, &[VCPU]);
        assert_eq!(handlers.vcpu(1).split, split);
        assert_eq!(handlers.unpaired(), 1);
        one_exit(&handlers, VCPU, 7_000);
        handlers.run("exit", 0, 8_000, &[VCPU, CPUID, 0x1]);
        handlers.run("switch", 0, 8_100, &[1, 0, VCPU, TASK]);
        handlers.run("switch", 0, 8_300, &[0, SLEEPS, TASK, VCPU]);
        handlers.run("entry", 0, 8_400, &[VCPU]);
        let counted = handlers.vcpu(1);
        assert_eq!((counted.exits, counted.split[Share::Kvm]), (3, 400));
        assert_eq!(counted.split.total(), 4_600);
        assert_eq!(handlers.unpaired(), 1);
    }
}

#[test]
fn an_exit_in_which_a_switch_was_not_seen_is_not_counted() {
    let handlers = came();
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID, 0x1]);
    handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
    // The vCPU's thread came back without an event at 6000.
    handlers.run("switch", 0, 8_000, &[1, 0, VCPU, OTHER]);
    handlers.run("switch", 0, 9_000, &[0, SLEEPS, OTHER, VCPU]);
    handlers.run("entry", 0, 9_100, &[VCPU]);
    // The vCPU's thread left without an event at 9200, and came back at 9900.
    handlers.run("switch", 0, 9_900, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("exit", 0, 9_950, &[VCPU, CPUID, 0x1]);
    handlers.run("entry", 0, 9_960, &[VCPU]);
    assert_eq!(handlers.vcpu(1).exits, 0);
    assert_eq!(handlers.unpaired(), 2);
    // The vCPU's thread left without an event, and is on another CPU.
    handlers.run("exit", 0, 10_000, &[VCPU, CPUID, 0x1]);
    handlers.run("switch", 1, 12_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 1, 12_100, &[VCPU]);
    assert_eq!(handlers.vcpu(1).exits, 0);
    assert_eq!(handlers.unpaired(), 3);
    handlers.run("exit", 1, 13_000, &[VCPU, CPUID, 0x1]);
    handlers.run("entry", 1, 13_100, &[VCPU]);
    let counted = handlers.vcpu(1);
    assert_eq!((counted.exits, counted.split.total()), (1, 100));
    // No vCPU waits for the task that had the CPU.
    handlers.run("switch", 0, 14_000, &[0, SLEEPS, OTHER, TASK]);
    assert!(handlers.intervals().iter().all(|it| it.3 <= 9_000));
}

/// The thread of another VM got the CPU without an event. It enters its guest now.
#[test]
fn who_left_unseen_is_neither_ended_nor_counted_for() {
    for [kvm_vcpu, vm] in [[0xb0, 0x2], [0xb0, 0x1]] {
        let handlers = came();
        one_exit(&handlers, VCPU, 1_500);
        handlers.run("exit", 0, 2_000, &[VCPU, CPUID, 0x1]);
        handlers.run("entry", 0, 5_000, &[OTHER_VCPU, kvm_vcpu, vm]);
        handlers.run("exit", 0, 6_000, &[OTHER_VCPU, HLT, vm]);
        handlers.run("entry", 0, 6_200, &[OTHER_VCPU, kvm_vcpu, vm, 1]);
        assert_eq!(handlers.place_of(VCPU), Some(1));
        assert_eq!(handlers.place_of(OTHER_VCPU), Some(2));
        assert_eq!(handlers.vcpu(1).exits, 1);
        assert_eq!(handlers.bury(), []);
        let other = handlers.vcpu(2);
        assert_eq!((other.exits, other.split[Share::Kvm]), (1, 200));
        assert_eq!(handlers.unpaired(), 1);
        handlers.run("switch", 0, 7_000, &[1, 0, OTHER_VCPU, VCPU]);
        handlers.run("entry", 0, 7_100, &[VCPU]);
        one_exit(&handlers, VCPU, 8_000);
        assert_eq!(handlers.vcpu(1).split.total(), 200);
        assert_eq!(handlers.unpaired(), 1);
    }
}

#[test]
fn where_only_kvm_run_is_seen_its_thread_is_told_from_others() {
    let handlers = Handlers::two_runs();
    handlers.run("switch", 0, 3_400, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 3_500, &[0, SLEEPS, TASK, VCPU]);
    // The vCPU's thread lost the CPU at 4000 without an event.
    handlers.run("run_leave", 0, 5_000, &[OTHER_VCPU]);
    handlers.run("run_enter", 0, 5_100, &[OTHER_VCPU]);
    let counted = handlers.counted(1);
    assert_eq!((counted.exits, counted.split[Share::Vmm]), (1, 300));
    assert_eq!(counted.split[Share::Preempted], 500);
    assert_eq!(handlers.counted(2).split[Share::Vmm], 100);
    assert_eq!(handlers.unpaired(), 1);
}

#[test]
fn a_halt_is_that_of_the_thread_that_reports_it() {
    let handlers = Handlers::two_runs();
    // The vCPU lost the CPU at 4000 without an event.
    handlers.run("halted", 0, 5_000, &[500, 0, OTHER_VCPU]);
    handlers.run("run_leave", 0, 5_100, &[OTHER_VCPU]);
    assert_eq!(handlers.counted(1).split[Share::Halted], 0);
    assert_eq!(handlers.unpaired(), 1);
}

/// The vCPU's thread fell asleep, and an event showed this. The CPU on which the thread is now
/// seems to have no vCPU.
#[test]
fn who_is_back_unseen_from_a_halt_has_halted() {
    for cpu in [0, 1] {
        let handlers = came();
        handlers.run("exit", 0, 2_000, &[VCPU, HLT, 0x1]);
        handlers.run("switch", 0, 2_100, &[0, SLEEPS, VCPU, IDLE]);
        handlers.run("waking", 1, 5_000, &[VCPU]);
        // The vCPU's thread came back before 5050. The halt began at 2050.
        handlers.run("halted", cpu, 5_100, &[3_050, 1, VCPU]);
        handlers.run("entry", cpu, 5_200, &[VCPU]);
        let expected = ShareMap::from([(Share::Kvm, 150), (Share::Halted, 3_050)]);
        assert_eq!(handlers.vcpu(1).split, expected, "CPU {cpu}");
        assert_eq!(handlers.unpaired(), 1);
    }
}

/// A thread is a vCPU only after KVM has named it.
#[test]
fn a_halt_makes_nobody_a_vcpu() {
    for seen_before in [None, Some(VCPU)] {
        let handlers = Handlers::kvm_run_only();
        if let Some(tid) = seen_before {
            handlers.run("run_enter", 0, 1_000, &[tid]);
        }
        handlers.run("halted", 0, 5_000, &[500, 1, OTHER_VCPU]);
        assert_eq!(handlers.place_of(OTHER_VCPU), None);
        assert_eq!(handlers.unpaired(), seen_before.map_or(0, |_| 1));
    }
}

/// After another vCPU left a CPU without an event, it is unknown which task has the CPU. If a vCPU
/// leaves this CPU later, it came without an event.
#[test]
fn who_came_unseen_where_another_left_unseen_has_not_waited_all_the_time() {
    let handlers = Handlers::two_runs();
    handlers.run("switch", 0, 3_400, &[1, 0, VCPU, OTHER_VCPU]);
    handlers.run("run_enter", 0, 3_450, &[OTHER_VCPU]);
    handlers.run("switch", 0, 3_500, &[1, 0, OTHER_VCPU, VCPU]);
    // `VCPU` left at 3600, and `OTHER_VCPU` came back at 4500, both without an event.
    handlers.run("switch", 1, 4_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("switch", 0, 8_000, &[1, 0, OTHER_VCPU, TASK]);
    handlers.run("switch", 0, 9_000, &[0, SLEEPS, TASK, OTHER_VCPU]);
    assert_eq!(handlers.counted(2).split[Share::Preempted], 1_000);
    assert_eq!(handlers.counted(2).unseen_ns, 4_500);
    assert_eq!(handlers.unpaired(), 2);
}

/// When a waiting vCPU is moved, the kernel shows which task runs on the CPU that the vCPU leaves.
#[test]
fn who_left_unseen_is_not_told_to_have_run_when_a_vcpu_is_moved() {
    for (runs, reported) in [(TASK, vec![(2_100, 2_500)]), (OTHER, vec![])] {
        let handlers = came();
        handlers.run("exit", 0, 2_000, &[VCPU, CPUID, 0x1]);
        handlers.run("switch", 0, 2_100, &[1, 0, VCPU, TASK]);
        handlers.run("migrate", 1, 2_500, &[VCPU, runs + 1]);
        let activities = handlers.activities();
        let activities: Vec<_> = activities.iter().map(|it| (it.2, it.3)).collect();
        assert_eq!(activities, reported, "{runs}");
    }
}

/// On this machine only KVM_RUN is observed, so the guest may have run for a long time.
#[test]
fn who_is_back_unseen_in_its_guest_has_not_waited_all_the_time() {
    for (state, next) in [(0, TASK), (SLEEPS, TASK), (SLEEPS, IDLE)] {
        let handlers = Handlers::two_runs();
        handlers.run("switch", 0, 4_000, &[0, state, VCPU, next]);
        handlers.run("waking", 1, 4_050, &[VCPU]);
        // The vCPU's thread came back without an event at 4100.
        handlers.run("run_leave", 0, 9_000, &[VCPU]);
        handlers.run("run_enter", 0, 9_100, &[VCPU]);
        let expected = ShareMap::from([(Share::Vmm, 400), (Share::Preempted, 400)]);
        assert_eq!(handlers.counted(1).split, expected);
        assert_eq!(handlers.unpaired(), 1);
        let kept = handlers.intervals();
        let off: Vec<_> = kept.iter().filter(|it| it.0 != Kind::Vmm).collect();
        assert!(off.iter().all(|it| it.3 <= 4_000), "{off:?}");
        // The vCPU's thread also does not wait for the task that comes next.
        handlers.run("switch", 0, 9_200, &[1, 0, VCPU, TASK]);
        handlers.run("switch", 0, 9_300, &[0, SLEEPS, TASK, VCPU]);
        handlers.run("switch", 0, 9_400, &[0, SLEEPS, VCPU, OTHER]);
        handlers.run("switch", 0, 9_500, &[0, 0, OTHER, VCPU]);
        let runs = handlers.activities();
        let runs: Vec<_> = runs.iter().map(|it| (it.2, it.3)).collect();
        assert_eq!(runs, [(2_000, 2_400), (9_200, 9_300)]);
    }
}

/// The time that other tasks had is known if all of it was during the halt.
#[test]
fn who_is_back_unseen_from_a_halt_in_kvm_run_was_away_in_it() {
    for (halt_ns, preempted, halted) in [(4_000, 800 + 400, 3_200), (1_000, 400, 1_000)] {
        let handlers = Handlers::two_runs();
        handlers.run("switch", 0, 4_200, &[0, SLEEPS, VCPU, TASK]);
        handlers.run("waking", 1, 7_200, &[VCPU]);
        // The vCPU's thread came back before 8000.
        handlers.run("halted", 0, 8_000, &[halt_ns, 1, VCPU]);
        let expected = ShareMap::from([
            (Share::Vmm, 300),
            (Share::Preempted, preempted),
            (Share::Halted, halted),
        ]);
        assert_eq!(handlers.counted(1).split, expected);
    }
}

/// If a sleep was charged at a move and no event shows its end, the charge is undone.
#[test]
fn a_sleep_that_was_lost_sight_of_is_taken_back_once() {
    let handlers = Handlers::two_runs();
    handlers.run("switch", 1, 3_500, &[0, SLEEPS, OTHER, IDLE]);
    handlers.run("switch", 0, 4_000, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("waking", 1, 5_000, &[VCPU]);
    handlers.run("migrate", 1, 5_000, &[VCPU]);
    // The vCPU's thread came back without an event at 5100.
    handlers.run("switch", 1, 6_000, &[0, SLEEPS, VCPU, IDLE]);
    handlers.run("waking", 1, 7_000, &[VCPU]);
    handlers.run("switch", 1, 7_000, &[0, 0, IDLE, VCPU]);
    handlers.run("halted", 1, 7_010, &[1_010, 1, VCPU]);
    let expected = ShareMap::from([
        (Share::Vmm, 300),
        (Share::Preempted, 400),
        (Share::Halted, 1_010),
    ]);
    assert_eq!(handlers.counted(1).split, expected);
}

/// Returns two times between the first and the last entry of the vCPU, in ns: the time that is left
/// for the guest, and the unseen time.
fn guest_and_unseen(handlers: &Handlers) -> (u64, u64) {
    let counted = handlers.counted(1);
    let span_ns = counted.last_mono_ns - counted.first_mono_ns;
    let known_ns = counted.split.total() + counted.unseen_ns;
    (span_ns - known_ns, counted.unseen_ns)
}

#[test]
fn an_exit_that_nobody_saw_the_whole_of_is_not_its_guests() {
    let handlers = came();
    // The guest has 1000 ns before each of these exits.
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID, 0x1]);
    // The vCPU's thread left without an event at 2100.
    handlers.run("switch", 0, 5_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("entry", 0, 5_100, &[VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (1_000, 3_100));
    handlers.run("exit", 0, 6_100, &[VCPU, CPUID, 0x1]);
    handlers.run("switch", 0, 6_200, &[1, 0, VCPU, TASK]);
    // The vCPU's thread came back without an event at 7000.
    handlers.run("switch", 0, 8_000, &[1, 0, VCPU, OTHER]);
    handlers.run("switch", 0, 9_000, &[0, SLEEPS, OTHER, VCPU]);
    handlers.run("entry", 0, 9_100, &[VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (2_000, 6_100));
}

#[test]
fn between_entries_without_an_exit_nobody_knows() {
    // The kvm_exit at 3000 fires no event.
    let handlers = came();
    one_exit(&handlers, VCPU, 2_000);
    handlers.run("entry", 0, 3_100, &[VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (1_000, 1_000));
    // The kvm_entry at 2100 fires no event.
    let handlers = came();
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID, 0x1]);
    one_exit(&handlers, VCPU, 3_000);
    assert_eq!(guest_and_unseen(&handlers), (1_000, 1_100));
}

/// Until its last entry into KVM_RUN at 3300, the guest had 1600 ns.
#[test]
fn time_in_kvm_run_that_nobody_saw_is_not_its_guests() {
    // The vCPU's thread left without an event at 4000. Its state is unknown from its last event on.
    let handlers = Handlers::two_runs();
    handlers.run("switch", 0, 6_000, &[0, SLEEPS, TASK, VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (1_600, 2_700));
    handlers.run("run_leave", 0, 7_000, &[VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (2_600, 2_700));
    // The vCPU's thread left without an event at 7100. It is still in the VMM when it comes back.
    handlers.run("switch", 0, 8_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("switch", 0, 8_100, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 8_200, &[0, SLEEPS, TASK, VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (2_600, 2_700));
    handlers.run("run_enter", 0, 9_000, &[VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (2_600, 4_700));
    assert_eq!(handlers.counted(1).split.total(), 700);
    // The vCPU's thread came back without an event, and was in its guest until it leaves.
    handlers.run("switch", 0, 10_000, &[0, SLEEPS, VCPU, TASK]);
    handlers.run("run_leave", 0, 12_000, &[VCPU]);
    handlers.run("run_enter", 0, 12_100, &[VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (3_600, 6_700));
    assert_eq!(handlers.counted(1).split.total(), 800);
    assert_eq!(handlers.unpaired(), 3);
}

/// An event shows that the vCPU's thread leaves again. If this is the thread's last event, the
/// state is unknown until then.
#[test]
fn what_nobody_saw_is_within_the_time_that_is_reported() {
    let handlers = Handlers::two_runs();
    handlers.run("switch", 0, 4_000, &[0, SLEEPS, VCPU, TASK]);
    // The vCPU's thread came back without an event at 4100.
    handlers.run("switch", 0, 9_000, &[0, SLEEPS, VCPU, TASK]);
    assert_eq!(guest_and_unseen(&handlers), (2_300, 5_000));
}

/// KVM reports that a part of this time was a halt, so not all of it is unknown.
#[test]
fn a_halt_in_which_a_switch_was_not_seen_is_whole() {
    let handlers = Handlers::two_runs();
    // The guest halts at 4000, and the vCPU's thread leaves without an event at 4100.
    handlers.run("switch", 0, 6_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("halted", 0, 6_100, &[2_100, 1, VCPU]);
    assert_eq!(guest_and_unseen(&handlers), (1_600, 700));
    assert_eq!(handlers.counted(1).split[Share::Halted], 2_100);
    // The vCPU polls from 7000. Events show its wait, but nothing else until the next halt.
    handlers.run("switch", 0, 7_100, &[1, 0, VCPU, TASK]);
    handlers.run("switch", 0, 7_300, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("switch", 0, 8_000, &[0, SLEEPS, TASK, VCPU]);
    handlers.run("halted", 0, 8_100, &[1_100, 1, VCPU]);
    // Time that was charged before the state became unknown at 7300 is kept.
    let counted = handlers.counted(1);
    assert_eq!(
        (
            counted.split[Share::Preempted],
            counted.split[Share::Halted]
        ),
        (600, 2_900)
    );
    assert_eq!(guest_and_unseen(&handlers), (2_600, 700));
}
