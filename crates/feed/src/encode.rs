//! Encodes a frame to bytes.

use vmnoise_events::{FeedDetail, HostFrame, Name, Share};

use crate::layout::{
    HEADER_BYTES, IS_LAST, MAGIC, MAX_CULPRITS, MAX_NAME_BYTES, MAX_REASONS, SEES_KVM, VERSION,
};
use crate::payload::share_number;

/// Returns the bytes of this frame. The bytes contain no more than the frame's [`FeedDetail`]
/// allows. Lists and names are cut to their limits.
pub fn encode(frame: &HostFrame) -> Vec<u8> {
    let reasons = match frame.detail {
        FeedDetail::Counts => &[],
        _ => &frame.reasons[..frame.reasons.len().min(MAX_REASONS)],
    };
    let culprits = match frame.detail {
        FeedDetail::Full => &frame.culprits[..frame.culprits.len().min(MAX_CULPRITS)],
        _ => &[],
    };

    let mut bytes = vec![0; HEADER_BYTES];
    bytes.extend(frame.vcpu.to_le_bytes());
    bytes.push(frame.detail as u8);
    bytes.push(flag(frame.sees_kvm, SEES_KVM) | flag(frame.is_last, IS_LAST));
    bytes.push(small(reasons.len()));
    // The number is counted below, because a culprit whose share has no number is left out.
    let culprit_count_at = bytes.len();
    bytes.push(0);
    for number in [
        frame.from_tsc,
        frame.until_tsc,
        frame.exits,
        frame.heavy,
        frame.lost,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    for (_, ns) in frame.split.select(Share::OF_EXITS) {
        bytes.extend(ns.to_le_bytes());
    }
    for reason in reasons {
        put_name(&mut bytes, &reason.name);
        bytes.extend(reason.exits.to_le_bytes());
        bytes.extend(reason.dur_ns.to_le_bytes());
    }
    for culprit in culprits {
        let Some(number) = share_number(culprit.share) else {
            continue;
        };
        bytes[culprit_count_at] += 1;
        bytes.push(number);
        put_name(&mut bytes, &culprit.name);
        bytes.extend(culprit.dur_ns.to_le_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// Writes the header for the payload. Tests call this function again after they have changed the
/// payload.
pub fn seal(bytes: &mut [u8]) {
    let (header, payload) = bytes.split_at_mut(HEADER_BYTES);
    // The limits keep a payload below 64 KiB.
    let length = payload.len() as u16;
    header[..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[6..8].copy_from_slice(&length.to_le_bytes());
    header[8..12].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let sum = crc32fast::hash(&header[..12]);
    header[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// Writes the name, cut to the maximum length.
fn put_name(bytes: &mut Vec<u8>, name: &Name) {
    let room = name.len().min(MAX_NAME_BYTES);
    let length = (0..=room)
        .rev()
        .find(|&length| name.is_char_boundary(length));
    let length = length.unwrap_or(0);
    bytes.push(small(length));
    bytes.extend(&name.as_bytes()[..length]);
}

fn flag(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

/// Converts a length to one byte. The limit of the length keeps it below 256.
fn small(length: usize) -> u8 {
    debug_assert!(length <= MAX_NAME_BYTES.max(MAX_REASONS).max(MAX_CULPRITS));
    length as u8
}
