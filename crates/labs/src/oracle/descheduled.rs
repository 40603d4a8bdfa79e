//! A guest whose vCPU a task of the host kept from running, and what `vmnoise timerlat` says
//! in the guest alone, beside the task's own book.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::causes::{Delay, TASK, booked, list, number};
use crate::bed::inside::outputs;
use crate::bed::{CommandOutput, Kernel, Lab};
use crate::lab_program;

/// How long the task keeps the vCPU from running, microseconds.
const BURST_US: u64 = 3_000;
/// Where it leaves its book.
const BOOK: &str = "/tmp/bursts";

/// What a lab showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descheduled {
    /// `uname -r` of host and guest.
    pub kernel_version: String,
    /// What the host's scheduler has charged the task for its longest burst, nanoseconds.
    pub burst_ns: u64,
    /// The latest wake-ups of the guest, the latest first; what is named is steal.
    pub delays: Vec<Delay>,
    /// The most steal in one of the latest wake-ups while nobody kept the vCPU away.
    pub quiet_ns: u64,
}

impl Descheduled {
    /// The most steal of a wake-up that one burst can have made. The end of the task follows
    /// its last burst, and takes the CPU, too.
    pub fn longest_of_burst_ns(&self) -> Option<u64> {
        let stolen = self.delays.iter().map(|delay| delay.named_ns);
        stolen.filter(|ns| ns * 100 <= self.burst_ns * 105).max()
    }
}

/// Boots a lab with a guest under virtual time, and lets the task loose on the host.
///
/// # Errors
/// If the lab fails, or says what cannot be read.
pub fn descheduled() -> Result<Descheduled> {
    let disturb = format!("lab-disturb bursts 0 37 {BURST_US} 40 {BOOK}");
    let print = format!("lab-guest print {BOOK}");
    let report = Lab::kernel(Kernel::Cloud)
        .virtual_time(0)
        .guest(&[&format!("{TASK} -d 1"), &format!("{TASK} -d 3")])
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?)
        .run(&[
            "& lab-guest boot -name l2",
            "lab-guest told 1",
            &disturb,
            "lab-guest told 2",
            "lab-guest results",
            &print,
        ])?;
    let [_, disturbed, _, results, book] = &report.outputs[..] else {
        bail!("{} outputs", report.outputs.len());
    };
    disturbed.text()?;
    let results = outputs(results.text()?.as_bytes())?;
    let [quiet, beside] = &results[..] else {
        bail!("{} results of the guest", results.len());
    };
    let (quiet, delays) = (stolen(quiet)?, stolen(beside)?);
    Ok(Descheduled {
        kernel_version: report.kernel_version.clone(),
        burst_ns: longest_burst_ns(&String::from_utf8(book.file()?)?)?,
        delays,
        quiet_ns: quiet.iter().map(|it| it.named_ns).max().unwrap_or(0),
    })
}

fn stolen(result: &CommandOutput) -> Result<Vec<Delay>> {
    let result = result.json()?;
    let delay = |wakeup: &Value| -> Result<Delay> {
        let stolen_ns = booked(wakeup, |part| part["share"] == "steal")?;
        Ok(Delay {
            // Told of all bursts together, by the book alone.
            injected_ns: None,
            named_ns: stolen_ns,
            latency_ns: number(&wakeup["latency_ns"])?,
        })
    };
    list(&result["cpus"][0]["worst"])?
        .iter()
        .map(delay)
        .collect()
}

/// The third word of each line of `lab-disturb bursts`.
fn longest_burst_ns(book: &str) -> Result<u64> {
    let charged = |line: &str| -> Result<u64> {
        let word = line.split(' ').nth(2);
        Ok(word.context("a line without what was charged")?.parse()?)
    };
    let charged: Vec<u64> = book.lines().map(charged).collect::<Result<_>>()?;
    charged.into_iter().max().context("an empty book")
}
