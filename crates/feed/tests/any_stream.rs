//! Properties for any frame and any bytes.

use crate::decode;
use proptest::prelude::*;
use vmnoise_events::{FeedDetail, HostCulprit, HostFrame, HostReason, Share, ShareMap};
use vmnoise_feed::{FrameDecoder, encode};

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Zé:/ 0-9]{0,30}"
}

fn reason() -> impl Strategy<Value = HostReason> {
    (name(), any::<u64>(), any::<u64>()).prop_map(|(name, exits, dur_ns)| HostReason {
        name: name.into(),
        exits,
        dur_ns,
    })
}

fn culprit() -> impl Strategy<Value = HostCulprit> {
    (0..Share::OF_EXITS.len(), name(), any::<u64>()).prop_map(|(share, name, dur_ns)| HostCulprit {
        share: Share::OF_EXITS[share],
        name: name.into(),
        dur_ns,
    })
}

prop_compose! {
    fn frame()(
        vcpu: u32,
        tsc: (u64, u64),
        counts: (u64, u64),
        detail in prop::sample::select(FeedDetail::ALL.as_slice()),
        sees_kvm: bool,
        is_last: bool,
        lost: u64,
        parts: [u64; Share::OF_EXITS.len()],
        reasons in prop::collection::vec(reason(), 0..5),
        culprits in prop::collection::vec(culprit(), 0..5),
    ) -> HostFrame {
        let mut parts = parts.into_iter();
        HostFrame {
            vcpu,
            from_tsc: tsc.0.min(tsc.1),
            until_tsc: tsc.0.max(tsc.1),
            detail,
            sees_kvm,
            is_last,
            exits: counts.0.max(counts.1),
            heavy: counts.0.min(counts.1),
            split: ShareMap::only(Share::OF_EXITS, |_| parts.next().unwrap_or_default()),
            lost,
            reasons: if detail >= FeedDetail::Reasons { reasons } else { vec![] },
            culprits: if detail >= FeedDetail::Full { culprits } else { vec![] },
        }
    }
}

fn frames() -> impl Strategy<Value = Vec<HostFrame>> {
    prop::collection::vec(frame(), 1..4)
}

proptest! {
    #[test]
    fn frames_come_back_as_they_were(frames in frames()) {
        let bytes: Vec<u8> = frames.iter().flat_map(encode).collect();
        let expected: Vec<_> = frames.into_iter().map(Ok).collect();
        prop_assert_eq!(decode(&bytes), expected);
    }

    #[test]
    fn the_chunks_they_come_in_change_nothing(
        frames in frames(),
        junk in prop::collection::vec(any::<u8>(), 0..40),
        chunk in 1..200_usize,
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| {
            [encode(frame), junk.clone()].concat()
        }).collect();
        let mut found = Vec::new();
        let mut decoder = FrameDecoder::new();
        for chunk in bytes.chunks(chunk) {
            decoder.push(chunk, &mut |one| found.push(one));
        }
        prop_assert_eq!(found, decode(&bytes));
    }

    #[test]
    fn a_cut_anywhere_loses_the_frame_that_is_cut_and_no_other(
        frames in frames(),
        at: prop::sample::Index,
    ) {
        let first = encode(&frames[0]);
        let rest: Vec<u8> = frames.iter().flat_map(encode).collect();
        let at = at.index(first.len() - 1) + 1;
        let found = decode(&[&first[..at], &rest].concat());
        let reported: Vec<_> = found.iter().flatten().cloned().collect();
        // After a cut, the decoder takes the start of the next frame for the rest of the cut frame.
        // The decoder still finds the next frame.
        prop_assert_eq!(reported, frames);
        prop_assert!(found.iter().any(Result::is_err), "the cut is not told");
    }

    #[test]
    fn a_flipped_bit_is_noticed(
        frame in frame(),
        next in frame(),
        at: prop::sample::Index,
        bit in 0..8_u32,
    ) {
        let mut damaged = encode(&frame);
        let at = at.index(damaged.len());
        damaged[at] ^= 1 << bit;
        let found = decode(&[damaged, encode(&next)].concat());
        let reported: Vec<_> = found.iter().flatten().cloned().collect();
        prop_assert_eq!(reported, vec![next]);
        prop_assert!(found.iter().any(Result::is_err), "the damage is not told");
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        for one in decode(&bytes) {
            prop_assert!(one.is_err(), "a checksum came true by chance");
        }
    }
}
