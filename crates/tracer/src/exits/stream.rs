//! What the programs tell one by one: handed on, each vCPU defined before its first use.

use libbpf_rs::Object;
use vmnoise_events::{Event, Vcpu, VcpuId};

use super::Streaming;
use super::clocks::{Clocks, Look};
use super::decode::ExitDecoder;
use crate::error::{LoadError, TraceError};
use crate::records::Records;

/// Holds what a host with a million records a second tells in a tenth of one.
const RING_BYTES: u32 = 16 << 20;

/// Reads what is known of a vCPU.
pub(super) type ReadVcpu<'a> = dyn Fn(VcpuId) -> std::io::Result<Vcpu> + 'a;

impl Streaming {
    /// How large the ring buffer is: it cannot be none.
    pub(super) fn ring_bytes(self) -> u32 {
        match self {
            Streaming::Off => rustix::param::page_size() as u32,
            Streaming::Exits { .. } => RING_BYTES,
        }
    }
}

/// The reader of the ring buffer.
#[derive(Debug)]
pub(super) struct Stream {
    records: Records<ExitDecoder>,
    definitions: Definitions,
    clocks: Clocks,
    stale: bool,
}

impl Stream {
    pub(super) fn of(object: &Object) -> Result<Stream, LoadError> {
        Ok(Stream {
            records: Records::of(object)?,
            definitions: Definitions::default(),
            clocks: Clocks::default(),
            stale: false,
        })
    }

    /// Names have come to be known since.
    pub(super) fn learned(&mut self) {
        self.stale = true;
    }

    pub(super) fn undecodable(&self) -> u64 {
        self.records.undecodable()
    }

    /// Hands over everything told since the last call.
    pub(super) fn drain(
        &mut self,
        vcpu: &ReadVcpu<'_>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), TraceError> {
        let definitions = &mut self.definitions;
        if std::mem::take(&mut self.stale) {
            definitions
                .renew_all(vcpu, sink)
                .map_err(TraceError::Ring)?;
        }
        let mut result = Ok(());
        self.records.drain(&mut |event| {
            let defined = match &event {
                // By its first exit, kvm_exit has told whose it is.
                Event::Exit(exit) => definitions
                    .define(exit.vcpu, vcpu, sink)
                    .and_then(|()| definitions.complete(exit.vcpu, vcpu, sink)),
                Event::VcpuInterval(interval) => definitions.define(interval.vcpu, vcpu, sink),
                _ => Ok(()),
            };
            match defined {
                Ok(()) => sink(event),
                Err(error) => result = Err(TraceError::Ring(error)),
            }
        })?;
        result
    }

    /// Tells what this look has to tell of the clocks of that many vCPUs' guests.
    pub(super) fn tell_clocks(
        &mut self,
        look: &Look,
        known: u32,
        vcpu: &ReadVcpu<'_>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), TraceError> {
        let mut vcpus = Vec::new();
        for id in (0..known).map(VcpuId) {
            let known = vcpu(id).map_err(TraceError::Ring)?;
            // It is being found in this very moment.
            if known.tid == 0 {
                break;
            }
            self.definitions
                .define(id, vcpu, sink)
                .map_err(TraceError::Ring)?;
            vcpus.push(known);
        }
        let writes = self.records.ask(ExitDecoder::take_writes);
        let clocks = self.clocks.look(&vcpus, look, &writes);
        clocks.into_iter().map(Event::VcpuClock).for_each(sink);
        Ok(())
    }
}

/// The vCPUs as they were defined last, by their ids: in order, without holes.
#[derive(Debug, Default)]
struct Definitions(Vec<Vcpu>);

impl Definitions {
    fn define(
        &mut self,
        id: VcpuId,
        vcpu: &ReadVcpu<'_>,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        for next in self.0.len() as u32..=id.0 {
            let defined = vcpu(VcpuId(next))?;
            self.0.push(defined.clone());
            sink(Event::Vcpu(defined));
        }
        Ok(())
    }

    fn complete(
        &mut self,
        id: VcpuId,
        vcpu: &ReadVcpu<'_>,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        match self.0.get_mut(id.0 as usize) {
            Some(defined) if defined.sees_kvm && defined.vm == 0 => renew(defined, vcpu, sink),
            _ => Ok(()),
        }
    }

    fn renew_all(
        &mut self,
        vcpu: &ReadVcpu<'_>,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        self.0
            .iter_mut()
            .try_for_each(|defined| renew(defined, vcpu, sink))
    }
}

fn renew(
    defined: &mut Vcpu,
    vcpu: &ReadVcpu<'_>,
    sink: &mut dyn FnMut(Event),
) -> std::io::Result<()> {
    let known = vcpu(defined.id)?;
    if *defined != known {
        *defined = known.clone();
        sink(Event::Vcpu(known));
    }
    Ok(())
}
