//! A guest whose vCPU a task of the host kept from running, and what `vmnoise timerlat` says
//! in the guest alone, beside the task's own book.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::causes::{Delay, TASK, booked, list, number};
use crate::bed::inside::outputs;
use crate::bed::{CommandOutput, Kernel, Lab};
use crate::lab_program;

/// How long the task keeps the vCPU from running, and lets it run, microseconds.
const TURN_US: [u64; 2] = [3_000, 24_000];
/// Where it leaves its book.
const BOOK: &str = "/tmp/waits";

/// What a lab showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descheduled {
    /// `uname -r` of host and guest.
    pub kernel_version: String,
    /// The longest burst by the task's own book, nanoseconds.
    pub burst_ns: u64,
    /// The most that the host's scheduler has booked as run delay of the vCPU from one
    /// burst to the next, nanoseconds.
    pub waited_ns: u64,
    /// The latest wake-ups of the guest, the latest first; what is named is steal.
    pub delays: Vec<Delay>,
    /// The most steal in one of the latest wake-ups while nobody kept the vCPU away.
    pub quiet_ns: u64,
}

/// Boots a lab with a guest under virtual time, and lets the task loose on the host. It outlasts
/// the guest's run: its own end would take the CPU, too.
///
/// # Errors
/// If the lab fails, or says what cannot be read.
pub fn descheduled() -> Result<Descheduled> {
    let [burst_us, every_us] = TURN_US;
    let disturb = format!("& lab-disturb waits 0 {burst_us} {every_us} {BOOK}");
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
            &print,
            "lab-guest results",
        ])?;
    let [_, _, book, results] = &report.outputs[..] else {
        bail!("{} outputs", report.outputs.len());
    };
    let results = outputs(results.text()?.as_bytes())?;
    let [quiet, beside] = &results[..] else {
        bail!("{} results of the guest", results.len());
    };
    let (quiet, delays) = (stolen(quiet)?, stolen(beside)?);
    let (waited_ns, burst_ns) = longest(&String::from_utf8(book.file()?)?)?;
    Ok(Descheduled {
        kernel_version: report.kernel_version.clone(),
        burst_ns,
        waited_ns,
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

/// The longest wait between two lines of `lab-disturb waits`, and its longest burst.
fn longest(book: &str) -> Result<(u64, u64)> {
    let line = |line: &str| -> Result<(u64, u64)> {
        let (run_delay_ns, burst_ns) = line.split_once(' ').context("half a line")?;
        Ok((run_delay_ns.parse()?, burst_ns.parse()?))
    };
    let lines: Vec<(u64, u64)> = book.lines().map(line).collect::<Result<_>>()?;
    let waits = lines.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let bursts = lines.iter().map(|line| line.1);
    waits.max().zip(bursts.max()).context("an empty book")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_booked_from_one_burst_to_the_next() {
        assert_eq!(longest("50 30\n90 33\n120 31\n").unwrap(), (40, 33));
        assert!(longest("50 30\n").is_err());
        assert!(longest("50\n").is_err());
    }
}
