//! The scenario that started this project: a guest with PREEMPT_RT, whose vCPU shares its CPU with
//! a task of the host. Compares three views: the tracer of the guest's own kernel, `vmnoise
//! osnoise` in the guest, and the join of the guest's and the host's recordings.

use anyhow::{Context, Result};
use serde_json::Value;

use super::waited::{self, WaitPeriod};
use crate::bed::{DebianKernel, DebianSuite};
use crate::pair::{DISTURBED, EVERY, HOST, PairPlan};
use crate::vmm_steps::ThreadSchedstat;

/// Commands that run the kernel's tracer and show its trace. The tracer prints one line per second.
const TRACER: [&str; 2] = [
    "lab-tracefs for 2 osnoise/cpus=0 current_tracer=osnoise",
    "lab-tracefs show",
];

/// Results of the scenario in a lab.
#[derive(Debug, Clone, PartialEq)]
pub struct Flagship {
    /// `uname -r` of the guest's kernel.
    pub guest_version: String,
    /// `uname -r` of the host's kernel.
    pub host_version: String,
    /// Name of the host's task that results must blame.
    pub disturber: String,
    /// Last line of the trace of the guest's kernel.
    pub kernel: KernelSample,
    /// Noise according to the guest's recording alone.
    pub alone: FlagshipSample,
    /// Noise according to the guest's recording joined with the host's.
    pub joined: FlagshipSample,
    /// The largest culprits of the guest's gaps above 20 us: share, name, and percent.
    pub culprits: Vec<(String, String, f64)>,
    /// Time that the guest's recording alone reports as steal, and the run delay that the host's
    /// scheduler counted.
    pub waited: WaitPeriod,
}

/// A line of the kernel's osnoise tracer (Documentation/trace/osnoise-tracer.rst).
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSample {
    /// Noise in percent of the tracer's runtime.
    pub noise_percent: f64,
    /// Length of the longest gap, microseconds.
    pub longest_us: u64,
    /// Numbers of events by kind: HW, NMI, IRQ, SIRQ, THREAD.
    pub counts: [u64; 5],
}

/// Noise and its shares as `vmnoise` reports them.
#[derive(Debug, Clone, PartialEq)]
pub struct FlagshipSample {
    /// Noise in percent of the runtime.
    pub noise_percent: f64,
    /// Times of [`SHARES`] in nanoseconds; `None` if the share is unknown.
    pub shares_ns: [Option<u64>; 5],
}

/// Shares that [`FlagshipSample`] has, in its order.
pub const SHARES: [&str; 5] = ["irq", "softirq", "thread", "steal", "preempted"];

/// Runs the scenario in a lab under virtual time.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn flagship() -> Result<Flagship> {
    let recorded = PairPlan::of(DebianKernel::Cloud, DebianSuite::Own)?
        .guest_kernel(DebianKernel::Rt)
        .virtual_time(0)
        .in_guest(&TRACER)
        .record()?;
    let alone = recorded.explain(&[DISTURBED], &[])?;
    let joined = recorded.explain(&[DISTURBED, HOST], &["-T", "20", "--top", EVERY])?;
    let stolen = waited::stolen(&joined, &recorded.trace(DISTURBED)?)?;
    let looks: Vec<ThreadSchedstat> = recorded.treatment.looks().copied().collect();

    let mut traces = recorded.in_guest.iter();
    let kernel = traces.find_map(|output| KernelSample::of(&output.stdout));
    let culprits = joined["culprits"].as_array().context("culprits")?.iter();
    let culprits = culprits.take(5).map(|culprit| {
        let word = |key: &str| culprit[key].as_str().unwrap_or("-").to_owned();
        let percent = culprit["percent"].as_f64().context("percent")?;
        Ok((word("share"), word("name"), percent))
    });
    Ok(Flagship {
        kernel: kernel.context("the kernel's tracer said nothing")?,
        alone: FlagshipSample::of(&alone)?,
        joined: FlagshipSample::of(&joined)?,
        culprits: culprits.collect::<Result<_>>()?,
        waited: WaitPeriod::of(&stolen, &looks)?,
        disturber: recorded.disturber()?.to_owned(),
        guest_version: joined["kernel"].as_str().context("kernel")?.to_owned(),
        host_version: recorded.kernel_version,
    })
}

impl Flagship {
    /// Returns the part of the vCPU's run delay that the guest's recording alone reports as steal,
    /// in percent.
    pub fn booked_as_steal_percent(&self) -> f64 {
        self.waited.lost_ns as f64 * 1e2 / self.waited.run_delay_ns as f64
    }
}

impl KernelSample {
    /// Returns the last sample in a trace.
    fn of(trace: &str) -> Option<KernelSample> {
        let lines = trace.lines().rev();
        let mut samples = lines.filter_map(|line| {
            let (_, numbers) = line.rsplit_once(": ")?;
            let numbers: Vec<&str> = numbers.split_whitespace().collect();
            let [_, _, available, longest, counts @ ..] = &numbers[..] else {
                return None;
            };
            let counts: Vec<u64> = counts.iter().map_while(|it| it.parse().ok()).collect();
            Some(KernelSample {
                noise_percent: 100.0 - available.parse::<f64>().ok()?,
                longest_us: longest.parse().ok()?,
                counts: counts.try_into().ok()?,
            })
        });
        samples.next()
    }
}

impl FlagshipSample {
    fn of(summary: &Value) -> Result<FlagshipSample> {
        let cpu = &summary["cpus"][0];
        let number = |key: &str| cpu[key].as_f64().with_context(|| key.to_owned());
        Ok(FlagshipSample {
            noise_percent: number("noise_ns")? * 1e2 / number("runtime_ns")?,
            shares_ns: SHARES.map(|share| cpu["shares_ns"][share].as_u64()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_kernels_tracer_is_read() {
        let trace = "# tracer: osnoise\n#  TIME: a b c d\n\
            osnoise/0-92 [000] ....... 3.168208: 1000000 510858 48.91420 4017 5 0 247 0 22\n\
            osnoise/0-92 [000] ....... 4.168208: 1000000 511858 48.81420 4019 3 0 248 0 21\n";
        let sample = KernelSample::of(trace).unwrap();
        assert_eq!(sample.counts, [3, 0, 248, 0, 21]);
        assert_eq!(sample.longest_us, 4019);
        assert!((sample.noise_percent - 51.1858).abs() < 1e-9);
        assert!(KernelSample::of("# tracer: nop\n").is_none());
    }
}
