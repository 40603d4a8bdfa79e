//! `vmnoise-serve`: keeps the books of every vCPU of this host, and serves them as metrics.
//! `vmnoise serve` starts it.
#![forbid(unsafe_code)]

mod clock;
mod connections;
mod culprits;
mod guards;
mod http;
mod labels;
mod ledger;
mod listen;
mod live;
mod metrics;
mod placement;
mod say;
mod service_manager;
mod summaries;
mod tls;
mod token;
mod watch;
mod who;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use clap::Parser;
use vmnoise_rights::{RightsError, Work};
use vmnoise_serve_arguments::ServeArguments;
use vmnoise_tracer::LoadError;
use vmnoise_tracer::host::Host;

use guards::Guards;
use say::say;
use service_manager::ServiceManager;
use summaries::{Destination, Summaries};
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
    placement::keep_off_isolated(&Host::here())?;
    let listener = listen::listener(arguments.listen)?;
    let guards = Guards::of(arguments, listener.local_addr()?)?;
    let summaries = arguments.summaries.as_deref();
    let summaries = summaries.map(Destination::of).transpose()?;
    let watch = Watch::begin(arguments.vcpus)?;
    let manager = ServiceManager::of_environment().context("finding the service manager")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting to serve")?;
    let mut works = vec![Work::ServeBooks];
    if let Some(destination) = &summaries {
        destination.confine()?;
        works.push(destination.work());
    }
    if let Some(unlimited) = vmnoise_rights::keep(&works)? {
        say(&unlimited.to_string());
    }
    let summaries = summaries.map(|destination| {
        destination.check()?;
        Summaries::begin(destination, &watch)
    });
    let summaries = summaries.transpose()?;
    let watch = Arc::new(Mutex::new(watch));
    runtime.block_on(http::serve(listener, guards, watch, summaries, &manager))
}
