//! What a recording of `vmnoise exits` tells of the clock of each vCPU's guest.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

use std::io::Read;
use std::ops::ControlFlow;

use vmnoise_events::{Event, Vcpu, VcpuClock};
use vmnoise_recording::Reader;

/// The vCPUs of a VMM and the clocks of their guests, in their order; of a recording in
/// progress, what was flushed of it.
fn clocks(recording: impl Read, vmm_pid: u32) -> Vec<(Vcpu, VcpuClock)> {
    let mut vcpus = Vec::new();
    let mut clocks = Vec::new();
    let Ok(mut reader) = Reader::new(recording) else {
        return clocks;
    };
    while let Ok(ControlFlow::Continue(event)) = reader.next_event() {
        match event {
            Event::Vcpu(vcpu) => {
                vcpus.truncate(vcpu.id.0 as usize);
                vcpus.push(vcpu);
            }
            Event::VcpuClock(clock) => {
                clocks.push((vcpus[clock.vcpu.0 as usize].clone(), clock));
            }
            _ => {}
        }
    }
    clocks.retain(|(vcpu, _)| vcpu.vmm_pid == vmm_pid);
    clocks
}

/// No lead over the host's counter, at whatever scale the CPU calls one.
fn assert_is_the_hosts(clock: &VcpuClock) {
    assert_eq!(clock.offset_tsc, 0, "{clock:?}");
    assert_eq!(clock.guest_tsc(1 << 40), Some(1 << 40), "{clock:?}");
}

mod kvm {
    use std::fs::File;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;
    use vmnoise_labs::Run;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn of_a_vm_that_was_there_and_of_one_that_came() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.vmn");
        let there = Run::microvm(1, &["-d", "1m"]).unwrap();
        let exits = ["exits", "-q", "-T", "1s", "-d", "1m", "-o"];
        let exits = Run::start(&[&exits[..], &[file.to_str().unwrap()]].concat()).unwrap();
        let begin = Instant::now();
        let of = |run: &Run| File::open(&file).map_or(Vec::new(), |file| clocks(file, run.pid()));
        let wait_for = |run: &Run| {
            while of(run).is_empty() {
                assert!(begin.elapsed() < PATIENCE, "no clock is told");
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        // Its clock is told as soon as the programs are attached.
        wait_for(&there);
        let came = Run::microvm(1, &["-d", "1m"]).unwrap();
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
        // Its offset was seen being written.
        assert_is_the_hosts(came);
        assert_eq!(came.before_until_mono_ns, 0);
        assert!(came.from_mono_ns > there.from_mono_ns);
    }
}
