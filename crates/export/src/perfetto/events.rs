//! Writes events on tracks, which are most of a trace. Writes the protobuf fields directly, because
//! building messages and measuring their size twice would be slower.

use super::proto::{
    COUNTER, NEEDS_INCREMENTAL_STATE, PACKET_KEY, SEQUENCE, SLICE_BEGIN, SLICE_END,
};

/// Wire types of the protobuf encoding.
const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;

/// Keys of the fields of `TracePacket`.
const TIMESTAMP: u8 = key(8, VARINT);
const TRUSTED_PACKET_SEQUENCE_ID: u8 = key(10, VARINT);
const TRACK_EVENT: u8 = key(11, BYTES);
const SEQUENCE_FLAGS: u8 = key(13, VARINT);

/// Keys of the fields of `TrackEvent`.
const CATEGORY_IIDS: u8 = key(3, VARINT);
const DEBUG_ANNOTATIONS: u8 = key(4, BYTES);
const TYPE: u8 = key(9, VARINT);
const NAME_IID: u8 = key(10, VARINT);
const TRACK_UUID: u8 = key(11, VARINT);
/// Keys of the two fields whose keys have two bytes.
const COUNTER_VALUE: u64 = 30 << 3 | VARINT as u64;
const FLOW_IDS: u64 = 47 << 3 | FIXED_64 as u64;

/// Keys of the fields of `DebugAnnotation`.
const ANNOTATION_NAME_IID: u8 = key(1, VARINT);
const UINT_VALUE: u8 = key(3, VARINT);

const fn key(number: u32, kind: u32) -> u8 {
    let key = number << 3 | kind;
    assert!(key < 0x80, "a key of one byte");
    key as u8
}

/// Begin of a slice. Category and name are interned ids.
#[derive(Debug)]
pub(super) struct Begin<'a> {
    pub(super) category: u64,
    pub(super) name: u64,
    pub(super) flows: &'a [u64],
    /// Annotations of the slice: interned id of the name, and value.
    pub(super) notes: &'a [(u64, u64)],
}

/// Writes events one by one.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Buffer for the current `TrackEvent`, kept to reuse its memory.
    event: Vec<u8>,
    /// Buffer for a message inside the current event or packet, kept to reuse its memory.
    inner: Vec<u8>,
}

impl Events {
    pub(super) fn begin(
        &mut self,
        out: &mut Vec<u8>,
        track: u64,
        mono_ns: u64,
        reported: &Begin<'_>,
    ) {
        number(&mut self.event, CATEGORY_IIDS, reported.category);
        for (name, value) in reported.notes {
            number(&mut self.inner, ANNOTATION_NAME_IID, *name);
            number(&mut self.inner, UINT_VALUE, *value);
            message(&mut self.event, DEBUG_ANNOTATIONS, &mut self.inner);
        }
        number(&mut self.event, TYPE, SLICE_BEGIN);
        number(&mut self.event, NAME_IID, reported.name);
        number(&mut self.event, TRACK_UUID, track);
        for flow in reported.flows {
            varint(&mut self.event, FLOW_IDS);
            self.event.extend_from_slice(&flow.to_le_bytes());
        }
        self.packet(out, mono_ns);
    }

    pub(super) fn end(&mut self, out: &mut Vec<u8>, track: u64, mono_ns: u64) {
        number(&mut self.event, TYPE, SLICE_END);
        number(&mut self.event, TRACK_UUID, track);
        self.packet(out, mono_ns);
    }

    pub(super) fn count(&mut self, out: &mut Vec<u8>, track: u64, mono_ns: u64, value: i64) {
        number(&mut self.event, TYPE, COUNTER);
        number(&mut self.event, TRACK_UUID, track);
        varint(&mut self.event, COUNTER_VALUE);
        varint(&mut self.event, value.cast_unsigned());
        self.packet(out, mono_ns);
    }

    /// Writes the current event as a separate packet.
    fn packet(&mut self, out: &mut Vec<u8>, mono_ns: u64) {
        let packet = &mut self.inner;
        number(packet, TIMESTAMP, mono_ns);
        number(packet, TRUSTED_PACKET_SEQUENCE_ID, SEQUENCE.into());
        message(packet, TRACK_EVENT, &mut self.event);
        number(packet, SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE.into());
        message(out, PACKET_KEY, packet);
    }
}

/// Appends the message to `out`, with its key and length. Empties `message`.
fn message(out: &mut Vec<u8>, key: u8, message: &mut Vec<u8>) {
    number(out, key, message.len() as u64);
    out.append(message);
}

fn number(out: &mut Vec<u8>, key: u8, value: u64) {
    out.push(key);
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
