//! The feed between a host and its guest: encodes frames, and decodes them from an untrusted
//! stream. `docs/feed.md` describes the format.
//!
//! Only [`AskedHost`] opens a file, and no function blocks. For any bytes, a [`FrameDecoder`] holds
//! at most one frame ([`MAX_FRAME_BYTES`]), returns only complete and consistent frames, and
//! reports errors for all other bytes.

#![forbid(unsafe_code)]

mod address;
mod asked_host;
mod counted;
mod decoder;
mod encode;
mod error;
mod layout;
mod outgoing;
mod payload;
mod receiver;

pub use address::FeedAddress;
pub use asked_host::{AskError, AskedHost, virtio_port};
pub use counted::{CountsTime, FeedFrame, VcpuReading};
pub use decoder::FrameDecoder;
pub use encode::{encode, seal};
pub use error::FrameError;
pub use layout::{
    MAX_CULPRITS, MAX_FRAME_BYTES, MAX_NAME_BYTES, MAX_REASONS, PORT_NAME, VERSION, VSOCK_PORT,
};
pub use outgoing::Outgoing;
pub use receiver::FeedReceiver;
