//! `vmnoise doctor`: the rung table of this machine.

use anyhow::Result;
use vmnoise_events::Rung;
use vmnoise_workload::microvm;

use crate::args::DoctorArguments;
use crate::output;
use crate::status::Status;

/// Tries every rung, prints the table; status 3 if not even the microVM can run.
pub fn run(arguments: &DoctorArguments) -> Result<Status> {
    let (microvm_rungs, microvm_runs) = match microvm::offer() {
        Ok(offer) => (offer.rungs(), true),
        Err(error) => (vec![no_microvm(&error)], false),
    };
    let rungs: Vec<Rung> = microvm_rungs.into_iter().chain(vmnoise_tracer::survey()).collect();
    output::doctor::print(&rungs, arguments.format)?;
    Ok(if microvm_runs { Status::Ok } else { Status::MachineCannot })
}

fn no_microvm(error: &microvm::Error) -> Rung {
    Rung {
        probe: "microVM".into(),
        rung: "none".into(),
        best: false,
        limit: "`vmnoise microvm` cannot run here".into(),
        remedy: error.to_string(),
    }
}
