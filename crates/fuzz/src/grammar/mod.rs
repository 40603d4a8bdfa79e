//! Makes streams of events from any bytes. Most events could be events of a real run, so that
//! readers get far. Some numbers are impossible in a run.

mod events;
mod facts;
mod vcpus;
mod words;

pub(crate) use events::Stream;
pub(crate) use facts::{facts, facts_of_pair};
pub(crate) use words::Words;
