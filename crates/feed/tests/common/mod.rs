//! Frames and streams that the tests and the corpus share.

use vmnoise_events::{FeedDetail, HostCulprit, HostFrame, HostReason, Share, ShareMap};

/// Returns a frame with a different number in each field.
pub fn full_frame() -> HostFrame {
    let mut next = 0;
    HostFrame {
        vcpu: 3,
        from_tsc: 0x1111,
        until_tsc: 0x2222,
        detail: FeedDetail::Full,
        sees_kvm: true,
        is_last: true,
        exits: 0x33,
        heavy: 0x22,
        split: ShareMap::only(Share::OF_EXITS, |_| {
            next += 1;
            next
        }),
        lost: 0x55,
        reasons: vec![HostReason {
            name: "EPT_VIOLATION".into(),
            exits: 0x66,
            dur_ns: 0x77,
        }],
        culprits: vec![HostCulprit {
            share: Share::HostIrq,
            name: "local_timer:236".into(),
            dur_ns: 0x88,
        }],
    }
}

/// Returns [`full_frame`] with the detail that a host sends by default.
pub fn counts_frame() -> HostFrame {
    HostFrame {
        detail: FeedDetail::Counts,
        reasons: Vec::new(),
        culprits: Vec::new(),
        ..full_frame()
    }
}

/// Returns this payload with a valid header.
pub fn framed(version: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xf7, b'v', b'm', b'n'];
    bytes.extend(version.to_le_bytes());
    bytes.extend((payload.len() as u16).to_le_bytes());
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(payload);
    bytes
}
