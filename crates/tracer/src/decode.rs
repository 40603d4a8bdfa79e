//! Decodes the bytes of the ring buffer into events. Pure: no I/O, no BPF, no clock.

use std::{collections::HashMap, mem::offset_of};

use vmnoise_events::{Activity, ActivityKind, Event, ExitReason, Isa, Source, SourceId};

use crate::{
    records::Decode,
    wire::{Origin, Record, WireSource},
};

pub(crate) const RECORD_BYTES: usize = size_of::<Record>();
const NAME_BYTES: usize = size_of::<WireSource>() - offset_of!(WireSource, name);

/// Names of softirqs, indexed by their numbers (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SourceKey {
    origin: u32,
    id: u32,
    name: [u8; NAME_BYTES],
}

/// Converts records of the ring buffer to events. Each source gets an id, in ascending order from
/// 0.
#[derive(Debug, Default)]
pub struct RecordDecoder {
    sources: HashMap<SourceKey, SourceId>,
    undecodable: u64,
}

/// The fields of a record. Its kind is still a number.
pub(crate) struct Fields {
    pub(crate) kind: u32,
    pub(crate) cpu: u32,
    pub(crate) start_mono_ns: u64,
    pub(crate) end_mono_ns: u64,
    steal_ns: u64,
    source: SourceKey,
}

impl Fields {
    pub(crate) fn read(bytes: &[u8]) -> Option<Fields> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let source_at = offset_of!(Record, source);
        let name_at = source_at + offset_of!(WireSource, name);
        Some(Fields {
            kind: u32_at(bytes, offset_of!(Record, kind)),
            cpu: u32_at(bytes, offset_of!(Record, cpu)),
            start_mono_ns: u64_at(bytes, offset_of!(Record, start_mono_ns)),
            end_mono_ns: u64_at(bytes, offset_of!(Record, end_mono_ns)),
            steal_ns: u64_at(bytes, offset_of!(Record, steal_ns)),
            source: SourceKey {
                origin: u32_at(bytes, source_at + offset_of!(WireSource, origin)),
                id: u32_at(bytes, source_at + offset_of!(WireSource, id)),
                name: bytes[name_at..name_at + NAME_BYTES].try_into().ok()?,
            },
        })
    }

    /// Returns whether the record has a source.
    pub(crate) fn has_source(&self) -> bool {
        Origin(self.source.origin) != Origin::VMNOISE_FROM_NOBODY
    }
}

impl RecordDecoder {
    /// Decodes one record of the ring buffer. Sends an [`Event::Source`] to `sink` if the source is
    /// new, and then the [`Event::Activity`]. Bytes that are no record give no event, and are
    /// counted.
    pub fn decode(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) {
        match self.read(bytes, sink) {
            Some(activity) => sink(Event::Activity(activity)),
            None => self.undecodable += 1,
        }
    }

    /// Reports a stop that is not over yet, as if it ended now. Times are CLOCK_MONOTONIC in ns.
    pub(crate) fn stopped(
        &mut self,
        cpu: u32,
        start_mono_ns: u64,
        end_mono_ns: u64,
        sink: &mut dyn FnMut(Event),
    ) {
        let nobody = SourceKey {
            origin: Origin::VMNOISE_FROM_NOBODY.0,
            id: 0,
            name: [0; NAME_BYTES],
        };
        if let Some(source) = self.id(&nobody, sink) {
            sink(Event::Activity(Activity {
                cpu,
                kind: ActivityKind::Stopped,
                start_mono_ns,
                end_mono_ns,
                source,
                steal_ns: 0,
            }));
        }
    }

    /// Returns how many records could not be decoded so far.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    fn read(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) -> Option<Activity> {
        let fields = Fields::read(bytes)?;
        let kind = ActivityKind::from_number(u8::try_from(fields.kind).ok()?)?;
        Some(Activity {
            cpu: fields.cpu,
            kind,
            start_mono_ns: fields.start_mono_ns,
            end_mono_ns: fields.end_mono_ns,
            steal_ns: fields.steal_ns,
            source: self.source(&fields, sink)?,
        })
    }

    /// Returns the id of a record's source. Sends the source's definition to `sink` if the source
    /// is new.
    pub(crate) fn source(
        &mut self,
        fields: &Fields,
        sink: &mut dyn FnMut(Event),
    ) -> Option<SourceId> {
        self.id(&fields.source, sink)
    }

    fn id(&mut self, source: &SourceKey, sink: &mut dyn FnMut(Event)) -> Option<SourceId> {
        if let Some(&id) = self.sources.get(source) {
            return Some(id);
        }
        let name = label(source)?;
        let id = SourceId(u32::try_from(self.sources.len()).ok()?);
        self.sources.insert(*source, id);
        sink(Event::Source(Source {
            id,
            name: name.into(),
        }));
        Some(id)
    }
}

impl Decode for RecordDecoder {
    fn decode(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event)) {
        RecordDecoder::decode(self, bytes, sink);
    }

    fn undecodable(&self) -> u64 {
        RecordDecoder::undecodable(self)
    }
}

/// Size of a source in a record, in bytes.
pub(crate) const WIRE_SOURCE_BYTES: usize = size_of::<WireSource>();

/// Kind of a source that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    Task,
    Irq,
    Softirq,
}

/// Returns the kind of this source; `None` if the bytes name no source, or a source of another
/// kind.
pub(crate) fn share_of(bytes: &[u8; WIRE_SOURCE_BYTES]) -> Option<Took> {
    Some(match Origin(SourceKey::read(bytes)?.origin) {
        Origin::VMNOISE_FROM_TASK => Took::Task,
        Origin::VMNOISE_FROM_VECTOR | Origin::VMNOISE_FROM_LINE => Took::Irq,
        Origin::VMNOISE_FROM_SOFTIRQ => Took::Softirq,
        _ => return None,
    })
}

/// Returns the name of this source in results.
pub(crate) fn name_of(bytes: &[u8; WIRE_SOURCE_BYTES]) -> Option<String> {
    label(&SourceKey::read(bytes)?)
}

impl SourceKey {
    fn read(bytes: &[u8; WIRE_SOURCE_BYTES]) -> Option<SourceKey> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let name_at = offset_of!(WireSource, name);
        Some(SourceKey {
            origin: word(offset_of!(WireSource, origin))?,
            id: word(offset_of!(WireSource, id))?,
            name: bytes[name_at..name_at + NAME_BYTES].try_into().ok()?,
        })
    }
}

fn label(key: &SourceKey) -> Option<String> {
    let SourceKey {
        origin,
        id,
        name: letters,
    } = key;
    let name = letters.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    Some(match Origin(*origin) {
        Origin::VMNOISE_FROM_NOBODY => "unknown".to_owned(),
        Origin::VMNOISE_FROM_TASK | Origin::VMNOISE_FROM_VECTOR | Origin::VMNOISE_FROM_LINE => {
            format!("{name}:{id}")
        }
        Origin::VMNOISE_FROM_SOFTIRQ => {
            let name = SOFTIRQS.get(*id as usize).unwrap_or(&"softirq");
            format!("{name}:{id}")
        }
        Origin::VMNOISE_FROM_NMI => "NMI".to_owned(),
        Origin::VMNOISE_FROM_VMEXIT => exit_reason(*id, letters),
        Origin::VMNOISE_FROM_IDLE => "idle".to_owned(),
        _ => return None,
    })
}

/// Returns the name of an exit reason. `isa` is KVM's number of the vendor. The first bytes of
/// `letters` hold the reason's code.
fn exit_reason(isa: u32, letters: &[u8; NAME_BYTES]) -> String {
    let code = u64::from_ne_bytes(std::array::from_fn(|i| letters[i]));
    match Isa::of_kvm_exit(isa) {
        Some(isa) => ExitReason { isa, code }.name().into_owned(),
        None => "vmexit".to_owned(),
    }
}

fn u32_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, origin: u32, id: u32, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(100_u64.to_ne_bytes());
        bytes.extend(250_u64.to_ne_bytes());
        bytes.extend(30_u64.to_ne_bytes());
        for word in [3, kind, id, origin] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes.extend(name.as_bytes());
        bytes.resize(RECORD_BYTES, 0);
        bytes
    }

    fn decode_all(decoder: &mut RecordDecoder, records: &[Vec<u8>]) -> Vec<Event> {
        let mut events = Vec::new();
        for record in records {
            decoder.decode(record, &mut |event| events.push(event));
        }
        events
    }

    #[test]
    fn labels_follow_osnoise() {
        for (kind, origin, id, name, label) in [
            (6, 2, 236, "local_timer", "local_timer:236"),
            (6, 3, 62, "eno1", "eno1:62"),
            (5, 4, 3, "", "NET_RX:3"),
            (5, 4, 77, "", "softirq:77"),
            (3, 1, 4711, "stress-ng", "stress-ng:4711"),
            (7, 5, 0, "", "NMI"),
            (0, 6, 0, "", "vmexit"),
            (0, 6, 2, "\u{72}", "cpuid"),
            (0, 6, 1, "\u{1}", "EXTERNAL_INTERRUPT"),
            (0, 6, 2, "\u{1}\u{2}", "unknown_0x201"),
            (2, 7, 0, "", "idle"),
            (4, 0, 0, "", "unknown"),
        ] {
            let events = decode_all(
                &mut RecordDecoder::default(),
                &[record(kind, origin, id, name)],
            );
            let Event::Source(source) = &events[0] else {
                panic!("no source before its first use: {events:?}");
            };
            assert_eq!(source.name, label);
            assert_eq!(
                events[1],
                Event::Activity(Activity {
                    cpu: 3,
                    kind: ActivityKind::from_number(kind as u8).unwrap(),
                    start_mono_ns: 100,
                    end_mono_ns: 250,
                    source: SourceId(0),
                    steal_ns: 30,
                })
            );
        }
    }

    #[test]
    fn a_source_is_defined_once_and_a_renamed_task_is_another() {
        let mut decoder = RecordDecoder::default();
        let events = decode_all(
            &mut decoder,
            &[
                record(3, 1, 7, "sh"),
                record(3, 1, 7, "sh"),
                record(3, 1, 7, "ls"),
            ],
        );
        let names: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Source(source) => Some((source.id.0, source.name.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(names, [(0, "sh:7"), (1, "ls:7")]);
        assert_eq!(events.len(), 5);
    }

    #[test]
    fn what_is_no_record_is_counted() {
        let mut decoder = RecordDecoder::default();
        let good = record(3, 1, 7, "sh");
        let bad = [
            Vec::new(),
            good[..RECORD_BYTES - 1].to_vec(),
            [good.clone(), vec![0]].concat(),
            record(9, 1, 7, "sh"),
            record(3 + 256, 1, 7, "sh"),
            record(3, 8, 7, "sh"),
        ];
        assert_eq!(decode_all(&mut decoder, &bad), []);
        assert_eq!(decoder.undecodable(), bad.len() as u64);
    }

    proptest! {
        #[test]
        fn any_bytes_give_one_activity_or_one_loss(
            records in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..90), 0..20),
        ) {
            let mut decoder = RecordDecoder::default();
            let events = decode_all(&mut decoder, &records);
            let activities =
                events.iter().filter(|event| matches!(event, Event::Activity(_))).count();
            prop_assert_eq!(activities as u64 + decoder.undecodable(), records.len() as u64);
        }
    }
}
