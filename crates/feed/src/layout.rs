//! What both sides of the wire must agree on: sizes, limits and marks.

use vmnoise_events::Share;

/// First bytes of each frame. The first of them occurs nowhere in UTF-8, hence in no name.
pub(crate) const MAGIC: [u8; 4] = [0xf7, b'v', b'm', b'n'];
/// The version of the payload; the header is the same in every version.
pub const VERSION: u16 = 1;

/// Magic, version, length of the payload, its checksum, checksum of all these.
pub(crate) const HEADER_BYTES: usize = 16;
/// What a payload starts with, before its lists: 8 bytes, 5 numbers, the parts of the split.
pub(crate) const FIXED_BYTES: usize = 8 + (5 + Share::OF_EXITS.len()) * 8;

/// How many reasons a frame reports at most.
pub const MAX_REASONS: usize = 64;
/// How many culprits a frame reports at most.
pub const MAX_CULPRITS: usize = 64;
/// How long a name is at most, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 64;

const REASON_BYTES: usize = 1 + MAX_NAME_BYTES + 2 * 8;
const CULPRIT_BYTES: usize = 2 + MAX_NAME_BYTES + 8;
/// The longest payload that keeps all limits.
pub(crate) const MAX_PAYLOAD_BYTES: usize =
    FIXED_BYTES + MAX_REASONS * REASON_BYTES + MAX_CULPRITS * CULPRIT_BYTES;
/// The longest frame that keeps all limits.
pub const MAX_FRAME_BYTES: usize = HEADER_BYTES + MAX_PAYLOAD_BYTES;

/// Exits handled in the host kernel are seen.
pub(crate) const SEES_KVM: u8 = 1;
/// Nothing is below the host.
pub(crate) const IS_LAST: u8 = 2;

/// What the port of a virtio-serial device is called: a guest finds it under
/// `/dev/virtio-ports/`.
pub const PORT_NAME: &str = "org.vmnoise.feed.0";
/// The port of a vsock device on which a guest waits for its host: above those that need
/// privileges, of no known service.
pub const VSOCK_PORT: u32 = 30_317;
