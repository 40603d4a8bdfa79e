//! Sizes, limits and marks of the wire format, which both sides must agree on.

use vmnoise_events::Share;

/// First bytes of each frame. The first byte never occurs in UTF-8, so it occurs in no name.
pub(crate) const MAGIC: [u8; 4] = [0xf7, b'v', b'm', b'n'];
/// Version of the payload; the header is the same in every version.
pub const VERSION: u16 = 1;

/// Length of a header in bytes: magic, version, length of the payload, checksum of the payload, and
/// checksum of all these fields.
pub(crate) const HEADER_BYTES: usize = 16;
/// Length of a payload before its lists, in bytes: 8 bytes of small fields, 5 numbers, and the
/// parts of the split.
pub(crate) const FIXED_BYTES: usize = 8 + (5 + Share::OF_EXITS.len()) * 8;

/// Maximum number of reasons in a frame.
pub const MAX_REASONS: usize = 64;
/// Maximum number of culprits in a frame.
pub const MAX_CULPRITS: usize = 64;
/// Maximum length of a name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 64;

const REASON_BYTES: usize = 1 + MAX_NAME_BYTES + 2 * 8;
const CULPRIT_BYTES: usize = 2 + MAX_NAME_BYTES + 8;
/// Maximum length of a payload, in bytes.
pub(crate) const MAX_PAYLOAD_BYTES: usize =
    FIXED_BYTES + MAX_REASONS * REASON_BYTES + MAX_CULPRITS * CULPRIT_BYTES;
/// Maximum length of a frame, in bytes.
pub const MAX_FRAME_BYTES: usize = HEADER_BYTES + MAX_PAYLOAD_BYTES;

/// Flag of a frame: the host observes the exits that its kernel handled.
pub(crate) const SEES_KVM: u8 = 1;
/// Flag of a frame: the host runs on bare metal, so no layer is below it.
pub(crate) const IS_LAST: u8 = 2;

/// Name of the port of a virtio-serial device: a guest finds it in `/dev/virtio-ports/`.
pub const PORT_NAME: &str = "org.vmnoise.feed.0";
/// Port of a vsock device on which a guest waits for its host. The port is above the privileged
/// ports, and no known service uses it.
pub const VSOCK_PORT: u32 = 30_317;
