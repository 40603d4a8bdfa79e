//! Both ends of the feed, over which a host reports to its guests the time that the host took from
//! them (docs/feed.md).

pub mod receiver;
pub(crate) mod sender;
