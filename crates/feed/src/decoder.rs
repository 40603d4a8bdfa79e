//! Decodes frames from a stream of bytes that may be cut, damaged or forged.

use vmnoise_events::HostFrame;

use crate::error::FrameError;
use crate::layout::{HEADER_BYTES, MAGIC, MAX_FRAME_BYTES, MAX_PAYLOAD_BYTES, VERSION};
use crate::payload;

/// Decoder that accepts the bytes of a stream in chunks of any size, and returns the frames. Bytes
/// that are no frame are reported as an error, and skipped up to the next frame.
#[derive(Debug)]
pub struct FrameDecoder {
    /// Bytes that may still become a frame. They begin with the magic bytes, or with a part of
    /// these.
    pending: Vec<u8>,
    /// Whether the last bytes were no frame, and this error was already reported.
    lost: bool,
}

impl Default for FrameDecoder {
    fn default() -> FrameDecoder {
        FrameDecoder {
            pending: Vec::with_capacity(MAX_FRAME_BYTES),
            lost: false,
        }
    }
}

impl FrameDecoder {
    /// Creates a decoder at the start of a stream.
    pub fn new() -> FrameDecoder {
        FrameDecoder::default()
    }

    /// Adds bytes. Passes each frame that these bytes complete, and each error in the bytes, to
    /// `each`.
    pub fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(Result<HostFrame, FrameError>)) {
        let mut rest = bytes;
        loop {
            let missing = self.settle(each);
            if rest.is_empty() {
                return;
            }
            let (taken, later) = rest.split_at(missing.min(rest.len()));
            self.pending.extend_from_slice(taken);
            rest = later;
        }
    }

    /// Decodes the pending bytes as far as possible. Returns the number of bytes that are needed
    /// next.
    fn settle(&mut self, each: &mut dyn FnMut(Result<HostFrame, FrameError>)) -> usize {
        loop {
            self.drop_junk(0, each);
            let Some(header) = self.pending.first_chunk() else {
                return HEADER_BYTES - self.pending.len();
            };
            let length = match check_header(header) {
                Ok(payload_bytes) => HEADER_BYTES + payload_bytes,
                Err(error) => {
                    self.refuse(error, each);
                    continue;
                }
            };
            let Some(payload) = self.pending.get(HEADER_BYTES..length) else {
                return length - self.pending.len();
            };
            if crc32fast::hash(payload) != u32::from_le_bytes(four(header, 8)) {
                self.refuse(FrameError::Checksum, each);
                continue;
            }
            let frame = payload::decode(payload);
            self.pending.drain(..length);
            self.lost = false;
            each(frame);
        }
    }

    /// Reports an error, and drops the start of the invalid frame. The next frame may begin inside
    /// the invalid frame.
    fn refuse(&mut self, error: FrameError, each: &mut dyn FnMut(Result<HostFrame, FrameError>)) {
        self.lost = true;
        each(Err(error));
        self.drop_junk(1, each);
    }

    /// Drops all bytes before the next possible start of a frame, which is at index `from` or
    /// later.
    fn drop_junk(&mut self, from: usize, each: &mut dyn FnMut(Result<HostFrame, FrameError>)) {
        let begin = (from..self.pending.len())
            .find(|at| may_begin(&self.pending[*at..]))
            .unwrap_or(self.pending.len());
        if begin > 0 && !self.lost {
            self.lost = true;
            each(Err(FrameError::NoFrame));
        }
        self.pending.drain(..begin);
    }
}

fn may_begin(bytes: &[u8]) -> bool {
    let known = bytes.len().min(MAGIC.len());
    bytes[..known] == MAGIC[..known]
}

/// Returns the length of the payload in bytes, if the header is valid.
fn check_header(header: &[u8; HEADER_BYTES]) -> Result<usize, FrameError> {
    if crc32fast::hash(&header[..12]) != u32::from_le_bytes(four(header, 12)) {
        return Err(FrameError::Checksum);
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let length = u16::from_le_bytes([header[6], header[7]]);
    if usize::from(length) > MAX_PAYLOAD_BYTES {
        return Err(FrameError::TooLong(length));
    }
    Ok(usize::from(length))
}

fn four(header: &[u8; HEADER_BYTES], at: usize) -> [u8; 4] {
    [header[at], header[at + 1], header[at + 2], header[at + 3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holds_no_more_than_one_frame(
            chunks in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..3000),
                    Just(MAGIC.to_vec()),
                    Just(longest_claim()),
                ],
                0..20,
            )
        ) {
            let mut decoder = FrameDecoder::new();
            let room = decoder.pending.capacity();
            for chunk in chunks {
                decoder.push(&chunk, &mut |_| {});
                prop_assert!(decoder.pending.len() <= MAX_FRAME_BYTES);
                prop_assert_eq!(decoder.pending.capacity(), room);
            }
        }
    }

    /// Returns a valid header with the longest payload, for which the decoder has to wait.
    fn longest_claim() -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((MAX_PAYLOAD_BYTES as u16).to_le_bytes());
        header.extend([0; 4]);
        header.extend(crc32fast::hash(&header).to_le_bytes());
        header
    }
}
