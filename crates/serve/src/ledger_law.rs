//! Tests that exported sums are consistent, whichever events the gate misses: no sum falls, no time
//! is in two sums, and the sums do not exceed the elapsed time.

use vmnoise_events::VmIdentity;
use vmnoise_tracer::{VcpuBooks, VcpuThreadState, WaitLengths};

use crate::ledger::VmTotals;
use crate::ledger::tests::{PLACE, changes, who};

/// Returns the counters of a vCPU that the gate finds at `mono_ns`.
pub(crate) fn begun(mono_ns: u64) -> VcpuBooks {
    VcpuBooks {
        state: VcpuThreadState::Unseen,
        first_mono_ns: mono_ns,
        since_mono_ns: mono_ns,
        confirmed_mono_ns: 0,
        has_missed: false,
        spent_ns: Default::default(),
        idle_ns: 0,
        throttled_ns: 0,
        unsure_ns: 0,
        unnamed_ns: 0,
        waited_ns: 0,
        culprits: Vec::new(),
        waits: WaitLengths::none(),
    }
}

/// Does the same as `forget_unconfirmed` of the gate's BPF programs, at the first event after a
/// missed event. The time since the last confirmation becomes unseen.
fn forget_unconfirmed(books: &mut VcpuBooks, mono_ns: u64) {
    if books.state != VcpuThreadState::Waiting {
        let confirmed_ns = books.confirmed_mono_ns.max(books.since_mono_ns);
        books.spent_ns[books.state as usize] += confirmed_ns - books.since_mono_ns;
        books.since_mono_ns = confirmed_ns;
    }
    books.state = VcpuThreadState::Unseen;
    books.spent_ns[VcpuThreadState::Unseen as usize] += mono_ns - books.since_mono_ns;
    books.since_mono_ns = mono_ns;
    books.has_missed = false;
}

/// Returns the exported sums of a VM that has exactly one vCPU.
fn exported(vm: &VmTotals, now: u64) -> Vec<u64> {
    let series = vm.told(now);
    let [of_vcpu] = &series[..] else {
        panic!("expected one vCPU: {series:?}");
    };
    let lost = of_vcpu.lost.shares().map(|(_, ns)| ns);
    [&lost[..], &of_vcpu.states.map(|(_, ns)| ns)].concat()
}

#[test]
fn no_missed_event_takes_back_exported_time() {
    const FIRST: u64 = 1_000;
    let mut random = fastrand::Rng::with_seed(35);
    let mut vm = VmTotals::new("web".into(), VmIdentity::default(), true);
    vm.tell_of(PLACE, &"0".into(), 7);
    let mut now = FIRST;
    let mut books = begun(now);
    let mut before = vec![0; 9];
    for _ in 0..20_000 {
        for _ in 0..random.u8(0..4) {
            now += random.u64(1..1_000);
            let is_known = !books.has_missed;
            match random.u8(0..4) {
                // A walk confirms the vCPU's state, or shows that the vCPU left a CPU without an
                // event.
                0 if is_known => books.confirmed_mono_ns = now,
                1 => books.has_missed = true,
                2 if is_known => changes(&mut books, now, &mut random),
                _ => forget_unconfirmed(&mut books, now),
            }
        }
        now += random.u64(1..1_000);
        vm.take_in(PLACE, &books, now, who);
        let sums = exported(&vm, now);
        let falls = sums.iter().zip(&before).any(|(now, before)| now < before);
        assert!(!falls, "exported sums fell: {before:?}, then {sums:?}");
        let lost = vm.lost.shares().map(|(_, ns)| ns);
        let of_vm = [&lost[..], &[vm.ran_ns, vm.halted_ns, vm.asleep_ns]].concat();
        assert_eq!(sums, of_vm, "the vCPU's sums differ from the VM's");
        let not_final = now - books.final_until_ns(now);
        let ended = books.spent_ns(VcpuThreadState::Ended);
        let all: u64 = sums.iter().sum();
        assert_eq!(all + not_final + ended, now - FIRST);
        before = sums;
    }
}

/// The clocks of BPF and of user space may differ. A poll that has not seen a switch may therefore
/// have a slightly later time than the switch itself.
#[test]
fn clocks_that_differ_lower_no_sum() {
    let mut vm = VmTotals::new("web".into(), VmIdentity::default(), true);
    vm.tell_of(PLACE, &"0".into(), 7);
    let mut books = begun(1_000);
    vm.take_in(PLACE, &books, 2_000, who);
    let before = exported(&vm, 2_000);
    books.spent_ns[VcpuThreadState::Unseen as usize] = 990;
    books.since_mono_ns = 1_990;
    books.state = VcpuThreadState::Running;
    vm.take_in(PLACE, &books, 2_000, who);
    assert_eq!(exported(&vm, 2_000), before);
}
