//! A guest of KVM, and its host, which records the exits beside it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use vmnoise_labs::bed::inside::outputs;
use vmnoise_labs::bed::{self, Lab};
use vmnoise_labs::lab_program;

use super::measuring;
use super::{Brought, image, on};
use crate::scenario::{Cell, Load, Measure, Tuning};

const HOST: &str = "/tmp/host.vmn";
/// The guest sleeps, and its host gets round to what it has to do.
const PAUSE: &str = "lab-vmm run:200 --";
/// It sleeps until its host has written the last of its recording: in virtual time sleep takes none.
const END: &str = "lab-vmm run:5000 --";

pub(super) fn run(
    cell: &Cell,
    measure: &Measure,
    seed: u64,
    asked_to_end: &Arc<AtomicBool>,
) -> Result<Brought> {
    let guest = in_guest(cell, measure);
    let host = on_host(cell, measure, guest.len());
    let guest: Vec<&str> = guest.iter().map(String::as_str).collect();
    let host: Vec<&str> = host.iter().map(String::as_str).collect();
    let mut lab = Lab::kernel(image(cell.host_kernel, bed::Kernel::Cloud))
        .guest_kernel(image(
            cell.guest_kernel.context("a guest has a kernel")?,
            bed::Kernel::Cloud,
        ))
        .virtual_time(0)
        .seed(seed)
        .until(asked_to_end)
        .guest(&guest);
    for program in ["lab-guest", "lab-vmm", "lab-disturb"] {
        lab = lab.program(&lab_program(program)?);
    }
    let report = lab.run(&host)?;
    let [_, _, _, results, printed @ .., vmm, exits] = &report.outputs[..] else {
        anyhow::bail!("{} commands ended", report.outputs.len());
    };
    vmm.text().context("lab-vmm")?;
    exits.text().context("vmnoise exits")?;
    for output in outputs(results.text()?.as_bytes())? {
        output.text().context("in the guest")?;
    }
    let names = measuring::repetitions(measure).map(measuring::file);
    let names: Vec<String> = names.chain(["host.vmn".to_owned()]).collect();
    ensure!(names.len() == printed.len(), "{} files", printed.len());
    let recordings = names.into_iter().zip(printed);
    let recordings = recordings.map(|(name, output)| Ok((name, output.file()?)));
    Ok(Brought {
        recordings: recordings.collect::<Result<_>>()?,
        console: format!("{}\n{}", report.console, results.stderr),
        commands: [on("host", &host), on("guest", &guest)].concat(),
    })
}

/// The first says that the guest is there; while it sleeps it is stopped, until its host records.
fn in_guest(cell: &Cell, measure: &Measure) -> Vec<String> {
    let mut commands = ["vmnoise --version", PAUSE].map(str::to_owned).to_vec();
    for repetition in measuring::repetitions(measure) {
        commands.push(measuring::command(cell, measure, repetition));
    }
    commands.push(END.to_owned());
    let files: Vec<String> = measuring::repetitions(measure)
        .map(measuring::recording)
        .collect();
    commands.push(format!("lab-guest save {}", files.join(" ")));
    commands
}

fn on_host(cell: &Cell, measure: &Measure, in_guest: usize) -> Vec<String> {
    let set_up = match cell.tuning {
        Tuning::VcpusAtFifo99 => "fifo:99 ",
        Tuning::VmmAtFifo99 => "vmm-fifo:99 ",
        _ => "",
    };
    let load = match cell.load {
        Load::SystemCalls => "calls:0 ",
        Load::Bursts => "turns:0:1000:10007 ",
        Load::Idle | Load::StressNg => "",
    };
    let unload = if load.is_empty() { "" } else { "unhog " };
    // All but the last pause and the way of the files.
    let measured = in_guest - 2;
    let vmm = format!(
        "&& lab-vmm start told:1 stop {set_up}traced cont {load}told:{measured} {unload}untrace end \
         -- lab-guest boot -name guest,debug-threads=on"
    );
    let files: Vec<String> = measuring::repetitions(measure)
        .map(measuring::recording)
        .collect();
    let mut commands = vec![
        vmm,
        "lab-guest told 1".to_owned(),
        format!("&& vmnoise exits -q -d 5m -o {HOST}"),
        format!("lab-guest told {in_guest}"),
        format!("lab-guest load {}", files.join(" ")),
        "lab-guest results".to_owned(),
    ];
    let files = files.iter().map(String::as_str).chain([HOST]);
    commands.extend(files.map(|file| format!("lab-guest print {file}")));
    commands
}
