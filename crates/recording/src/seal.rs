//! Makes the checksums of a changed recording valid. Without valid checksums, a reader stops at the
//! change, and nothing after the change is tested.

use std::ops::Range;

use crate::checksum;
use crate::decode::Decoder;
use crate::header::{Header, keys_of};
use crate::messages::{Message, Messages, Next};
use crate::writer::{begin, described};

/// Returns this recording with valid checksums as far as it can be decoded; the rest is unchanged.
/// For tests and fuzzing: an attacker can compute checksums too.
#[doc(hidden)]
pub fn seal(recording: &[u8]) -> Vec<u8> {
    sealed(recording).unwrap_or_else(|| recording.to_vec())
}

fn sealed(recording: &[u8]) -> Option<Vec<u8>> {
    let mut messages = Messages::new(recording);
    let Ok(Next::Message(first)) = messages.next() else {
        return None;
    };
    let (version, facts) = keys_of(&first)?;
    let stream = begin(&described(version, facts)).ok()?;
    let mut out = stream.get_ref().clone();
    let Ok(header) = Header::decode(Messages::new(out.as_slice()).next(), 0) else {
        // A reader stops here with an error about the facts, not about their checksum.
        out.extend_from_slice(&recording[messages.at() as usize..]);
        return Some(out);
    };
    let decoder = Decoder::new(header.schema);
    let mut checksum = header.checksum;
    loop {
        let begun = messages.at() as usize;
        let Ok(Next::Message(message)) = messages.next() else {
            out.extend_from_slice(&recording[begun..]);
            return Some(out);
        };
        let end = messages.at() as usize;
        let place = out.len();
        out.extend_from_slice(&recording[begun..end]);
        let (Some(last), Ok(batch)) = (last_counter(&message), decoder.decode(&message)) else {
            continue;
        };
        checksum = checksum::of_batch(checksum, &batch);
        let body = place + (end - begun) - message.body.len();
        out[body + last.start..body + last.end].copy_from_slice(&u64::from(checksum).to_le_bytes());
    }
}

/// Returns the position of the checksum in the body of a batch: the end of the last buffer.
fn last_counter(message: &Message) -> Option<Range<usize>> {
    let batch = message.header()?.header_as_record_batch()?;
    let buffers = batch.buffers()?;
    let last = buffers.iter().next_back()?;
    let end = usize::try_from(last.offset().checked_add(last.length())?).ok()?;
    let start = end.checked_sub(size_of::<u64>())?;
    (end <= message.body.len()).then_some(start..end)
}
