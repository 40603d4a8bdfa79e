//! Both ends of the feed: a host tells its guests what it took of them (docs/feed.md).

pub mod receiver;
pub mod sender;
