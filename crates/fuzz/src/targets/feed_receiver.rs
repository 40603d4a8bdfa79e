//! Property of a guest for any bytes from its host's feed.

use vmnoise_events::{Event, MeasuringCommand, RunFacts};
use vmnoise_feed::{FeedReceiver, MAX_FRAME_BYTES, encode};

use super::explain::laws;
use crate::grammar::{self, Stream, Words};

/// Passes possible and impossible frames, cut and recombined, to the run of a guest. The law of
/// gaps must hold for the result.
pub(super) fn check(bytes: &[u8]) {
    let mut words = Words::new(bytes);
    let facts = RunFacts {
        workload: MeasuringCommand::Osnoise,
        ..grammar::facts(&mut words)
    };
    let mut receiver = FeedReceiver::default();
    let (mut events, mut came, mut frames) = (Vec::new(), 0, 0);
    if words.flag() {
        let bytes = sent(&mut words, &facts);
        came += bytes.len() as u64;
        receiver.hold(&bytes);
    }
    let held = receiver.release();
    events.extend(held.map(Event::HostFrame));
    while !words.have_ended() {
        let bytes = sent(&mut words, &facts);
        came += bytes.len() as u64;
        for piece in bytes.chunks(usize::from(words.byte()) + 1) {
            receiver.take(piece, &mut |frame| {
                assert!(encode(&frame).len() <= MAX_FRAME_BYTES);
                frames += 1;
                events.push(Event::HostFrame(frame));
            });
        }
        if words.once_in(16) {
            receiver.hung_up();
        }
        events.push(Event::FeedTotals(receiver.totals()));
        let few = usize::from(words.below(8));
        let others = Stream::new(&mut words, &facts).take(few);
        // The frames come through the receiver, so frames in the stream are left out.
        events.extend(others.filter(|event| !matches!(event, Event::HostFrame(_))));
    }
    let totals = receiver.totals();
    assert_eq!(totals.bytes, came);
    assert!(totals.frames >= frames);
    laws::gaps::obeys_the_law(&facts, &events);
}

/// Returns the bytes of one transmission. Some of these bytes are changed.
fn sent(words: &mut Words<'_>, facts: &RunFacts) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=words.below(3) {
        let frame = Stream::new(words, facts).host_frame();
        bytes.extend(encode(&frame));
    }
    for _ in 0..words.below(3) {
        let at = usize::from(words.byte()) * 3 % bytes.len();
        match words.below(3) {
            0 => bytes.truncate(at + 1),
            1 => bytes[at] = words.byte(),
            _ => bytes.insert(at, words.byte()),
        }
    }
    bytes
}
