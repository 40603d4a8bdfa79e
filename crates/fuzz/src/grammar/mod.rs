//! Streams of events out of any bytes: mostly such as a run would tell, so that what reads them gets
//! far, with numbers in between that no run has.

mod events;
mod facts;
mod vcpus;
mod words;

pub(crate) use events::Stream;
pub(crate) use facts::{facts, facts_of_pair};
pub(crate) use words::Words;
