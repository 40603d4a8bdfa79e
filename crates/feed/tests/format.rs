//! Tests the bytes of version 1, written out, and the errors.

use crate::common::{counts_frame, framed, full_frame};
use crate::decode;
use vmnoise_events::{FeedDetail, HostCulprit, HostReason, Share};
use vmnoise_feed::{
    FrameError, MAX_CULPRITS, MAX_FRAME_BYTES, MAX_NAME_BYTES, MAX_REASONS, VERSION, encode,
};

/// Index of the first byte of the payload.
const HEADER: usize = 16;

fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

#[test]
fn the_bytes_of_version_1_stay_as_they_are() {
    let mut payload = vec![3, 0, 0, 0, 2, 3, 1, 1];
    payload.extend(u64s(&[0x1111, 0x2222, 0x33, 0x22, 0x55]));
    payload.extend(u64s(&[1, 2, 3, 4, 5, 6, 7, 8, 9]));
    payload.push(13);
    payload.extend(b"EPT_VIOLATION");
    payload.extend(u64s(&[0x66, 0x77]));
    payload.extend([5, 15]);
    payload.extend(b"local_timer:236");
    payload.extend(u64s(&[0x88]));
    assert_eq!(encode(&full_frame()), framed(1, &payload));
    assert_eq!(decode(&framed(1, &payload)), [Ok(full_frame())]);
}

#[test]
fn a_frame_of_counts_has_136_bytes() {
    assert_eq!(encode(&counts_frame()).len(), 136);
}

#[test]
fn no_frame_reports_more_than_its_detail_allows() {
    for detail in FeedDetail::ALL {
        let mut frame = full_frame();
        frame.detail = detail;
        let reported = decode(&encode(&frame)).remove(0).unwrap();
        let shows = |level| usize::from(detail >= level);
        assert_eq!(
            reported.reasons.len(),
            shows(FeedDetail::Reasons),
            "{detail:?}"
        );
        assert_eq!(
            reported.culprits.len(),
            shows(FeedDetail::Full),
            "{detail:?}"
        );
    }
}

#[test]
fn lists_and_names_are_cut_to_their_limits() {
    let mut frame = full_frame();
    let name = "é".repeat(MAX_NAME_BYTES);
    frame.reasons = vec![
        HostReason {
            name: name.clone().into(),
            exits: 1,
            dur_ns: 1
        };
        1000
    ];
    frame.culprits = vec![
        HostCulprit {
            share: Share::Kvm,
            name: name.into(),
            dur_ns: 1
        };
        1000
    ];
    let bytes = encode(&frame);
    assert_eq!(bytes.len(), MAX_FRAME_BYTES);
    let reported = decode(&bytes).remove(0).unwrap();
    assert_eq!(reported.reasons.len(), MAX_REASONS);
    assert_eq!(reported.culprits.len(), MAX_CULPRITS);
    assert_eq!(reported.culprits[0].name, "é".repeat(MAX_NAME_BYTES / 2));
}

#[test]
fn a_name_cannot_steer_a_terminal() {
    let mut frame = full_frame();
    frame.culprits[0].name = "\x1b[2Jevil\n:1\u{9b}".into();
    let reported = decode(&encode(&frame)).remove(0).unwrap();
    assert_eq!(reported.culprits[0].name, "␛[2Jevil␊:1�");
}

#[test]
fn a_culprit_of_a_share_that_no_exit_has_is_left_out() {
    let mut frame = full_frame();
    frame.culprits[0].share = Share::Thread;
    let reported = decode(&encode(&frame)).remove(0).unwrap();
    assert_eq!(reported.culprits, []);
}

#[test]
fn a_version_that_is_not_known_is_named() {
    let newer = framed(VERSION + 1, &[0; 40]);
    let error = FrameError::Version(VERSION + 1);
    assert_eq!(decode(&newer), [Err(error)]);
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn a_length_beyond_the_limit_is_refused_at_once() {
    let bytes = framed(VERSION, &[0; 60_000]);
    assert_eq!(decode(&bytes[..HEADER]), [Err(FrameError::TooLong(60_000))]);
}

#[test]
fn the_checksums_alone_make_no_frame() {
    let payload = &encode(&full_frame())[HEADER..];
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut payload = payload.to_vec();
        change(&mut payload);
        match decode(&framed(VERSION, &payload)).as_slice() {
            [Err(FrameError::Content(what))] => *what,
            other => panic!("{other:?}"),
        }
    };
    let reason = 120;
    let culprit = reason + 1 + 13 + 16;
    assert_eq!(refused(&|p| p[4] = 3), "its detail");
    assert_eq!(refused(&|p| p[5] = 4), "its flags");
    assert_eq!(refused(&|p| p[6] = 65), "its number of reasons");
    assert_eq!(refused(&|p| p[7] = 65), "its number of culprits");
    assert_eq!(refused(&|p| p[4] = 0), "its number of reasons");
    assert_eq!(refused(&|p| p[4] = 1), "its number of culprits");
    assert_eq!(refused(&|p| p[15] = 1), "it ends before it begins");
    assert_eq!(refused(&|p| p[32] = 0x34), "more heavy exits than exits");
    assert_eq!(refused(&|p| p[reason] = 65), "the length of a name");
    assert_eq!(
        refused(&|p| p[reason + 1] = 0xff),
        "a name that is no UTF-8"
    );
    assert_eq!(
        refused(&|p| p[reason + 1] = 7),
        "a name with control characters"
    );
    assert_eq!(refused(&|p| p[culprit] = 9), "its share");
    assert_eq!(refused(&|p| p.truncate(culprit)), "it ends early");
    assert_eq!(refused(&|p| p.push(0)), "bytes behind its end");
}
