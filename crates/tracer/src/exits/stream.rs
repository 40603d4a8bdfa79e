//! Passes on what the programs stream, and defines each vCPU before its first use.

use libbpf_rs::Object;
use vmnoise_events::{Event, Vcpu, VcpuExit, VcpuId, VcpuInterval};

use super::Streaming;
use super::clocks::{ClockLook, Clocks};
use super::decode::ExitDecoder;
use super::roll::Roll;
use crate::error::{LoadError, TraceError};
use crate::records::Records;

/// Holds the records of a tenth of a second on a host with a million records per second.
const RING_BYTES: u32 = 16 << 20;

impl Streaming {
    /// Returns the size of the ring buffer, which cannot be 0.
    pub(super) fn ring_bytes(self) -> u32 {
        match self {
            Streaming::Off => rustix::param::page_size() as u32,
            Streaming::Exits { .. } | Streaming::Stretches => RING_BYTES,
        }
    }
}

/// The reader of the ring buffer.
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

    /// Discards what is in the ring, and begins with empty counts.
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

    /// Passes on all records since the last call. Records have the numbers of places, so all of
    /// them are read before a place gets another vCPU.
    pub(super) fn drain(
        &mut self,
        object: &Object,
        roll: &mut Roll,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), TraceError> {
        let mut result = Ok(());
        self.records.drain(&mut |event| {
            let named = match event {
                // Before the first exit is reported, kvm_exit has shown to which VM the vCPU
                // belongs.
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

    /// Reports the news of this reading about the clocks of these vCPUs' guests.
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

/// Returns the place. The decoder only knows the places of vCPUs, and counts from them.
fn place(id: VcpuId) -> u32 {
    id.0 + 1
}
