//! Reads the events of recordings.

use std::io::Read;
use std::ops::ControlFlow;

use vmnoise_events::{Event, Vcpu, VcpuClock};
use vmnoise_recording::RecordingReader;

/// Returns vCPUs and the clocks of their guests, in the order of the recording. If the recording is
/// in progress, returns what has been written so far.
pub fn clocks(recording: impl Read) -> Vec<(Vcpu, VcpuClock)> {
    let mut vcpus = Vec::new();
    let mut clocks = Vec::new();
    let Ok(mut reader) = RecordingReader::new(recording) else {
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
    clocks
}
