//! Runs `vmnoise` while faults happen one after the other. After each fault, every run must still
//! work, or must have ended with a reason. The results of the runs must add up.

mod disk;
mod faults;
mod kernel_log;
mod scene;
mod subject;
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;

use crate::bed::{DebianKernel, Lab, inside};
use crate::lab_program;
use faults::FAULTS;
use scene::Scene;

/// Machines on which a fault may be caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChaosPlace {
    /// Every machine: the fault affects only processes of this program.
    Anywhere,
    /// Only the machine of a lab: the fault affects the whole machine.
    Lab,
}

impl ChaosPlace {
    /// Returns whether this machine is the machine of a lab. No option sets this: otherwise a
    /// mistake could take CPUs of a developer's machine offline.
    pub fn here() -> ChaosPlace {
        if Path::new(inside::COMMANDS).exists() {
            ChaosPlace::Lab
        } else {
            ChaosPlace::Anywhere
        }
    }
}

/// Number of times that each fault happened, or why this machine does not allow the fault.
#[derive(Debug, Default)]
pub struct FaultTally(pub BTreeMap<&'static str, Result<u32, String>>);

/// Causes all faults that this machine allows in random order, again and again until `length` has
/// passed. The same seed gives the same order of faults.
///
/// # Errors
/// If a fault cannot be caused, or a run does not meet its fate.
///
/// # Panics
/// If the results of a run do not add up.
pub fn run(seed: u64, length: Duration) -> Result<FaultTally> {
    println!("seed {seed}");
    let begin = Instant::now();
    let mut dice = Rng::with_seed(seed);
    let mut tally = FaultTally::default();
    while begin.elapsed() < length {
        let mut deck: Vec<_> = FAULTS.iter().collect();
        deck.retain(|fault| fault.place == ChaosPlace::here());
        dice.shuffle(&mut deck);
        let mut scene = Scene::begin()?;
        for fault in deck {
            let name = fault.name;
            if let Err(error) = (fault.needs)() {
                tally.0.insert(name, Err(format!("{error:#}")));
                continue;
            }
            println!("{:6.1} s {name}", begin.elapsed().as_secs_f64());
            (fault.strike)(&mut scene, &mut dice).context(name)?;
            scene
                .aftermath()
                .with_context(|| format!("after: {name}"))?;
            if let Ok(count) = tally.0.entry(name).or_insert(Ok(0)) {
                *count += 1;
            }
        }
        scene.end().context("at the end")?;
    }
    for (name, times) in &tally.0 {
        match times {
            Ok(times) => println!("{times:4} x {name}"),
            Err(reason) => println!("skipped: {name}: {reason}"),
        }
    }
    Ok(tally)
}

/// Boots a lab, and causes in it the faults that affect a whole machine. Returns the lab's output.
///
/// # Errors
/// If [`run`] fails in the lab, or the lab cannot be booted.
pub fn run_in_lab(seed: u64, length: Duration) -> Result<String> {
    let lab = Lab::kernel(DebianKernel::Cloud).cpus(2);
    let lab = ["chaos", "lab-disturb"].iter().try_fold(lab, |lab, name| {
        anyhow::Ok(lab.program(&lab_program(name)?))
    })?;
    let chaos = format!("chaos {} {seed}", length.as_secs());
    let report = lab.run(&[&chaos])?;
    let [output] = &report.outputs[..] else {
        anyhow::bail!("{:?}", report.outputs);
    };
    let reported = output.text().with_context(|| output.stdout.clone())?;
    Ok(reported.to_owned())
}
