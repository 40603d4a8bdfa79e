//! Output of `vmnoise timerlat`.

pub(crate) mod analysis;
pub mod at_stop;
pub(crate) mod budget;
pub mod columns;
pub mod cyclictest;
pub(crate) mod document;
pub mod exports;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod hist;
mod rt_tests;
mod rtla_table;
pub mod top;
