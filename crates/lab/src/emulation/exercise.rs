//! Runs cells of an emulated host with vmnoise's own guest. The guest makes exits on purpose, and
//! the host records each of them.

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::bed::inside::is_beside;
use vmnoise_testbed::bed::{self, Lab};
use vmnoise_testbed::lab_program;
use vmnoise_testbed::vmm_steps::Treatment;

use crate::measuring::{self, Brought, Job, image, on};

pub(super) fn run(job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let mut commands = measuring::load(cell);
    let begin = commands.iter().filter(|it| !is_beside(it)).count();
    for recording in measuring::inside(cell, measure) {
        let exercise = measuring::command(cell, measure, &recording);
        commands.push(format!("&& vmnoise exits -q -d 5m -o {recording}"));
        commands.push(format!("lab-vmm traced start end untrace -- {exercise}"));
    }
    let load_works = measuring::load_works(cell);
    let works = usize::from(load_works.is_some());
    commands.extend(load_works);
    commands.extend(measuring::inside(cell, measure).map(|file| format!("lab-guest print {file}")));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let mut lab = Lab::kernel(image(cell.host_kernel, bed::DebianKernel::Cloud))
        .virtual_time(0)
        .seed(job.seed)
        .until(job.asked_to_end);
    for program in ["lab-guest", "lab-vmm", "lab-disturb"] {
        lab = lab.program(&lab_program(program)?);
    }
    for packaged in measuring::packaged(cell) {
        lab = lab.packaged(packaged);
    }
    let report = lab.run(&commands)?;
    let count = measure.repeat as usize;
    let outputs = &report.outputs;
    ensure!(
        outputs.len() == begin + 3 * count + works,
        "{} results",
        outputs.len()
    );
    let (began, others) = outputs.split_at(begin);
    let (vmms, others) = others.split_at(count);
    let (worked, others) = others.split_at(works);
    let (printed, exits) = others.split_at(count);
    for output in began.iter().chain(worked) {
        output.text().context("the load")?;
    }
    let mut recordings = Vec::new();
    for (file, output) in measuring::files(cell, measure).zip(exits) {
        output
            .text()
            .with_context(|| format!("vmnoise exits, {file}"))?;
    }
    for ((file, vmm), printed) in measuring::files(cell, measure).zip(vmms).zip(printed) {
        let treatment: Treatment = serde_json::from_str(vmm.text().context("lab-vmm")?)?;
        recordings.push((measuring::said(&file), treatment.said.into_bytes()));
        recordings.push((file, printed.file()?));
    }
    Ok(Brought {
        recordings,
        console: report.console,
        commands: on("host", &commands),
    })
}
