//! `vmnoise microvm --exercise`: runs a guest that makes one kind of exit in a loop. It measures no
//! noise, and needs no BPF.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_console::progress::TimeLine;
use vmnoise_console::status::{ExitStatus, MachineCannot};
use vmnoise_console::{interrupt, rights};
use vmnoise_engine::{LocalMachine, machine};
use vmnoise_render::exercise::{ExerciseDocument, ExerciseOptions, print};
use vmnoise_workload::microvm::exercise::{
    self as guest, Exercise, ExerciseConfig, ExerciseResult, ExitHandler,
};

use crate::args::MicrovmArguments;

/// Runs the exercise, prints the result, and fails if the guest's actions made no exits.
pub fn run(
    exercise: Exercise,
    cpus: Vec<u32>,
    arguments: &MicrovmArguments,
    machine: &LocalMachine,
) -> Result<ExitStatus> {
    vmnoise_rights::begin(arguments.user.as_ref())?;
    interrupt::catch().context("catching Ctrl-C")?;
    machine.keep_off(&cpus, None)?;
    let started_at = jiff::Timestamp::now().to_string();
    let config = ExerciseConfig {
        exercise,
        cpus: cpus.clone(),
        duration: Duration::from_nanos(arguments.duration),
        tsc_hz: machine::tsc_hz(),
        policy: arguments.priority,
    };
    let cannot = |error: vmnoise_workload::Error| MachineCannot(error.to_string());
    let guest = guest::prepare(&config).map_err(cannot)?;
    rights::keep(&[])?;
    let line = RefCell::new(TimeLine::begin("exercised", Some(config.duration)));
    let is_enough = || {
        line.borrow_mut().iter_mut().for_each(TimeLine::turn);
        interrupt::was_asked()
    };
    let rows = guest.run(&is_enough);
    drop(line);
    let rows = rows.map_err(cannot)?;
    let options = ExerciseOptions {
        exercise,
        cpus,
        duration_ns: arguments.duration,
        priority: arguments.priority,
    };
    print(
        &ExerciseDocument::new(&machine.facts, started_at, options, config.tsc_hz, &rows),
        arguments.format,
    )?;
    match rows
        .iter()
        .find(|row| row.kind() == Some(ExitHandler::None))
    {
        Some(row) if exercise.kind() != ExitHandler::None => {
            Err(not_to_this_kvm(exercise, row).into())
        }
        _ => Ok(ExitStatus::Ok),
    }
}

/// Returns the error for actions that made no exit to KVM. PVM runs guests as user programs, so
/// some actions never reach KVM.
fn not_to_this_kvm(exercise: Exercise, row: &ExerciseResult) -> MachineCannot {
    let (name, cpu, count) = (exercise.name(), row.cpu, row.count);
    let exits = row.kvm.exits.unwrap_or(0);
    MachineCannot(format!(
        "{name} is no exit to the KVM of this machine: the guest on CPU {cpu} made {count}, and KVM counted {exits} exits of all kinds; the CPU or a hypervisor below answered them"
    ))
}
