//! Decodes the bytes of the ring buffer into exits, intervals of vCPUs and activities. Pure: no
//! I/O, no BPF, no clock.

use vmnoise_events::{Event, VcpuExit, VcpuId, VcpuInterval, VcpuIntervalKind};

use super::totals;
use super::wire::{WireInterval, WireReported, WireTscWrite};
use crate::decode::{Fields, RECORD_BYTES, RecordDecoder};
use crate::plain;
use crate::records::Decode;

/// Size in bytes of a record of an interval. No two kinds of records have the same size, so the
/// size shows the kind.
const INTERVAL_BYTES: usize = size_of::<WireInterval>();
const EXIT_BYTES: usize = size_of::<WireReported>();
const WRITE_BYTES: usize = size_of::<WireTscWrite>();

/// Decodes exits, intervals of vCPUs and the activities of the host.
#[derive(Debug, Default)]
pub struct ExitDecoder {
    activities: RecordDecoder,
    undecodable: u64,
    writes: Vec<WireTscWrite>,
}

impl Decode for ExitDecoder {
    fn decode(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) {
        ExitDecoder::decode(self, bytes, sink);
    }

    fn undecodable(&self) -> u64 {
        ExitDecoder::undecodable(self)
    }
}

impl ExitDecoder {
    /// Sizes of the records in bytes: an interval of a vCPU, an exit, and a write of a TSC offset.
    pub const SIZES: [usize; 3] = [INTERVAL_BYTES, EXIT_BYTES, WRITE_BYTES];

    /// Decodes one record of the ring buffer. Each source is sent before its first use. Bytes that
    /// are no record give no event, and are counted. The id of a vCPU follows from its index in the
    /// kernel's table.
    pub fn decode(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) {
        let decoded = match bytes.len() {
            INTERVAL_BYTES => self.interval(bytes, sink),
            EXIT_BYTES => exit(bytes, sink),
            WRITE_BYTES => plain::read(bytes).map(|write| self.writes.push(write)),
            _ => return self.activities.decode(bytes, sink),
        };
        if decoded.is_none() {
            self.undecodable += 1;
        }
    }

    /// Returns how many records could not be decoded so far.
    pub fn undecodable(&self) -> u64 {
        self.undecodable + self.activities.undecodable()
    }

    /// Returns the writes of TSC offsets since the last call. Writes are not events, because they
    /// must be compared with the offsets that KVM has afterwards.
    pub(super) fn take_writes(&mut self) -> Vec<WireTscWrite> {
        std::mem::take(&mut self.writes)
    }

    fn interval(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) -> Option<()> {
        let interval: WireInterval = plain::read(bytes)?;
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

/// Sends an exit. If the exit ended with a stay in the VMM, sends this stay first.
fn exit(bytes: &[u8], sink: &mut dyn FnMut(Event)) -> Option<()> {
    let reported: WireReported = plain::read(bytes)?;
    let vcpu = vcpu_id(reported.vcpu)?;
    if reported.vmm.entered_mono_ns > 0 {
        sink(Event::VcpuInterval(VcpuInterval {
            vcpu,
            kind: VcpuIntervalKind::Vmm,
            start_mono_ns: reported.vmm.left_mono_ns,
            end_mono_ns: reported.vmm.entered_mono_ns,
            cpu: reported.vmm.left_cpu,
            to_cpu: reported.vmm.entered_cpu,
            source: None,
        }));
    }
    let exit = totals::exit(&reported.exit, totals::isa(reported.isa));
    sink(Event::Exit(VcpuExit { vcpu, exit }));
    Some(())
}

/// Returns the id that corresponds to an index of the kernel's table; `None` for index 0, which is
/// not used for a vCPU.
fn vcpu_id(index: u32) -> Option<VcpuId> {
    index.checked_sub(1).map(VcpuId)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(records: &[Vec<u8>]) -> (Vec<Event>, ExitDecoder) {
        let mut decoder = ExitDecoder::default();
        let mut events = Vec::new();
        for record in records {
            decoder.decode(record, &mut |event| events.push(event));
        }
        (events, decoder)
    }

    #[test]
    fn what_names_no_vcpu_or_no_kind_is_counted() {
        let interval = |vcpu: u32, kind: u32| {
            let mut bytes = vec![0; INTERVAL_BYTES];
            bytes[28..32].copy_from_slice(&kind.to_ne_bytes());
            bytes[64..68].copy_from_slice(&vcpu.to_ne_bytes());
            bytes
        };
        let (events, decoder) = decode(&[
            interval(1, 3),
            interval(0, 3),
            interval(1, 4),
            vec![0; EXIT_BYTES],
        ]);
        assert_eq!((events.len(), decoder.undecodable()), (1, 3));
        assert!(matches!(&events[0], Event::VcpuInterval(it)
            if it.kind == VcpuIntervalKind::Halted && it.vcpu == VcpuId(0) && it.source.is_none()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_reported_or_counted(
            records in proptest::collection::vec(
                (0_usize..6, any::<[u8; 32]>(), any::<[u8; 32]>()), 0..20),
        ) {
            let records: Vec<Vec<u8>> = records
                .iter()
                .map(|(size, seed, more)| {
                    let lengths = [
                        0, RECORD_BYTES, INTERVAL_BYTES, EXIT_BYTES, EXIT_BYTES + 1, WRITE_BYTES,
                    ];
                    let length = lengths[*size];
                    seed.iter().chain(more).copied().cycle().take(length).collect()
                })
                .collect();
            let (events, mut decoder) = decode(&records);
            let (writes, undecodable) = (decoder.take_writes().len(), decoder.undecodable());
            let exits = events.iter().filter(|event| matches!(event, Event::Exit(_))).count();
            let others = events.iter().filter(|event| {
                matches!(event, Event::VcpuInterval(_) | Event::Activity(_))
            });
            // One exit may also give an event for its stay in the VMM.
            let reported = others.count() + exits + writes;
            prop_assert!(reported as u64 + undecodable >= records.len() as u64);
            prop_assert!(reported as u64 + undecodable <= records.len() as u64 + exits as u64);
        }
    }
}
