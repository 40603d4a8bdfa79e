//! What recordings hold.

use std::io::Read;
use std::ops::ControlFlow;

use vmnoise_events::{Event, Vcpu, VcpuClock};
use vmnoise_recording::Reader;

/// vCPUs and the clocks of their guests, in their order; of a recording in progress, what was flushed of
/// it.
pub fn clocks(recording: impl Read) -> Vec<(Vcpu, VcpuClock)> {
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
    clocks
}
