//! The programs that run inside labs and next to tests. They are in one file, so that they are
//! linked only once, and a lab carries them only once. The name under which the file is started
//! selects the program: `lab-poll` is a link to the file (`vmnoise_testbed::lab_program`).
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod disturb;
mod domain;
mod fault;
mod feed_vmm;
mod guest;
mod init;
mod memory;
mod network;
mod partition;
mod poll;
mod scrape;
mod switches;
mod tasks;
mod tied;
mod tracefs;
mod tty;
mod vmm;
mod xen;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> Result<ExitCode> {
    let started_as = std::env::args()
        .next()
        .context("a program without a name")?;
    let name = started_as.rsplit('/').next().unwrap_or_default();
    // The kernel starts the first process of a lab as /init.
    match name.strip_prefix("lab-").unwrap_or(name) {
        "disturb" => disturb::main(),
        "domain" => domain::main(),
        "fault" => fault::main(),
        "feed-vmm" => feed_vmm::main(),
        "guest" => guest::main(),
        "init" => init::main(),
        "memory" => memory::main(),
        "network" => network::main(),
        "partition" => partition::main(),
        "poll" => poll::main(),
        "scrape" => scrape::main(),
        "switches" => switches::main(),
        "tasks" => tasks::main(),
        "tied" => tied::main(),
        "tracefs" => return tracefs::main(),
        "tty" => tty::main(),
        "vmm" => vmm::main(),
        "xen" => xen::main(),
        _ => bail!("{name} is none of the labs' programs: see crates/testbed/src/bin/lab-programs"),
    }?;
    Ok(ExitCode::SUCCESS)
}
