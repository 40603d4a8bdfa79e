//! From the bytes of the ring buffer to what exits are told by. Pure: no I/O, no BPF, no
//! clock.

use vmnoise_events::{Event, VcpuExit, VcpuId, VcpuInterval, VcpuIntervalKind};

use super::totals;
use super::wire::{self, WireInterval, WireTold};
use crate::decode::{Decoder, Fields, RECORD_BYTES};
use crate::records::Decode;

/// Each record is known by its size.
const INTERVAL_BYTES: usize = size_of::<WireInterval>();
const EXIT_BYTES: usize = size_of::<WireTold>();

/// Decodes exits, intervals of vCPUs and the activities of the host.
#[derive(Debug, Default)]
pub(super) struct ExitDecoder {
    activities: Decoder,
    undecodable: u64,
}

impl Decode for ExitDecoder {
    fn decode(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) {
        let decoded = match bytes.len() {
            INTERVAL_BYTES => self.interval(bytes, sink),
            EXIT_BYTES => exit(bytes, sink),
            _ => return self.activities.decode(bytes, sink),
        };
        if decoded.is_none() {
            self.undecodable += 1;
        }
    }

    fn undecodable(&self) -> u64 {
        self.undecodable + self.activities.undecodable()
    }
}

impl ExitDecoder {
    fn interval(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) -> Option<()> {
        let interval: WireInterval = wire::read(bytes)?;
        let what = Fields::read(&bytes[..RECORD_BYTES])?;
        let vcpu = vcpu_id(interval.vcpu)?;
        let kind = VcpuIntervalKind::from_number(u8::try_from(what.kind).ok()?)?;
        let source = if what.has_source() {
            Some(self.activities.source(&what, sink)?)
        } else {
            None
        };
        sink(Event::VcpuInterval(VcpuInterval {
            vcpu,
            kind,
            start_mono_ns: what.start_mono_ns,
            end_mono_ns: what.end_mono_ns,
            cpu: what.cpu,
            to_cpu: interval.to_cpu,
            source,
        }));
        Some(())
    }
}

/// An exit, and before it its last stay in the VMM.
fn exit(bytes: &[u8], sink: &mut dyn FnMut(Event)) -> Option<()> {
    let told: WireTold = wire::read(bytes)?;
    let vcpu = vcpu_id(told.vcpu)?;
    if told.vmm.entered_mono_ns > 0 {
        sink(Event::VcpuInterval(VcpuInterval {
            vcpu,
            kind: VcpuIntervalKind::Vmm,
            start_mono_ns: told.vmm.left_mono_ns,
            end_mono_ns: told.vmm.entered_mono_ns,
            cpu: told.vmm.left_cpu,
            to_cpu: told.vmm.entered_cpu,
            source: None,
        }));
    }
    let exit = totals::exit(&told.exit, totals::isa(told.isa));
    sink(Event::Exit(VcpuExit { vcpu, exit }));
    Some(())
}

/// Place 0 of the table is nobody's.
fn vcpu_id(index: u32) -> Option<VcpuId> {
    index.checked_sub(1).map(VcpuId)
}
