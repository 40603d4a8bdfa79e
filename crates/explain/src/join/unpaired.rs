//! Error message for recordings whose data do not prove a pair. The message is one line that states
//! what is missing.

use std::fmt;

use super::odds::{PairingVerdict, missing};
use super::pairing::{Alternative, CandidateVm, Pairing, VcpuPair};

/// Minimum odds, in decades, from which the message estimates how much longer to record.
const SLIGHT: f64 = 0.5;

/// Evidence that proves no pair, with the facts that the error message needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PairingFailure {
    /// All pairs that were tried; none is proven.
    pub pairing: Pairing,
    /// Minimum length of an exit that the guest had to observe, in nanoseconds.
    pub threshold_ns: u64,
    /// Whether the guest runs periodic tasks, which observe no gaps.
    pub is_timer: bool,
    /// Whether the guest polls only part of the time. The guest does not observe time taken during
    /// its pauses.
    pub pauses: bool,
}

impl fmt::Display for PairingFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((vm, pair)) = self.nearest() else {
            return f.write_str("nothing was tested: record both sides again");
        };
        let vcpu = match pair.vcpu {
            Some(number) => format!("vCPU {number} of VM {} (process {})", vm.vm, vm.vmm_pid),
            None => format!(
                "thread {} of VM {} (process {})",
                pair.tid, vm.vm, vm.vmm_pid
            ),
        };
        let cpu = pair.cpu;
        let odds = Power(vm.log10_odds);
        match self.pairing.verdict {
            PairingVerdict::Refused => write!(
                f,
                "{vcpu} does not agree with CPU {cpu} of the guest: {odds} that they are the same{}; {}",
                Against(&vm.against),
                self.tested(pair),
            )?,
            _ => write!(
                f,
                "nothing proves that {vcpu} is CPU {cpu} of the guest: {odds}{}, and 10^6 are needed; \
                 {}",
                Against(&vm.against),
                self.tested(pair),
            )?,
        }
        f.write_str(": ")?;
        self.advise(f, vm, pair)
    }
}

impl PairingFailure {
    /// Returns the best candidate, and the pair that decided its verdict.
    fn nearest(&self) -> Option<(&CandidateVm, &VcpuPair)> {
        let vm = self.pairing.candidates.first()?;
        let by_odds = |a: &&VcpuPair, b: &&VcpuPair| a.log10_odds.total_cmp(&b.log10_odds);
        let pair = match self.pairing.verdict {
            PairingVerdict::Refused => vm.pairs.iter().min_by(by_odds),
            _ => vm.pairs.iter().max_by(by_odds),
        };
        Some((vm, pair?))
    }

    fn tested(&self, pair: &VcpuPair) -> String {
        let VcpuPair {
            exits_tested: tested,
            exits_inside: inside,
            exits_contradicted: contradicted,
            by_chance_percent: chance,
            ..
        } = *pair;
        let percent = inside as f64 * 100.0 / tested.max(1) as f64;
        let ran = match contradicted {
            0 => String::new(),
            _ => format!(", and in {contradicted} of these the guest ran while its vCPU was out"),
        };
        match self.is_timer {
            true => format!(
                "of {tested} exits, {inside} lie between instants at which the guest's task certainly ran \
                 ({percent:.0} %; by chance {chance:.0} %){ran}"
            ),
            false => format!(
                "of {tested} gaps that its exits of {} us and more must have caused, {inside} were found \
                 ({percent:.0} %; by chance {chance:.0} %){ran}",
                self.threshold_ns as f64 / 1_000.0,
            ),
        }
    }

    fn advise(&self, f: &mut fmt::Formatter<'_>, vm: &CandidateVm, pair: &VcpuPair) -> fmt::Result {
        if self.pairing.verdict == PairingVerdict::Refused {
            return f.write_str(
                "its recorded TSC offset is wrong, or this is another guest: record both sides again",
            );
        }
        let tested = vm.pairs.iter().map(|pair| pair.exits_tested).sum::<u64>();
        if tested == 0 && self.pauses {
            return f.write_str(
                "the guest paused, and exits cannot distinguish pauses from lost time: let it poll all \
                 the time (no -r)",
            );
        }
        if tested == 0 {
            return f.write_str(
                "record both sides for longer, while the guest measures, with every exit (no -T on the host)",
            );
        }
        let overlap_s = pair.overlap_ns as f64 / 1e9;
        let longer_s = overlap_s * missing(vm.log10_odds) / vm.log10_odds;
        match vm.log10_odds >= SLIGHT {
            // In tenths below ten seconds.
            true if longer_s < 9.95 => write!(
                f,
                "record both sides {:.1} s longer",
                (longer_s * 10.0).ceil() / 10.0
            ),
            true => write!(f, "record both sides {:.0} s longer", longer_s.ceil()),
            false => f.write_str(
                "record both sides for several times as long, while an irregular load takes the CPU from \
                 the guest",
            ),
        }
    }
}

/// Odds for display, given by their common logarithm.
struct Power(f64);

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded down, and without -0.0.
        write!(f, "odds 10^{:.1}", (self.0 * 10.0).floor() / 10.0 + 0.0)
    }
}

/// Best alternative for display; empty for chance and for failures.
struct Against<'a>(&'a Alternative);

impl fmt::Display for Against<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Alternative::Chance | Alternative::Failures => Ok(()),
            Alternative::Clock { offset_ns } => {
                write!(
                    f,
                    ", compared with a clock that is off by {} us",
                    *offset_ns as f64 / 1e3
                )
            }
            Alternative::Vcpu { vcpu, vm, vmm_pid } => match vcpu {
                Some(number) => write!(
                    f,
                    ", compared with vCPU {number} of VM {vm} (process {vmm_pid})"
                ),
                None => write!(
                    f,
                    ", compared with another vCPU of VM {vm} (process {vmm_pid})"
                ),
            },
        }
    }
}
