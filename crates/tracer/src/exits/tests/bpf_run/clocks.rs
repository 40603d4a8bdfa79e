//! Tests of TSC offsets. If KVM writes the offset of a vCPU, BPF reports this write through the ring
//! buffer. The tests compare the reported offset with debugfs.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::{Event, VcpuClock};

use super::harness::{Handlers, VCPU};
use vmnoise_host::Host;

/// Number of the vCPU in its VM.
const NUMBER: u64 = 3;

/// A simulated machine with one vCPU in debugfs.
struct Machine {
    root: tempfile::TempDir,
    handlers: Handlers,
}

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine {
            root,
            handlers: Handlers::entered(),
        };
        fs::create_dir_all(machine.folder()).unwrap();
        fs::write(machine.folder().join("pid"), VCPU.to_string()).unwrap();
        machine
    }

    fn folder(&self) -> std::path::PathBuf {
        let vcpu = format!("sys/kernel/debug/kvm/{VCPU}-9/vcpu{NUMBER}");
        self.root.path().join(vcpu)
    }

    /// Makes KVM report a write at this moment. Returns its time in ns.
    fn report_write(&self, previous: i64, next: i64) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let [previous, next] = [previous, next].map(i64::cast_unsigned);
        let values = [VCPU, NUMBER, previous, next];
        self.handlers.run("tsc_write", 0, now_ns, &values);
        now_ns
    }

    /// Sets the offset in debugfs. Returns the clocks that are then reported.
    fn look(&self, offset_tsc: i64) -> Vec<VcpuClock> {
        fs::write(self.folder().join("tsc-offset"), offset_tsc.to_string()).unwrap();
        let reported = self
            .handlers
            .clocks(&Host::under(self.root.path()), NUMBER as u32);
        assert!(matches!(&reported[0], Event::Vcpu(vcpu) if vcpu.tid == VCPU as u32));
        let clocks = reported.iter().filter_map(|event| match event {
            Event::VcpuClock(clock) => Some(*clock),
            _ => None,
        });
        clocks.collect()
    }
}

#[test]
fn a_write_is_believed_where_debugfs_agrees() {
    let machine = Machine::new();
    let first = machine.look(-5)[0];
    assert_eq!(first.offset_tsc, -5);
    assert_eq!(first.before_until_mono_ns, first.from_mono_ns);

    let written_ns = machine.report_write(-5, 1 << 40);
    let second = machine.look(1 << 40)[1];
    assert_eq!(second.offset_tsc, 1 << 40);
    assert_eq!(second.before_until_mono_ns, written_ns);
    assert_eq!(second.from_mono_ns, written_ns);

    let refused_ns = machine.report_write(1 << 40, -9);
    assert_eq!(machine.look(1 << 40).len(), 2);
    let third = machine.look(7)[2];
    assert!(third.before_until_mono_ns > refused_ns, "{third:?}");
    assert!(third.before_until_mono_ns < third.from_mono_ns, "{third:?}");
}

#[test]
fn a_write_that_finds_no_room_is_a_loss() {
    let handlers = Handlers::of(false, 0, rustix::param::page_size() as u32);
    // Each record has a header of 8 bytes.
    let fit = rustix::param::page_size() as u64 / 40;
    for _ in 0..=fit {
        handlers.run("tsc_write", 0, 1_000, &[VCPU, NUMBER, 0, 1]);
    }
    assert_eq!(handlers.lost(), 1);
}
