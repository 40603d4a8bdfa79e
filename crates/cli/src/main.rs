//! `vmnoise`: measures every moment a CPU is taken from a virtual machine, and
//! says who took it. This page parses, runs, and turns the outcome into a status.
#![forbid(unsafe_code)]

mod actions;
mod args;
mod commands;
mod condition;
mod exercise_name;
mod exits_measure;
mod exits_session;
mod feed;
#[cfg(test)]
mod fixtures;
mod foreign;
mod frame;
mod host_feed;
mod interrupt;
mod loss_news;
mod measure;
mod observed;
mod outer_steal;
mod output;
mod poller;
mod priority;
mod progress;
mod reaction;
mod reason_names;
mod recent_trace;
mod recorder;
mod rungs;
mod say;
mod session;
mod shell;
mod status;
mod units;
mod warm_up;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::status::Status;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return status::of_usage(&error).into(),
    };
    let outcome = match arguments.command {
        Command::Microvm(arguments) => commands::microvm::run(&arguments),
        Command::Osnoise(arguments) => commands::osnoise::run(&arguments),
        Command::Timerlat(arguments) => commands::timerlat::run(&arguments),
        Command::Exits(arguments) => commands::exits::run(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Man(arguments) => commands::manual::man(&arguments),
        Command::Completions(arguments) => commands::manual::completions(&arguments),
    };
    match outcome {
        Ok(status) => status.into(),
        Err(error) => Status::of_error(&error).into(),
    }
}
