//! `vmnoise doctor`: the rung table of this machine.

use anyhow::{Context, Result};
use vmnoise_events::Rung;
use vmnoise_tracer::host::Host;
use vmnoise_workload::microvm;

use crate::args::DoctorArguments;
use crate::status::Status;
use crate::{output, rungs};

/// Tries every rung, prints the table; status 3 if not even the microVM can run.
pub fn run(arguments: &DoctorArguments) -> Result<Status> {
    let (mut table, status) = match microvm::offer() {
        Ok(offer) => (rungs::of_offer(&offer), Status::Ok),
        Err(error) => (vec![rungs::no_microvm(&error)], Status::MachineCannot),
    };
    let survey: Vec<Rung> = vmnoise_tracer::survey();
    table.extend(survey);
    let host = Host::here()
        .facts()
        .context("reading the facts of this machine")?;
    output::doctor::print(&host, &table, arguments.format)?;
    Ok(status)
}
