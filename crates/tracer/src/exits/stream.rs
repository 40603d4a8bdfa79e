//! What the programs report one by one: handed on, each vCPU defined before its first use.

use libbpf_rs::Object;
use vmnoise_events::{Event, Vcpu, VcpuExit, VcpuId, VcpuInterval};

use super::Streaming;
use super::clocks::{ClockLook, Clocks};
use super::decode::ExitDecoder;
use super::roll::Roll;
use crate::error::{LoadError, TraceError};
use crate::records::Records;

/// Holds what a host with a million records a second tells in a tenth of one.
const RING_BYTES: u32 = 16 << 20;

impl Streaming {
    /// How large the ring buffer is: it cannot be none.
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

    /// Leaves what is in the ring, and counts from nothing again.
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

    /// Hands over everything told since the last call. Records name places, and all of them
    /// are read before a place is given to another.
    pub(super) fn drain(
        &mut self,
        object: &Object,
        roll: &mut Roll,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), TraceError> {
        let mut result = Ok(());
        self.records.drain(&mut |event| {
            let named = match event {
                // By its first exit, kvm_exit has told whose it is.
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

    /// Reports what this look says of the clocks of these vCPUs' guests.
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

/// The decoder knows no more of a vCPU than its place, from which it counts.
fn place(id: VcpuId) -> u32 {
    id.0 + 1
}
