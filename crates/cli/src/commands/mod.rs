//! One file per command.

pub mod audit;
pub mod check;
pub mod compare;
pub mod doctor;
mod exercise;
pub mod exits;
pub mod explain;
pub mod export;
mod join;
pub mod manual;
pub mod microvm;
pub mod osnoise;
mod polling_group;
pub mod records;
mod replay;
pub mod report;
pub mod run;
pub mod scale;
pub mod schedule;
pub mod serve;
mod steal;
mod target;
pub mod timerlat;
pub mod tune_timer;
