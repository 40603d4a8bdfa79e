//! Tests the clocks of guests that `vmnoise exits` records.

use std::io::Read;

use vmnoise_events::{Vcpu, VcpuClock};

use crate::recorded;

/// Returns the vCPUs of a VMM, and the clocks of their guests.
fn clocks(recording: impl Read, vmm_pid: u32) -> Vec<(Vcpu, VcpuClock)> {
    let mut clocks = recorded::clocks(recording);
    clocks.retain(|(vcpu, _)| vcpu.vmm_pid == vmm_pid);
    clocks
}

/// Asserts that the guest's clock has no offset from the host's TSC and the same frequency.
fn assert_is_the_hosts(clock: &VcpuClock) {
    assert_eq!(clock.offset_tsc, 0, "{clock:?}");
    assert_eq!(clock.guest_tsc(1 << 40), Some(1 << 40), "{clock:?}");
}

mod kvm {
    use std::fs::File;
    use std::process::Command;

    use rustix::process::Signal;
    use vmnoise_testbed::{VmnoiseRun, binary};
    use vmnoise_testkit::wait_until;

    use super::*;

    #[test]
    fn of_a_vm_that_was_there_and_of_one_that_came() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.vmn");
        let there = VmnoiseRun::microvm(1, &["-d", "1m"]).unwrap();
        let exits = ["exits", "-q", "-T", "1s", "-d", "1m", "-o"];
        let exits = VmnoiseRun::of(Command::new(binary()).args(exits).arg(&file)).unwrap();
        let of =
            |run: &VmnoiseRun| File::open(&file).map_or(Vec::new(), |file| clocks(file, run.pid()));
        let wait_for = |run: &VmnoiseRun| {
            wait_until("the clock of a VM", || !of(run).is_empty());
        };
        // `vmnoise exits` reports the clock of this VM as soon as its BPF programs are attached.
        wait_for(&there);
        let came = VmnoiseRun::microvm(1, &["-d", "1m"]).unwrap();
        wait_for(&came);
        for run in [&exits, &there, &came] {
            run.signal(Signal::INT).unwrap();
        }
        let pids = [there.pid(), came.pid()];
        for run in [exits, there, came] {
            let (status, _, stderr) = run.output().unwrap();
            assert_eq!(status, Some(0), "{stderr}");
        }
        let [there, came] = pids.map(|pid| clocks(File::open(&file).unwrap(), pid));
        let ([(_, there)], [(vcpu, came)]) = (&there[..], &came[..]) else {
            panic!("{there:?}, {came:?}")
        };
        assert_eq!(vcpu.number, Some(0));
        assert_is_the_hosts(there);
        assert_eq!(there.before_until_mono_ns, there.from_mono_ns);
        // `vmnoise exits` observed when the offset of this clock was written.
        assert_is_the_hosts(came);
        assert_eq!(came.before_until_mono_ns, 0);
        assert!(came.from_mono_ns > there.from_mono_ns);
    }
}

mod virtual_time {
    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::lab_program;
    use vmnoise_testbed::vmm_steps::Treatment;

    use super::*;

    /// Limit of a time difference, nanoseconds. tracefs reports times in microseconds. One
    /// tracepoint calls tracefs and our program one after the other, so they read the clock at
    /// different times.
    const CLOSE_NS: u64 = 4_000;

    /// Parses a line of tracefs about a write of a TSC offset. Returns its time by the trace clock
    /// `mono` in nanoseconds, its thread, the offset before the write, and the offset after it.
    fn write(line: &str) -> Option<(u64, u32, i64, i64)> {
        let (head, event) = line.split_once(": kvm_write_tsc_offset: vcpu=0 prev=")?;
        let (thread, _) = head.split_once(" [")?;
        let (seconds, micros) = head.rsplit_once(' ')?.1.split_once('.')?;
        let (previous, next) = event.split_once(" next=")?;
        let micros = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
        let offset = |text: &str| text.parse().map(u64::cast_signed).ok();
        let thread = thread.rsplit_once("-")?.1.trim().parse().ok()?;
        Some((micros * 1_000, thread, offset(previous)?, offset(next)?))
    }

    #[test]
    fn what_tracefs_has_of_a_write_is_recorded() {
        let programs = ["lab-guest", "lab-tracefs", "lab-vmm"];
        let lab = programs
            .iter()
            .fold(Lab::kernel(DebianKernel::Cloud), |lab, program| {
                lab.program(&lab_program(program).unwrap())
            });
        let report = lab
            .virtual_time(2)
            .run(&[
                "&& lab-tracefs while trace_clock=mono \
                 events/kvm/kvm_write_tsc_offset/enable=1 -- \
                 vmnoise exits -q -T 1s -d 5m -o /tmp/host.vmn",
                "lab-vmm traced start stop run:100 kill -- vmnoise microvm --exercise cpuid -d 5m",
                "lab-vmm untrace run:500 --",
                "lab-tracefs show",
                "lab-guest print /tmp/host.vmn",
            ])
            .unwrap();
        let [treatment, _, trace, recording, _] = &report.outputs[..] else {
            panic!("{}", report.outputs.len())
        };
        let treatment: Treatment = serde_json::from_str(treatment.text().unwrap()).unwrap();
        let recording = recording.file().unwrap();
        let clocks = clocks(recording.as_slice(), treatment.pid);
        let [(vcpu, clock)] = &clocks[..] else {
            panic!("{clocks:?}")
        };
        let trace = trace.text().unwrap();
        let mut writes = trace.lines().filter_map(write);
        let (made_ns, _, _, made) = writes.next().unwrap();
        let (set_ns, tid, previous, set) = writes.next().unwrap();
        assert_eq!(writes.next(), None, "{trace}");
        println!("created at {made_ns} ns with {made}, set at {set_ns} ns to {set}: {clock:?}");
        // KVM starts a guest's TSC at 0. Later, the VMM set it to the TSC of its host.
        assert!(made < 0 && previous == made && set == 0, "{trace}");
        assert_is_the_hosts(clock);
        assert_eq!(vcpu.tid, tid);
        assert_eq!(clock.before_until_mono_ns, 0);
        assert!(clock.from_mono_ns.abs_diff(set_ns) <= CLOSE_NS);
        assert!(set_ns - made_ns > CLOSE_NS);
    }
}
