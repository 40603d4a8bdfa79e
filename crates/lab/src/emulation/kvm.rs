//! Runs cells of an emulated host with a guest of KVM. The host records the guest's exits.

use anyhow::{Context, Result};
use vmnoise_testbed::bed::inside::outputs;
use vmnoise_testbed::bed::{self, Lab};
use vmnoise_testbed::lab_program;

use crate::measuring::{self, Brought, Job, image, on};
use crate::scenario::{Cell, Load, Measure, Tuning};

/// Path of the host's recording in the emulated machine.
const HOST: &str = "/tmp/host.vmn";
/// Times for which the guest sleeps before and after its measurements, in milliseconds. In virtual
/// time, sleep takes no real time.
const SLEEPS_MS: [u32; 2] = [200, 5000];

pub(super) fn run(job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let guest = measuring::in_guest(cell, measure, SLEEPS_MS);
    let host = on_host(cell, measure, guest.len());
    let guest: Vec<&str> = guest.iter().map(String::as_str).collect();
    let host: Vec<&str> = host.iter().map(String::as_str).collect();
    let mut lab = Lab::kernel(image(cell.host_kernel, bed::DebianKernel::Cloud))
        .guest_kernel(image(
            cell.guest_kernel.context("a guest has a kernel")?,
            bed::DebianKernel::Cloud,
        ))
        .virtual_time(0)
        .seed(job.seed)
        .until(job.asked_to_end)
        .guest(&guest);
    if cell.load == Load::Network {
        lab = lab.network();
    }
    for program in ["lab-guest", "lab-vmm", "lab-disturb", "lab-network"] {
        lab = lab.program(&lab_program(program)?);
    }
    for packaged in measuring::packaged(cell) {
        lab = lab.packaged(packaged);
    }
    let report = lab.run(&host)?;
    let names = measuring::files(cell, measure).chain([measuring::HOST.to_owned()]);
    let names: Vec<String> = names.collect();
    let few = || format!("{} commands ended", report.outputs.len());
    let [before @ .., vmm, exits] = &report.outputs[..] else {
        anyhow::bail!("{}", few());
    };
    let printed = before.len().checked_sub(names.len());
    let (before, printed) = before.split_at(printed.with_context(few)?);
    let [set_up @ .., results] = before else {
        anyhow::bail!("{}", few());
    };
    for output in set_up {
        output.text().context("on the host")?;
    }
    vmm.text().context("lab-vmm")?;
    exits.text().context("vmnoise exits")?;
    for output in outputs(results.text()?.as_bytes())? {
        output.text().context("in the guest")?;
    }
    let recordings = names.into_iter().zip(printed);
    let recordings = recordings.map(|(name, output)| Ok((name, output.file()?)));
    Ok(Brought {
        recordings: recordings.collect::<Result<_>>()?,
        console: format!("{}\n{}", report.console, results.stderr),
        commands: [on("host", &host), on("guest", &guest)].concat(),
    })
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
        Load::StressNg => "stress-ng:0 ",
        Load::Idle | Load::Network | Load::NetworkElsewhere => "",
    };
    let unload = if load.is_empty() { "" } else { "unhog " };
    let measured = measuring::until_measured(measure);
    let vmm = format!(
        "&& lab-vmm start told:1 stop {set_up}traced cont {load}told:{measured} {unload}untrace end \
         -- lab-guest boot -name guest,debug-threads=on"
    );
    let files: Vec<String> = measuring::inside(cell, measure).collect();
    let mut commands = vec![vmm, "lab-guest told 1".to_owned()];
    // The host stops the guest until its recorder runs.
    if cell.load == Load::Network {
        commands.extend(measuring::load(cell));
    }
    commands.extend([
        format!("&& vmnoise exits -q -d 5m -o {HOST}"),
        format!("lab-guest told {in_guest}"),
        format!("lab-guest load {}", files.join(" ")),
        "lab-guest results".to_owned(),
    ]);
    let files = files.iter().map(String::as_str).chain([HOST]);
    commands.extend(files.map(|file| format!("lab-guest print {file}")));
    commands
}
