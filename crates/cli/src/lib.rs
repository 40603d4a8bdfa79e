//! `vmnoise` measures every moment that a CPU is taken from a virtual machine, and says who took
//! it. This file parses the command line, runs the command, and turns its outcome into a status.
//!
//! This crate is a library so that fuzzing can run the commands. The program only calls it
//! (`main.rs`).
#![forbid(unsafe_code)]

mod args;
mod commands;
mod progress;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use vmnoise_console::status::ExitStatus;
use vmnoise_console::{rights, stderr};
use vmnoise_rights::AttachedWork;

use crate::args::Command;

/// Runs one command line, whose first word is the program's name, and returns its exit status. Most
/// commands give up rights of the process, so a process must call this only once.
pub fn run(command_line: impl IntoIterator<Item = OsString>) -> ExitCode {
    parse_and(command_line, |command| {
        if is_about_files(&command) {
            vmnoise_rights::begin(None)?;
            let looks = matches!(command, Command::Audit(_)).then_some(AttachedWork::SeeVms);
            let works = [AttachedWork::SaveFiles].into_iter().chain(looks);
            rights::keep(&works.collect::<Vec<_>>())?;
        }
        carry_out(command)
    })
}

/// Runs a command that only reads and writes files. Keeps all rights, because fuzzing runs further
/// commands in the same process.
#[doc(hidden)]
pub fn run_and_keep_rights(command_line: impl IntoIterator<Item = OsString>) -> ExitCode {
    parse_and(command_line, |command| {
        assert!(is_about_files(&command), "others give up rights as they go");
        carry_out(command)
    })
}

/// Size to which the first thread's stack is grown. This is several times the size that the thread
/// uses.
const STACK_BYTES: usize = 256 << 10;

/// Grows the stack of the first thread to its largest size before the run locks its memory
/// (mlockall(2)) and gives up its rights. After that, a growing stack counts against RLIMIT_MEMLOCK
/// (`acct_stack_growth` of the kernel). Beyond this limit, the kernel ends the process with
/// SIGSEGV. All other threads get their whole stack when they start.
#[inline(never)]
fn grow_stack() {
    std::hint::black_box([0_u8; STACK_BYTES]);
}

fn parse_and(
    command_line: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(Command) -> Result<ExitStatus>,
) -> ExitCode {
    grow_stack();
    let command = match args::parse(command_line) {
        Ok(command) => command,
        Err(error) => return status::of_command_line(&error).into(),
    };
    let status = run(command).unwrap_or_else(|error| ExitStatus::of_error(&error));
    stderr::end();
    status.into()
}

/// Returns whether a command only reads and writes files, and measures nothing.
fn is_about_files(command: &Command) -> bool {
    matches!(
        command,
        Command::Explain(_)
            | Command::Report(_)
            | Command::Compare(_)
            | Command::Check(_)
            | Command::Scale(_)
            | Command::Schedule(_)
            | Command::Export(_)
    ) || matches!(command, Command::Audit(arguments) if arguments.measure.is_none())
}

fn carry_out(command: Command) -> Result<ExitStatus> {
    match command {
        Command::Microvm(arguments) => commands::microvm::run(&arguments),
        Command::Osnoise(arguments) => commands::osnoise::run(&arguments),
        Command::Timerlat(arguments) => commands::timerlat::run(&arguments),
        Command::Cyclictest(arguments) => commands::timerlat::run_as_cyclictest(&arguments),
        Command::Exits(arguments) => commands::exits::run(&arguments),
        Command::Serve(arguments) => commands::serve::serve(&arguments),
        Command::Dump(arguments) => commands::serve::dump(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Schedule(arguments) => commands::schedule::run(&arguments),
        Command::Audit(arguments) => commands::audit::run(&arguments),
        Command::TuneTimer(arguments) => commands::tune_timer::run(&arguments),
        Command::Scale(arguments) => commands::scale::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Man(arguments) => commands::manual::man(&arguments),
        Command::Completions(arguments) => commands::manual::completions(&arguments),
    }
}
