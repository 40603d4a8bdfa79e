//! Reads the ring buffer of a BPF object, in batches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapCore, Object, RingBuffer, RingBufferBuilder};
use vmnoise_events::Event;

use crate::error::{LoadError, TraceError};

/// Largest number of records that are read from the ring before they are forwarded. It limits the
/// memory that this process needs.
const BATCH: usize = 4096;
/// Largest number of batches in one [`Records::drain`]. It covers more than a full ring. So a drain
/// ends even if programs write records faster than they are read.
const BATCHES: usize = 64;

/// Decoder for the records of a BPF object.
pub(crate) trait Decode: Default + Send + 'static {
    /// Converts the bytes of one record to events. Each source is sent before its first use. Bytes
    /// that are no record give no event, and are counted.
    fn decode(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Event));

    /// Returns how many records could not be decoded so far.
    fn undecodable(&self) -> u64;
}

/// Reader of the ring buffer `records` of a BPF object.
#[derive(Debug)]
pub(crate) struct Records<Decoder> {
    ring: RingBuffer<'static>,
    inbox: Arc<Mutex<Inbox<Decoder>>>,
}

/// Events that the ring's callback has stored for the next drain, and their decoder.
#[derive(Debug, Default)]
struct Inbox<Decoder> {
    decoder: Decoder,
    events: Vec<Event>,
}

impl<Decoder: Decode> Records<Decoder> {
    pub(crate) fn of(object: &Object) -> Result<Records<Decoder>, LoadError> {
        let broken = |error: libbpf_rs::Error| LoadError::Broken(format!("ring buffer: {error}"));
        let records = object.maps().find(|map| map.name() == "records");
        let records = records.ok_or_else(|| LoadError::Broken("no map records".to_owned()))?;
        let inbox = Arc::new(Mutex::new(Inbox::<Decoder>::default()));
        let filled = Arc::clone(&inbox);
        let mut ring = RingBufferBuilder::new();
        ring.add(&records, move |bytes| {
            let mut inbox = filled.lock().unwrap_or_else(PoisonError::into_inner);
            let Inbox { decoder, events } = &mut *inbox;
            decoder.decode(bytes, &mut |event| events.push(event));
            0
        })
        .map_err(broken)?;
        let ring = ring.build().map_err(broken)?;
        Ok(Records { ring, inbox })
    }

    /// Sends all events in the ring buffer to `sink`.
    pub(crate) fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
        for _ in 0..BATCHES {
            let taken = self.ring.consume_raw_n(BATCH);
            self.inbox().events.drain(..).for_each(&mut *sink);
            match usize::try_from(taken) {
                Err(_) => return Err(TraceError::Ring(std::io::Error::from_raw_os_error(-taken))),
                Ok(taken) if taken < BATCH => break,
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Calls `question` with the decoder. The decoder may keep facts that are not events.
    pub(crate) fn ask<Answer>(&self, question: impl FnOnce(&mut Decoder) -> Answer) -> Answer {
        question(&mut self.inbox().decoder)
    }

    pub(crate) fn undecodable(&self) -> u64 {
        self.inbox().decoder.undecodable()
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox<Decoder>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
