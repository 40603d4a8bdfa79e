//! The feed between a host and its guest: frames as bytes, and back from a stream that
//! nobody trusts. `docs/feed.md` is the format for people.
//!
//! But for [`AskedHost`] nothing here opens anything, and nothing waits. Whatever the bytes are, a [`Decoder`] holds at most one frame
//! ([`MAX_FRAME_BYTES`]), hands out frames that are whole and consistent, and says what
//! was wrong with the rest.

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
pub use counted::{Counted, Frame, Reading};
pub use decoder::Decoder;
pub use encode::{encode, seal};
pub use error::FrameError;
pub use layout::{
    MAX_CULPRITS, MAX_FRAME_BYTES, MAX_NAME_BYTES, MAX_REASONS, PORT_NAME, VERSION, VSOCK_PORT,
};
pub use outgoing::Outgoing;
pub use receiver::Receiver;
