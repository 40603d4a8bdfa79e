//! Writes the packets of a trace to a file.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;

use super::events::{Begin, Events};
use super::proto::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, Clock, ClockSnapshot, CounterDescriptor,
    INCREMENTAL_STATE_CLEARED, Interned, InternedData, NEEDS_INCREMENTAL_STATE, PACKET_KEY,
    SEQUENCE, TracePacket, TracePacketDefaults, TrackDescriptor, UNIT_TIME_NS,
};
use crate::error::ExportError;
use crate::error::io_error;
use crate::whole_file::{Readers, WholeFile};

/// Number of buffered bytes at which the buffer is written.
const BYTES_AT_ONCE: usize = 1 << 18;

/// Kind of an interned name. Perfetto has separate ids for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NameOf {
    Category,
    Slice,
    Annotation,
}

/// Writer of a trace whose clock is CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct Packets {
    out: WholeFile,
    path: PathBuf,
    buffer: Vec<u8>,
    events: Events,
    names: [HashMap<Arc<str>, u64>; 3],
    /// Number of the last created track.
    tracks: u64,
    /// Number of the last created flow (an arrow).
    flows: u64,
}

impl Packets {
    pub(super) fn create(path: &Path) -> Result<Packets, ExportError> {
        let out = WholeFile::create(path, Readers::Anyone).map_err(io_error(path))?;
        let mut packets = Packets {
            out,
            path: path.to_owned(),
            buffer: Vec::with_capacity(BYTES_AT_ONCE + 4096),
            events: Events::default(),
            names: Default::default(),
            tracks: 0,
            flows: 0,
        };
        packets.push(TracePacket {
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(CLOCK_MONOTONIC),
            }),
            ..TracePacket::default()
        })?;
        Ok(packets)
    }

    /// Writes the trace's clock at one instant, and the wall-clock time at the same instant.
    pub(super) fn clock(&mut self, mono_ns: u64, real_ns: Option<u64>) -> Result<(), ExportError> {
        let clock = |clock_id, timestamp| Clock {
            clock_id: Some(clock_id),
            timestamp: Some(timestamp),
        };
        let mut clocks = vec![clock(CLOCK_MONOTONIC, mono_ns)];
        clocks.extend(real_ns.map(|real_ns| clock(CLOCK_REALTIME, real_ns)));
        self.push(TracePacket {
            timestamp: Some(mono_ns),
            clock_snapshot: Some(ClockSnapshot {
                clocks,
                primary_trace_clock: Some(CLOCK_MONOTONIC),
            }),
            ..TracePacket::default()
        })
    }

    /// Adds a track, and returns its number. If `counts` is true, the track shows a counter in
    /// nanoseconds.
    pub(super) fn track(
        &mut self,
        name: String,
        parent: Option<u64>,
        counts: bool,
    ) -> Result<u64, ExportError> {
        self.tracks += 1;
        self.push(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(self.tracks),
                name: Some(name),
                parent_uuid: parent,
                counter: counts.then_some(CounterDescriptor {
                    unit: Some(UNIT_TIME_NS),
                }),
            }),
            ..TracePacket::default()
        })?;
        Ok(self.tracks)
    }

    /// Creates a flow (an arrow), and returns its number.
    pub(super) fn flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }

    /// Returns the interned id of a name. Writes a new name first.
    pub(super) fn name(&mut self, of: NameOf, name: &str) -> Result<u64, ExportError> {
        let names = &mut self.names[of as usize];
        if let Some(iid) = names.get(name) {
            return Ok(*iid);
        }
        let iid = names.len() as u64 + 1;
        names.insert(name.into(), iid);
        let interned = vec![Interned {
            iid: Some(iid),
            name: Some(name.to_owned()),
        }];
        let mut data = InternedData::default();
        match of {
            NameOf::Category => data.event_categories = interned,
            NameOf::Slice => data.event_names = interned,
            NameOf::Annotation => data.debug_annotation_names = interned,
        }
        self.push(TracePacket {
            sequence_flags: Some(NEEDS_INCREMENTAL_STATE),
            interned_data: Some(data),
            ..TracePacket::default()
        })?;
        Ok(iid)
    }

    pub(super) fn begin(
        &mut self,
        track: u64,
        mono_ns: u64,
        reported: &Begin<'_>,
    ) -> Result<(), ExportError> {
        self.events
            .begin(&mut self.buffer, track, mono_ns, reported);
        self.write_if_full()
    }

    pub(super) fn end(&mut self, track: u64, mono_ns: u64) -> Result<(), ExportError> {
        self.events.end(&mut self.buffer, track, mono_ns);
        self.write_if_full()
    }

    pub(super) fn count(
        &mut self,
        track: u64,
        mono_ns: u64,
        value: i64,
    ) -> Result<(), ExportError> {
        self.events.count(&mut self.buffer, track, mono_ns, value);
        self.write_if_full()
    }

    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        self.write()?;
        self.out.finish().map_err(io_error(&self.path))
    }

    fn push(&mut self, mut packet: TracePacket) -> Result<(), ExportError> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        self.buffer.push(PACKET_KEY);
        // Writing to a Vec cannot fail.
        let _ = packet.encode_length_delimited(&mut self.buffer);
        self.write_if_full()
    }

    fn write_if_full(&mut self) -> Result<(), ExportError> {
        match self.buffer.len() {
            BYTES_AT_ONCE.. => self.write(),
            _ => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), ExportError> {
        let written = self.out.write_all(&self.buffer);
        written.map_err(io_error(&self.path))?;
        self.buffer.clear();
        Ok(())
    }
}
