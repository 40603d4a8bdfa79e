//! Property of the sender for any counts of a host, and any speed of the guest.

use std::io::{self, ErrorKind, Write};

use vmnoise_events::{FeedDetail, HostFrame};
use vmnoise_feed::{
    CountsTime, FeedFrame, FrameDecoder, FrameError, MAX_FRAME_BYTES, Outgoing, VcpuReading, encode,
};

use crate::grammar::{self, Stream, Words};

/// A guest that accepts `room` bytes, and then no more bytes.
#[derive(Default)]
struct Guest {
    taken: Vec<u8>,
    room: usize,
}

impl Write for Guest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        self.taken.extend_from_slice(&bytes[..taken]);
        match taken {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Simulates some seconds of a host. The guest must get complete frames that the host sent.
pub(super) fn check(bytes: &[u8]) {
    let mut words = Words::new(bytes);
    let facts = grammar::facts(&mut words);
    let frame = FeedFrame {
        detail: words.one_of(&FeedDetail::ALL),
        from_tsc: words.length(),
        is_last: words.flag(),
        knows_kvm: words.flag(),
        lost: words.count(),
    };
    let (mut outgoing, mut guest) = (Outgoing::default(), Guest::default());
    let (mut meant, mut replaced) = (Vec::new(), 0);
    while !words.have_ended() {
        let frames = second(&frame, &mut words, &facts);
        let room = usize::from(words.byte()) << words.below(8);
        replaced += frames.len() as u64;
        for bytes in &frames {
            assert!(bytes.len() <= MAX_FRAME_BYTES);
            meant.extend(decoded(bytes));
        }
        outgoing.replace(frames);
        guest.room = room;
        outgoing.write_to(&mut guest).expect("it only waits");
    }
    guest.room = usize::MAX;
    outgoing.write_to(&mut guest).expect("it takes everything");
    assert!(outgoing.is_empty());
    assert_eq!(outgoing.sent + outgoing.skipped, replaced);
    assert_eq!(outgoing.bytes, guest.taken.len() as u64);
    let got = decoded(&guest.taken);
    assert_eq!(got.len() as u64, outgoing.sent);
    for one in got {
        assert!(meant.contains(&one), "{one:?} was never meant");
    }
}

/// Returns the frames of one second.
fn second(
    frame: &FeedFrame,
    words: &mut Words<'_>,
    facts: &vmnoise_events::RunFacts,
) -> Vec<Vec<u8>> {
    let reading = CountsTime {
        tsc: words.length(),
        mono_ns: words.length(),
        tsc_hz: facts.clock.tsc_hz,
    };
    let mut frames = Vec::new();
    for _ in 0..=words.below(5) {
        let mut stream = Stream::new(words, facts);
        let (vcpu, clock) = (stream.any_vcpu(), stream.vcpu_clock());
        let (totals, culprits) = (stream.vcpu_totals(), stream.host_frame().culprits);
        let counted = VcpuReading {
            vcpu: &vcpu,
            totals: &totals,
            clock,
            until_mono_ns: words.length(),
            culprits,
        };
        let Some(reported) = frame.of(counted, &reading) else {
            continue;
        };
        assert!(reported.from_tsc <= reported.until_tsc);
        frames.push(encode(&reported));
    }
    frames
}

fn decoded(bytes: &[u8]) -> Vec<Result<HostFrame, FrameError>> {
    let mut found = Vec::new();
    FrameDecoder::new().push(bytes, &mut |one| found.push(one));
    found
}
