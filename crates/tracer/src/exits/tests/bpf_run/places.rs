//! Tests of vCPUs that come and go. The table has few slots, and each vCPU is counted once and
//! separately.

use vmnoise_events::VcpuId;

use super::harness::{CPUID, Handlers, PLACES, SLEEPS, TASK, VCPU};

/// Makes this many exits of 100 ns, one after the other. Returns the time of the last entry.
fn exits(handlers: &Handlers, tid: u64, from_ns: u64, count: u64) -> u64 {
    handlers.run("entry", 0, from_ns, &[tid]);
    let mut now_ns = from_ns;
    for _ in 0..count {
        handlers.run("exit", 0, now_ns + 100, &[tid, CPUID]);
        handlers.run("entry", 0, now_ns + 200, &[tid]);
        now_ns += 200;
    }
    now_ns
}

/// Ends a thread, and switches it out for the last time. This switch comes after the event for the
/// end.
fn ends(handlers: &Handlers, tid: u64, now_ns: u64) {
    handlers.run("thread_ends", 0, now_ns, &[tid]);
    handlers.run("switch", 0, now_ns + 10, &[0, SLEEPS, tid, TASK]);
}

#[test]
fn places_are_given_again_to_those_who_come() {
    let handlers = Handlers::new();
    let mut now_ns = 1_000;
    let count = u64::from(PLACES) * 3;
    for number in 1..=count {
        let tid = VCPU + number;
        now_ns = exits(&handlers, tid, now_ns, number);
        let place = handlers.place_of(tid).unwrap();
        let counted = handlers.counted(place);
        // The counts contain nothing of the vCPU that had this slot before.
        assert_eq!(
            (counted.exits, counted.split.total()),
            (number, 100 * number)
        );
        ends(&handlers, tid, now_ns);
        assert_eq!(handlers.place_of(tid), None);
        // Late events of a thread that has ended are not counted.
        assert_eq!(handlers.counted(place), counted);
        assert_eq!(handlers.bury(), [(place, tid as u32)]);
        now_ns += 100;
    }
    assert_eq!(handlers.vcpus_lost(), 0);
}

#[test]
fn a_thread_number_that_comes_back_is_another_vcpu() {
    let handlers = Handlers::new();
    let now_ns = exits(&handlers, VCPU, 1_000, 2);
    ends(&handlers, VCPU, now_ns);
    // The slot of the first vCPU is not free, because its counts were not read yet.
    exits(&handlers, VCPU, now_ns + 5_000, 3);
    assert_eq!(
        (handlers.counted(1).exits, handlers.counted(2).exits),
        (2, 3)
    );
    let [first, second] = [handlers.counted(1), handlers.counted(2)];
    assert!(first.last_mono_ns < second.first_mono_ns);
    assert_eq!(handlers.bury(), [(1, VCPU as u32)]);
    assert_eq!(handlers.place_of(VCPU), Some(2));
}

#[test]
fn vcpus_without_a_place_are_counted_and_not_their_events() {
    let handlers = Handlers::new();
    let tids: Vec<u64> = (0..u64::from(PLACES) + 3)
        .map(|number| VCPU + number)
        .collect();
    let mut now_ns = 1_000;
    for _ in 0..5 {
        for &tid in &tids {
            handlers.run("switch", 0, now_ns, &[0, SLEEPS, TASK, tid]);
            now_ns = exits(&handlers, tid, now_ns + 100, 2);
            handlers.run("switch", 0, now_ns + 100, &[1, 0, tid, TASK]);
            now_ns += 200;
        }
    }
    assert_eq!(handlers.vcpus_lost(), 3);
    assert_eq!(handlers.counted(1).exits, 5 * 2);
    // vCPUs that found no free slot get the next slots that become free. They still count as lost.
    let last = *tids.last().unwrap();
    assert_eq!(handlers.place_of(last), Some(0));
    handlers.run("switch", 0, now_ns, &[0, SLEEPS, TASK, tids[0]]);
    ends(&handlers, tids[0], now_ns + 10);
    assert_eq!(handlers.bury(), [(1, tids[0] as u32)]);
    exits(&handlers, last, now_ns + 1_000, 4);
    assert_eq!(handlers.counted(1).exits, 4);
    assert_eq!(handlers.vcpus_lost(), 3);
    // A vCPU that ends without a slot leaves no data.
    ends(&handlers, tids[tids.len() - 2], now_ns + 9_000);
    assert_eq!(handlers.bury(), []);
}

#[test]
fn who_has_ended_is_current_nowhere() {
    let handlers = Handlers::entered();
    handlers.run("exit", 0, 2_000, &[VCPU, CPUID]);
    handlers.run("thread_ends", 0, 2_100, &[VCPU]);
    // A thread of another VMM replaces the vCPU on the CPU and in the table.
    handlers.run("switch", 0, 2_200, &[0, SLEEPS, VCPU, VCPU + 1]);
    assert_eq!(handlers.bury(), [(1, VCPU as u32)]);
    for _ in 1..PLACES {
        let now_ns = exits(&handlers, VCPU + 1, 3_000, 1);
        ends(&handlers, VCPU + 1, now_ns);
        handlers.bury();
    }
    handlers.run("entry", 0, 9_000, &[VCPU + 2]);
    assert_eq!(handlers.place_of(VCPU + 2), Some(1));
    assert_eq!(handlers.counted(1).first_mono_ns, 9_000);
}

#[test]
fn a_thread_that_outlives_its_vm_gives_up_its_place() {
    let handlers = Handlers::new();
    let now_ns = exits(&handlers, VCPU, 1_000, 2);
    // No VM of this process was seen so far, so the absence of the VM proves nothing.
    handlers.vms_are(&[]);
    assert_eq!(handlers.place_of(VCPU), Some(1));
    handlers.vms_are(&[VCPU]);
    handlers.vms_are(&[VCPU, TASK]);
    assert_eq!(handlers.place_of(VCPU), Some(1));
    handlers.vms_are(&[TASK]);
    // The thread has the CPU. Its next exit on this CPU would be counted in its slot.
    assert_eq!(handlers.place_of(VCPU), None);
    assert_eq!(handlers.bury(), []);
    handlers.run("switch", 0, now_ns + 100, &[0, SLEEPS, VCPU, TASK]);
    assert_eq!(handlers.bury(), [(1, VCPU as u32)]);
    // If the same thread runs another VM, it becomes another vCPU.
    handlers.run("switch", 0, now_ns + 200, &[0, SLEEPS, TASK, VCPU]);
    exits(&handlers, VCPU, now_ns + 300, 3);
    assert_eq!(handlers.place_of(VCPU), Some(2));
    assert_eq!(handlers.counted(2).exits, 3);
}

/// This process cannot read the files of another user's VMM, but can read the VMM's name.
#[test]
fn a_vcpu_whose_vm_was_never_seen_keeps_its_place() {
    let handlers = Handlers::new();
    exits(&handlers, VCPU, 1_000, 2);
    handlers.learns(VCPU);
    for _ in 0..3 {
        handlers.vms_are(&[TASK]);
        assert_eq!(handlers.place_of(VCPU), Some(1));
    }
}

/// A process may end before it is looked up. Its name is still reported.
#[test]
fn a_vcpu_that_has_ended_is_named_as_soon_as_its_name_is_known() {
    for ends_first in [true, false] {
        let handlers = Handlers::new();
        let now_ns = exits(&handlers, VCPU, 1_000, 2);
        let process = handlers.wire_vcpu(1).tgid;
        assert_eq!(handlers.newcomers(), [process]);
        let number = format!("vm:{process}");
        assert_eq!(handlers.names(), [(VcpuId(0), number)]);
        ends(&handlers, VCPU, now_ns);
        if ends_first {
            assert_eq!(handlers.bury(), [(1, VCPU as u32)]);
        }
        handlers.learns(u64::from(process));
        assert_eq!(handlers.names(), [(VcpuId(0), "web".to_owned())]);
        // Later, another process with another name has this process id.
        handlers.learns(u64::from(process));
        assert_eq!(handlers.names(), []);
    }
}

/// Another process gets the process id of a process that has ended, and ends before it is looked
/// up.
#[test]
fn a_process_does_not_inherit_the_name_that_its_number_had() {
    let handlers = Handlers::new();
    let now_ns = exits(&handlers, VCPU, 1_000, 2);
    let process = handlers.wire_vcpu(1).tgid;
    assert_eq!(handlers.newcomers(), [process]);
    handlers.learns(u64::from(process));
    assert_eq!(handlers.names(), [(VcpuId(0), "web".to_owned())]);
    ends(&handlers, VCPU, now_ns);
    assert_eq!(handlers.bury(), [(1, VCPU as u32)]);

    exits(&handlers, VCPU, now_ns + 1_000, 2);
    assert_eq!(handlers.newcomers(), [process]);
    let number = format!("vm:{process}");
    assert_eq!(handlers.names(), [(VcpuId(1), number)]);
}

/// The VM of a thread closes, and all processes are scanned. The thread enters the next VM before
/// the result is used.
#[test]
fn a_place_is_given_up_once() {
    let handlers = Handlers::new();
    let now_ns = exits(&handlers, VCPU, 1_000, 2);
    handlers.vms_are(&[VCPU]);
    handlers.run("thread_ends", 0, now_ns + 100, &[VCPU]);
    exits(&handlers, VCPU, now_ns + 200, 3);
    handlers.vms_were(&[]);
    assert_eq!(handlers.bury(), [(1, VCPU as u32)]);
    assert_eq!(handlers.bury(), []);
    assert_eq!(handlers.place_of(VCPU), Some(2));
    assert_eq!(handlers.counted(2).exits, 3);
    // No slot is in the list of free slots twice.
    for number in 1..u64::from(PLACES) {
        let (before, tid) = (VCPU + number - 1, VCPU + number);
        handlers.run("switch", 0, 9_000 * number, &[0, SLEEPS, before, tid]);
        exits(&handlers, tid, 9_000 * number + 100, 1);
    }
    let mut places: Vec<_> = (0..u64::from(PLACES))
        .map(|number| handlers.place_of(VCPU + number))
        .collect();
    places.sort_unstable();
    assert_eq!(places, (1..=PLACES).map(Some).collect::<Vec<_>>());
}

/// Each CPU counts the vCPUs that wait for it. Running tasks are named while this count is not 0.
#[test]
fn who_gives_up_its_place_leaves_nobody_waiting() {
    for waits in [false, true] {
        let handlers = Handlers::new();
        let now_ns = exits(&handlers, VCPU, 1_000, 2);
        handlers.vms_are(&[VCPU]);
        if waits {
            handlers.run("switch", 0, now_ns + 100, &[1, 0, VCPU, TASK]);
            handlers.vms_are(&[]);
            // The slot is freed only after the wait ends.
            assert_eq!(handlers.place_of(VCPU), Some(1));
            assert_eq!(handlers.bury(), []);
            handlers.run("switch", 0, now_ns + 200, &[0, SLEEPS, TASK, VCPU]);
        }
        handlers.vms_are(&[]);
        assert_eq!(handlers.place_of(VCPU), None);
        handlers.run("switch", 0, now_ns + 300, &[1, 0, VCPU, TASK]);
        handlers.reported();
        assert_eq!(handlers.bury(), [(1, VCPU as u32)]);
        handlers.run("switch", 0, now_ns + 400, &[0, SLEEPS, TASK, TASK + 1]);
        let reported = handlers.activities();
        assert!(
            reported.iter().all(|it| it.3 <= now_ns + 200),
            "{reported:?}"
        );
    }
}

/// The vCPU that the thread enters: its address, the address of its VM, and its number of exits.
type Entered = [u64; 3];

/// Enters this vCPU. Then makes `count` exits and entries, one every 100 ns. Returns the time of
/// the last entry.
fn exits_of(handlers: &Handlers, [kvm_vcpu, vm, made]: Entered, from_ns: u64, count: u64) -> u64 {
    let at = |number| from_ns + 200 * number;
    handlers.run("entry", 0, from_ns, &[VCPU, kvm_vcpu, vm, made]);
    for number in 0..count {
        handlers.run("exit", 0, at(number) + 100, &[VCPU, CPUID, vm]);
        let made = made + number + 1;
        handlers.run("entry", 0, at(number + 1), &[VCPU, kvm_vcpu, vm, made]);
    }
    at(count)
}

/// KVM reuses the memory of an old VM or vCPU for a new one.
#[test]
fn a_thread_that_takes_up_another_vm_is_another_vcpu_at_once() {
    for next in [
        [0xb0, 0x2, 0],
        [0xb0, 0x2, 9_000],
        [0xa0, 0x2, 0],
        [0xa0, 0x2, 9_000],
        [0xa0, 0x1, 0],
    ] {
        let handlers = Handlers::new();
        let now_ns = exits_of(&handlers, [0xa0, 0x1, 40], 1_000, 2);
        handlers.run("exit", 0, now_ns + 100, &[VCPU, CPUID, 0x1]);
        handlers.run("run_leave", 0, now_ns + 200, &[VCPU]);
        handlers.run("run_enter", 0, now_ns + 4_900, &[VCPU]);
        // The first VM is not entered again. Its last exit therefore never ends, and is not counted
        // for the second VM.
        exits_of(&handlers, next, now_ns + 5_000, 3);
        assert_eq!(
            (handlers.counted(1).exits, handlers.counted(2).exits),
            (2, 3),
            "{next:x?}"
        );
        assert_eq!(handlers.counted(2).split.total(), 300);
        assert_eq!(handlers.bury(), [(1, VCPU as u32)]);
        assert_eq!(handlers.place_of(VCPU), Some(2));
    }
}

/// One of the vCPUs has made fewer exits than the other.
#[test]
fn a_thread_that_takes_turns_with_the_vcpus_of_a_vm_is_one_vcpu() {
    let handlers = Handlers::new();
    let mut now_ns = 1_000;
    for round in 0..3 {
        for (kvm_vcpu, made) in [(0xa0, 400), (0xb0, 7)] {
            now_ns = exits_of(&handlers, [kvm_vcpu, 0x1, made + 2 * round], now_ns, 2);
            handlers.run("exit", 0, now_ns, &[VCPU, CPUID, 0x1]);
        }
    }
    assert_eq!(handlers.bury(), []);
    assert_eq!(handlers.place_of(VCPU), Some(1));
    assert_eq!(handlers.counted(2).exits, 0);
}

#[test]
fn one_process_is_followed_and_the_others_are_not_lost() {
    let handlers = Handlers::new();
    let (followed, other) = (VCPU, VCPU + 1);
    handlers.follows(followed);
    let mut now_ns = 1_000;
    for tid in [other, followed, other] {
        handlers.run("switch", 0, now_ns, &[0, SLEEPS, TASK, tid]);
        now_ns = exits(&handlers, tid, now_ns + 100, 3);
        handlers.run("switch", 0, now_ns + 100, &[1, 0, tid, TASK]);
        now_ns += 200;
    }
    assert_eq!(handlers.counted(1).exits, 3);
    assert_eq!(handlers.place_of(followed), Some(1));
    assert_eq!((handlers.place_of(other), handlers.vcpus_lost()), (None, 0));
    assert_eq!(handlers.unpaired(), 0);
    let told = handlers.exits(1);
    assert_eq!((told.len(), handlers.exits(2).len()), (3, 0));
}
