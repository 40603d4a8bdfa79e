//! Forwards the records that the programs report, and defines each vCPU before its first use.

use libbpf_rs::Object;
use vmnoise_events::{Event, Vcpu, VcpuExit, VcpuId, VcpuInterval};

use super::Streaming;
use super::clocks::{ClockLook, Clocks};
use super::decode::ExitDecoder;
use super::roll::Roll;
use crate::error::{LoadError, TraceError};
use crate::records::Records;

/// Size of the ring buffer in bytes. It has room for a tenth of a second with a million records per
/// second.
const RING_BYTES: u32 = 16 << 20;

impl Streaming {
    /// Returns the size of the ring buffer in bytes. It is never 0, because the kernel refuses this
    /// size.
    pub(super) fn ring_bytes(self) -> u32 {
        match self {
            Streaming::Off => rustix::param::page_size() as u32,
            Streaming::Exits { .. } | Streaming::Stretches => RING_BYTES,
        }
    }
}

/// Reader of the ring buffer, and the clocks that it reported.
#[derive(Debug)]
pub(super) struct Stream {
    records: Records<ExitDecoder>,
    clocks: Clocks,
}

impl Stream {
    pub(super) fn of(object: &Object) -> Result<Stream, LoadError> {
        Ok(Stream {
            records: Records::of(object)?,
            clocks: Clocks::default(),
        })
    }

    /// Discards all records in the ring buffer, and sets all counts to 0.
    pub(super) fn renew(&mut self) -> Result<(), TraceError> {
        self.records.drain(&mut |_| {})?;
        self.records
            .ask(|decoder| *decoder = ExitDecoder::default());
        self.clocks = Clocks::default();
        Ok(())
    }

    pub(super) fn undecodable(&self) -> u64 {
        self.records.undecodable()
    }

    /// Forwards all records since the last call. Records have table indexes instead of ids. All of
    /// them must be read before a table slot gets another vCPU.
    pub(super) fn drain(
        &mut self,
        object: &Object,
        roll: &mut Roll,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), TraceError> {
        let mut result = Ok(());
        self.records.drain(&mut |event| {
            let named = match event {
                // An exit is reported after kvm_exit has shown to which VM the vCPU belongs.
                Event::Exit(exit) => roll
                    .complete(object, place(exit.vcpu), sink)
                    .map(|vcpu| Event::Exit(VcpuExit { vcpu, ..exit })),
                Event::VcpuInterval(interval) => roll
                    .at(object, place(interval.vcpu), sink)
                    .map(|vcpu| Event::VcpuInterval(VcpuInterval { vcpu, ..interval })),
                event => Ok(event),
            };
            match named {
                Ok(event) => sink(event),
                Err(error) => result = Err(TraceError::Ring(error)),
            }
        })?;
        result
    }

    /// Reports the clocks of these vCPUs' guests that are new or have changed in this reading.
    pub(super) fn report_clocks(
        &mut self,
        look: &ClockLook,
        vcpus: &[Vcpu],
        sink: &mut dyn FnMut(Event),
    ) {
        let writes = self.records.ask(ExitDecoder::take_writes);
        let clocks = self.clocks.look(vcpus, look, &writes);
        clocks.into_iter().map(Event::VcpuClock).for_each(sink);
    }
}

/// Converts a vCPU's id from the decoder back to the index in the kernel's table. Index 0 is not
/// used.
fn place(id: VcpuId) -> u32 {
    id.0 + 1
}
