//! `vmnoise-serve`: keeps the books of every vCPU of this host, and serves them as metrics.
//! `vmnoise serve` starts it.
#![forbid(unsafe_code)]

mod clock;
mod culprits;
mod http;
mod labels;
mod ledger;
mod listen;
mod live;
mod metrics;
mod service_manager;
mod watch;
mod who;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use clap::Parser;
use vmnoise_events::shown_lines;
use vmnoise_rights::{RightsError, Work};
use vmnoise_serve_arguments::ServeArguments;
use vmnoise_tracer::LoadError;

use service_manager::ServiceManager;
use watch::Watch;

/// Keep the books of every vCPU of this host, and serve them as metrics for Prometheus
#[derive(Debug, Parser)]
#[command(name = "vmnoise serve", version)]
struct Arguments {
    #[command(flatten)]
    serve: ServeArguments,
}

/// The machine lacks what this needs, as for the other commands.
const MACHINE_CANNOT: u8 = 3;

fn main() -> ExitCode {
    match serve(&Arguments::parse().serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            let cannot = matches!(error.downcast_ref(), Some(LoadError::Refused { .. }))
                || matches!(error.downcast_ref(), Some(RightsError::Missing(_)));
            ExitCode::from(if cannot { MACHINE_CANNOT } else { 1 })
        }
    }
}

/// Rights go in the order of `vmnoise_rights`: there is one thread until all that needs them is done.
fn serve(arguments: &ServeArguments) -> Result<()> {
    vmnoise_rights::begin(None)?;
    let listener = listen::listener(arguments.listen)?;
    let watch = Watch::begin(arguments.vcpus)?;
    let manager = ServiceManager::of_environment().context("finding the service manager")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting to serve")?;
    if let Some(unlimited) = vmnoise_rights::keep(&[Work::ServeBooks])? {
        say(&unlimited.to_string());
    }
    let watch = Arc::new(Mutex::new(watch));
    runtime.block_on(http::serve(listener, watch, &manager))
}

/// A line on stderr. What the kernel says of others' files may be in it.
fn say(words: &str) {
    eprintln!("vmnoise serve: {}", shown_lines(words));
}
