//! Both ends of the feed: a host reports to its guests what it took of them (docs/feed.md).

pub mod receiver;
pub mod sender;
