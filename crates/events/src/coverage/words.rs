//! Sentences for blind spots: the unknown fact, and the remedy.

use std::fmt;

use super::blind_spot::{BlindSpot, Hidden, WhyUnwatched};
use crate::{Share, human};

impl fmt::Display for BlindSpot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hidden() {
            Hidden::Threshold { threshold_ns } => write!(
                f,
                "gaps below {} were not recorded but may add up; record with a lower --threshold",
                human(*threshold_ns)
            ),
            Hidden::Writing { below_ns } => write!(
                f,
                "a gap below {0} is missed while another gap is recorded; set a limit of {0} or more",
                human(*below_ns)
            ),
            Hidden::BelowObserved => f.write_str(
                "an observed thread does not notice time that is taken below this kernel; measure with a polling thread (without \
                 --pid and --comm)",
            ),
            Hidden::GoesFirst { recorder, task } => write!(
                f,
                "the recorder ran as {recorder}: work that delays a task of {task} may not delay the recorder; record with {}",
                task.option_behind()
            ),
            Hidden::Policy => f.write_str(
                "the recorders of these runs had different scheduling policies; name only one of the runs",
            ),
            Hidden::Lost { count } => write!(
                f,
                "up to {count} gaps, wake-ups or vCPUs were lost, and each may be above the limit; record fewer CPUs at once"
            ),
            Hidden::LostNames { count } => write!(
                f,
                "{count} records that name culprits were lost or came late; record fewer CPUs at once"
            ),
            Hidden::Unwatched { share, why } => unwatched(f, *share, why),
            Hidden::Interrupts => f.write_str(
                "some interrupts have no probe here (posted by KVM, or on a vector without a probe), so their time has no name; \
                 `vmnoise doctor` shows which, and the remedy",
            ),
            Hidden::Unnamed => f.write_str(
                "time that no probe explains may belong to anybody; set a limit for a share that has a probe",
            ),
            Hidden::KvmUnbounded { ns } => write!(
                f,
                "{} of kvm has no bound, because too few exits show KVM's usual time; record for longer",
                human(*ns)
            ),
            Hidden::CutOff {
                measured_ns,
                planned_ns,
            } => {
                write!(f, "the recording was cut off after {}", human(*measured_ns))?;
                match planned_ns {
                    Some(ns) => write!(f, " of {}; record again", human(*ns)),
                    None => f.write_str("; record again"),
                }
            }
            Hidden::Failed { measured_ns } => write!(
                f,
                "the workload ended by itself after {}; read its messages, and record again",
                human(*measured_ns)
            ),
            Hidden::Paused {
                runtime_ns,
                period_ns,
            } => write!(
                f,
                "only {} of every {} was measured; record without --runtime",
                human(*runtime_ns),
                human(*period_ns)
            ),
            Hidden::NotMeasured { ns, cpus } => write!(
                f,
                "the workload was stopped, or held by a debugger, for {} on CPU {}; record again",
                human(*ns),
                list(cpus)
            ),
            Hidden::Unplaced { ns } => write!(
                f,
                "the recorder observed nothing for {}, at unknown times; record while the machine is quieter",
                human(*ns)
            ),
            Hidden::ClockWentBack { at_ns } => write!(
                f,
                "the TSC went back, or the clocks jumped too often, {} after the start, so later events are not used; record again",
                human(*at_ns)
            ),
            Hidden::ClockJumped { jumps, undated_ns } => write!(
                f,
                "the clock jumped ({jumps} times), so gaps in the {} around the jumps have no length; record again",
                human(*undated_ns)
            ),
            Hidden::ClockBound { ns: Some(ns) } => write!(
                f,
                "the clocks of gaps and of probes may differ by {} at each gap; measure fewer, longer gaps",
                human(*ns)
            ),
            Hidden::ClockBound { ns: None } => f.write_str(
                "no reading joins the clocks of gaps and of probes; record for longer",
            ),
            Hidden::Damaged => f.write_str(
                "the gaps add up to more than the measured time, so the data are damaged; measure again",
            ),
            Hidden::NotStored => f.write_str(
                "the data set does not store how the run ended, or whether a clock jumped; export the recording again, with this vmnoise",
            ),
            Hidden::Silent { cpus } => write!(
                f,
                "CPU {} never reported, so nothing is known about it; record for longer, or without it",
                list(cpus)
            ),
            Hidden::OtherMachine { files } => write!(
                f,
                "{} is of another machine or kernel; record both on the same one",
                files.join(", ")
            ),
            Hidden::HostNames { count } => write!(
                f,
                "{count} records of the host were lost or came late; record only one VM (--vm)"
            ),
            Hidden::HostInterrupts => f.write_str(
                "some interrupts of the host have no probe (posted by KVM, or on a vector without a probe); `vmnoise doctor` on \
                 the host shows which, and the remedy",
            ),
            Hidden::HostUnsure { ns } => write!(
                f,
                "{} of gaps are too short for the clock error between guest and host; record both for longer",
                human(*ns)
            ),
            Hidden::HostElsewhere { gaps, ns } => write!(
                f,
                "the host did not record the vCPU during {gaps} gaps ({}); record the host from before the guest's run to after it",
                human(*ns)
            ),
            Hidden::Untraced { why } => write!(
                f,
                "{why}; /proc shows neither interrupts nor who had the CPU, and misses threads that end between two readings"
            ),
            Hidden::Unfollowed { threads: None } => {
                f.write_str("no thread of the command was seen; run a command that lasts longer")
            }
            Hidden::Unfollowed {
                threads: Some(threads),
            } => write!(
                f,
                "{threads} threads of the command were not followed; run it again"
            ),
            Hidden::Events { count } => write!(
                f,
                "{count} missed events hide an unknown amount of time (interrupts, or updates by two CPUs at once); run it again"
            ),
            Hidden::Waits => f.write_str(
                "events were missed, and this kernel does not count run delay; use a kernel with CONFIG_SCHED_INFO",
            ),
            Hidden::BeyondSteal { ns: Some(ns) } => write!(
                f,
                "the hypervisor takes time in excess of steal time: at most {} with 95 % confidence, by the rate measured before the command, if the command \
                 itself causes no exits",
                human(*ns)
            ),
            Hidden::BeyondSteal { ns: None } => f.write_str(
                "the hypervisor may take time in excess of steal time, and its rate was not measured; measure it before the command (--preflight 2s, or longer)",
            ),
            Hidden::ShortPreflight { polled_ns, needed_ns } => write!(
                f,
                "the hypervisor may take longer pieces than seen before the command, because the CPUs were polled for {}, and {} are \
                 needed; use --preflight {}s, or longer",
                human(*polled_ns),
                human(*needed_ns),
                preflight_s(*needed_ns)
            ),
            Hidden::Firmware => f.write_str(
                "no figure includes system management interrupts (SMIs): neither the scheduler nor the steal clock counts them; \
                 measure them with `vmnoise osnoise` (share hw)",
            ),
            Hidden::Doubt { ns, events } => write!(
                f,
                "{} of the threads' time is uncertain: {events} events were missed; run it again",
                human(*ns)
            ),
        }
    }
}

/// Returns the length of a preflight that polls long enough, in seconds. A preflight polls for gaps in
/// half of its time. The next run may take half as long again.
fn preflight_s(needed_ns: u64) -> u64 {
    needed_ns.saturating_mul(3).div_ceil(1_000_000_000)
}

fn unwatched(f: &mut fmt::Formatter<'_>, share: Option<Share>, why: &WhyUnwatched) -> fmt::Result {
    match share {
        Some(share) => write!(f, "{share} was not watched: ")?,
        None => f.write_str("who took the time was not watched: ")?,
    }
    match why {
        WhyUnwatched::NoProbes => f.write_str("the run had no probes; run as root, without --no-trace"),
        WhyUnwatched::LayerBelow => f.write_str(
            "a hypervisor is below this machine, and cannot be distinguished from the hardware here; measure on the host",
        ),
        WhyUnwatched::OnHost => f.write_str(
            "only the host of this machine can see it; record the host too, and name both recordings",
        ),
        WhyUnwatched::NoStealClock => f.write_str(
            "the hypervisor of this machine offers no steal clock; measure on the host",
        ),
        WhyUnwatched::Probe { limit } if limit.is_empty() => {
            f.write_str("its probe was missing; `vmnoise doctor` shows how to attach it")
        }
        WhyUnwatched::Probe { limit } => write!(f, "{limit}; `vmnoise doctor` shows the remedy"),
    }
}

fn list(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    cpus.join(",")
}
