//! Output of `vmnoise timerlat`.

pub mod analysis;
pub mod budget;
pub mod columns;
pub mod cyclictest;
pub mod document;
pub mod exports;
#[cfg(test)]
pub mod fixtures;
pub mod hist;
mod rt_tests;
mod rtla_table;
pub mod top;
