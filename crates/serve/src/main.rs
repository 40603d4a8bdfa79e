//! `vmnoise-serve`: keeps the books of every vCPU of this host, and serves them as metrics.
//! `vmnoise serve` starts it.
#![forbid(unsafe_code)]

mod arguments;
mod http;
mod labels;
mod ledger;
mod metrics;
mod watch;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use clap::Parser;

use arguments::Arguments;
use watch::Watch;

fn main() -> ExitCode {
    match serve(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vmnoise serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<()> {
    let watch = Arc::new(Mutex::new(Watch::begin(arguments.vcpus)?));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting to serve")?;
    runtime.block_on(http::serve(arguments.listen, watch))
}
