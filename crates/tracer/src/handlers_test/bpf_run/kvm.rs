//! Tests of KVM's events: the time of the VMM, and exits.

use vmnoise_events::ActivityKind::{Exit, Vmm};

use super::harness::{Handlers, PAGE};

#[test]
fn time_outside_kvm_run_is_the_vmms() {
    let it = Handlers::new(PAGE);
    it.run_enter(1, 1000);
    it.run_leave(1, 2000);
    it.userspace_exit(1, 2001);
    it.run_enter(1, 2500);
    it.run("test_kvm_run_leave", 1, 2600, &[7]); // thread of another VM on this CPU
    it.run_leave(1, 3000);
    it.userspace_exit(1, 3001);
    it.run_enter(1, 3100);
    it.expect(
        &[
            (Vmm, 1, 2000, 2500, "vmm:101"),
            (Vmm, 1, 3000, 3100, "vmm:101"),
        ],
        0,
    );
    assert_eq!((it.counts.heavy(1), it.counts.light(1)), (2, 0));
    assert!(!it.cpus.exits_fire(1));
}

#[test]
fn half_a_vmm_interval_is_counted_and_not_reported() {
    let it = Handlers::new(PAGE);
    it.run_enter(1, 1000);
    it.run_enter(1, 2000);
    it.run_leave(1, 3000);
    it.run_leave(1, 4000);
    it.run_enter(1, 5000);
    it.expect(&[(Vmm, 1, 4000, 5000, "vmm:101")], 2);
}

#[test]
fn exits_are_light_until_they_leave_kvm_run() {
    let it = Handlers::new(PAGE);
    it.run_enter(1, 900);
    it.entry(1, 1000);
    it.exit(1, 2000);
    it.entry(1, 2100);
    it.exit(1, 3000);
    it.run_leave(1, 3100);
    it.userspace_exit(1, 3110);
    it.run_enter(1, 3200);
    it.entry(1, 3300);
    it.expect(
        &[
            (Exit, 1, 2000, 2100, "vmexit"),
            (Vmm, 1, 3100, 3200, "vmm:101"),
            (Exit, 1, 3000, 3300, "vmexit"),
        ],
        0,
    );
    assert_eq!((it.counts.light(1), it.counts.heavy(1)), (1, 1));
    assert!(it.cpus.exits_fire(1));
}

#[test]
fn an_exit_is_reported_by_its_reason_as_far_as_that_is_known() {
    let it = Handlers::new(PAGE);
    it.entry(1, 1000);
    for (start, isa, code) in [
        (2000, 2, 0x60),
        (3000, 1, 30),
        (4000, 2, 0x999),
        (5000, 0, u64::MAX - 1),
    ] {
        it.exit_for(1, start, isa, code);
        it.entry(1, start + 100);
    }
    it.expect(
        &[
            (Exit, 1, 2000, 2100, "interrupt"),
            (Exit, 1, 3000, 3100, "IO_INSTRUCTION"),
            (Exit, 1, 4000, 4100, "unknown_0x999"),
            (Exit, 1, 5000, 5100, "vmexit"),
        ],
        0,
    );
}

#[test]
fn an_exit_starts_at_the_first_host_work() {
    let it = Handlers::new(PAGE);
    it.entry(1, 1000);
    it.irq_entry(1, 2000, 236, "timer");
    it.irq_exit(1, 2050, 236);
    it.exit(1, 2100);
    it.irq_entry(1, 2110, 236, "timer");
    it.irq_exit(1, 2120, 236);
    it.entry(1, 2200);
    it.run("test_nmi", 1, 3000, &[20]);
    it.exit(1, 3010);
    it.entry(1, 3100);
    it.exit(1, 4000);
    it.entry(1, 4050);
    let exits: Vec<_> = it
        .seen()
        .into_iter()
        .filter(|seen| seen.0 == Exit)
        .map(|(_, _, start, end, _)| (start, end))
        .collect();
    assert_eq!(exits, [(2000, 2200), (2980, 3100), (4000, 4050)]);
}

/// The hardware enters the guest a short time after kvm_entry. An NMI in between does not end guest
/// time.
#[test]
fn an_nmi_before_the_guest_runs_begins_no_exit() {
    let it = Handlers::new(PAGE);
    it.entry(1, 1_000);
    it.run("test_nmi", 1, 1_100, &[50]);
    it.exit(1, 2_001_000);
    it.entry(1, 2_002_000);
    // An interrupt ends the guest's next run.
    it.run("test_nmi", 1, 2_002_300, &[50]);
    it.irq_entry(1, 6_000_000, 236, "timer");
    it.irq_exit(1, 6_002_000, 236);
    it.exit(1, 6_003_000);
    it.entry(1, 6_004_000);
    // Two NMIs at the end of the guest's run are part of the exit.
    it.run("test_nmi", 1, 7_000_000, &[1_000]);
    it.run("test_nmi", 1, 7_009_000, &[1_000]);
    it.exit(1, 7_018_000);
    it.entry(1, 7_019_000);
    let exits = it.seen().into_iter().filter(|seen| seen.0 == Exit);
    let exits = exits.map(|(_, _, start, end, _)| (start, end));
    assert_eq!(
        exits.collect::<Vec<_>>(),
        [
            (2_001_000, 2_002_000),
            (6_000_000, 6_004_000),
            (6_999_000, 7_019_000)
        ]
    );
}

#[test]
fn half_an_exit_is_counted_and_not_reported() {
    let it = Handlers::new(PAGE);
    it.entry(1, 1000);
    it.entry(1, 1100);
    it.exit(1, 2000);
    it.exit(1, 2100);
    it.entry(1, 2200);
    it.expect(&[(Exit, 1, 2100, 2200, "vmexit")], 2);
}
