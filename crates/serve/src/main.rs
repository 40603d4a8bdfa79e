//! `vmnoise-serve` counts the lost time of every vCPU of this host, and serves it as metrics. The
//! command `vmnoise serve` starts this program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod asking;
mod breaker;
mod canary;
mod clock;
mod confined;
mod connections;
mod culprits;
mod dump_command;
mod dump_folder;
mod dump_route;
mod dumps;
mod exits;
mod exits_route;
mod flight;
mod guards;
mod host_asking;
mod http;
mod labels;
mod ledger;
#[cfg(test)]
mod ledger_law;
mod listen;
mod live;
mod machine;
mod metrics;
mod otlp;
mod own_cpus;
mod placement;
mod proc_sums;
mod say;
mod service_manager;
mod signs;
mod summaries;
mod tls;
mod token;
mod watch;
mod who;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use vmnoise_feed::AskedHost;
use vmnoise_host::Host;
use vmnoise_rights::{AttachedWork, RightsError};
use vmnoise_serve_arguments::{DumpArguments, ServeArguments};
use vmnoise_tracer::LoadError;

use dumps::Dumps;
use exits::Exits;
use guards::Guards;
use host_asking::HostAsking;
use say::say;
use service_manager::ServiceManager;
use summaries::{Destination, Summaries};
use watch::Watch;

/// Export, for each VM, how long its vCPUs waited and for whom (Prometheus)
#[derive(Debug, Parser)]
#[command(
    name = "vmnoise serve",
    version,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(flatten)]
    serve: ServeArguments,
    #[command(subcommand)]
    instead: Option<Instead>,
}

/// A task that this program does for `vmnoise`, as an alternative to serving.
#[derive(Debug, Subcommand)]
enum Instead {
    /// Write the lost time of all vCPUs in the last minutes into a recording
    Dump(DumpArguments),
}

/// Exit status if the machine lacks something that the program needs. All `vmnoise` commands use
/// this status.
const MACHINE_CANNOT: u8 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match &arguments.instead {
        Some(Instead::Dump(dump)) => dump_command::run(dump),
        None => serve(&arguments.serve),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            let cannot = matches!(error.downcast_ref(), Some(LoadError::Refused { .. }))
                || matches!(error.downcast_ref(), Some(RightsError::Missing(_)))
                || error.is::<proc_sums::Lacking>();
            ExitCode::from(if cannot { MACHINE_CANNOT } else { 1 })
        }
    }
}

/// Runs the server until a signal ends it. Drops rights in the order of `vmnoise_rights`. The
/// process has one thread until everything that needs rights is done.
fn serve(arguments: &ServeArguments) -> Result<()> {
    vmnoise_rights::begin(None)?;
    placement::keep_off_isolated(&Host::here())?;
    proc_sums::check(&arguments.dump_on)?;
    let listener = listen::listener(arguments.listen)?;
    let guards = Guards::of(arguments, listener.local_addr()?)?;
    let summaries = arguments.summaries.as_deref();
    let summaries = summaries.map(Destination::of).transpose()?;
    let otlp = arguments.otlp.as_ref();
    let otlp = otlp.map(|url| otlp::Target::of(url.as_deref()));
    let otlp = otlp.transpose()?;
    let host = arguments.ask_host.as_ref();
    let host = host.map(|port| AskedHost::open(port.as_deref()));
    let host = host.transpose()?;
    let dumps = arguments.dumps.as_deref();
    let dumps = dumps.map(dump_folder::made).transpose()?;
    let of_summaries = summaries.as_ref().and_then(Destination::folder);
    let folders = of_summaries.map(Path::to_owned).into_iter();
    let folders: Vec<PathBuf> = folders.chain(dumps.clone()).collect();
    let mut watch = Watch::begin(arguments)?;
    let looks_at_exits = !arguments.exits_on.is_empty();
    let tracer = looks_at_exits.then(exits::load).transpose()?;
    let manager = ServiceManager::of_environment().context("finding the service manager")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting to serve")?;
    let mut works = vec![AttachedWork::ServeBooks];
    if !folders.is_empty() {
        confined::confine_to(&folders)?;
        works.push(AttachedWork::WriteFolders);
    }
    if !arguments.dumps_for.is_empty() {
        works.push(AttachedWork::HearGuests);
    }
    if looks_at_exits {
        works.push(AttachedWork::WatchExits);
    }
    if otlp.is_some() || summaries.as_ref().is_some_and(Destination::is_store) {
        works.push(AttachedWork::SendOut);
    }
    if let Some(unlimited) = vmnoise_rights::keep(&works)? {
        say(&unlimited.to_string());
    }
    let dumps =
        dumps.map(|folder| Dumps::begin(&folder, arguments.dump_over_ns(), &arguments.dump_on));
    let dumps = dumps.transpose()?;
    if let Some(tracer) = tracer {
        let shelf = dumps.as_ref().map(Dumps::shelf);
        let machine = watch.machine().clone();
        let exits = Exits::begin(tracer, &arguments.exits_on, machine, shelf)?;
        watch.look_at_exits(exits);
    }
    if let Some(dumps) = dumps {
        watch.write_dumps(dumps);
    }
    if let Some(host) = host {
        watch.ask_host(HostAsking::new(host, arguments.dump_over_ns()))?;
    }
    let summaries = summaries.map(|destination| {
        destination.check()?;
        Summaries::begin(destination, &watch)
    });
    let summaries = summaries.transpose()?;
    let otlp = otlp.map(otlp::Exports::begin).transpose()?;
    let watch = Arc::new(Mutex::new(watch));
    let guests = &arguments.dumps_for;
    runtime.block_on(http::serve(
        listener, guards, watch, summaries, otlp, guests, &manager,
    ))
}
