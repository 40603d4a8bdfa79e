//! Blind spots in words: what is not known, and what to do about it.

use std::fmt;

use super::blind_spot::{BlindSpot, Hidden, WhyUnwatched};
use crate::{Share, human};

impl fmt::Display for BlindSpot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hidden() {
            Hidden::Threshold { threshold_ns } => write!(
                f,
                "gaps below {} were not recorded, and may fill much time; record with a lower --threshold",
                human(*threshold_ns)
            ),
            Hidden::Writing { below_ns } => write!(
                f,
                "a gap below {} is missed while another one is written down; allow a longer one",
                human(*below_ns)
            ),
            Hidden::BelowObserved => f.write_str(
                "an observed thread does not notice what is taken below this kernel; measure with a polling thread (without \
                 --pid and --comm)",
            ),
            Hidden::GoesFirst { recorder, task } => write!(
                f,
                "the recorder ran as {recorder}: what delays a task of {task} need not delay the recorder; record with {}",
                task.option_behind()
            ),
            Hidden::Policy => f.write_str(
                "runs with recorders of different policies are looked at together; name one of them",
            ),
            Hidden::Lost { count } => write!(
                f,
                "up to {count} were lost, and any of them may be above the limit; record fewer CPUs at once"
            ),
            Hidden::LostNames { count } => write!(
                f,
                "{count} records of who took time were lost or came late; record fewer CPUs at once"
            ),
            Hidden::Unwatched { share, why } => unwatched(f, *share, why),
            Hidden::Interrupts => f.write_str(
                "some interrupts have no probe here (posted by KVM, or of a vector without one), so their time has no name; \
                 `vmnoise doctor` says which and what helps",
            ),
            Hidden::Unnamed => f.write_str(
                "the time that no probe explains may be anybody's; limit a share that has a probe",
            ),
            Hidden::KvmUnbounded { ns } => write!(
                f,
                "{} of kvm has no bound, for too few exits show what KVM usually takes; record for longer",
                human(*ns)
            ),
            Hidden::CutOff {
                measured_ns,
                planned_ns,
            } => {
                write!(f, "the run did not end in order after {}", human(*measured_ns))?;
                match planned_ns {
                    Some(ns) => write!(f, " of {}; record again", human(*ns)),
                    None => f.write_str("; record again"),
                }
            }
            Hidden::Failed { measured_ns } => write!(
                f,
                "the workload ended by itself after {}; look at what it said, and record again",
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
                "the run was stopped or held for {} on CPU {}; record again",
                human(*ns),
                list(cpus)
            ),
            Hidden::Unplaced { ns } => write!(
                f,
                "for {} the recorder looked at nothing, at times that are not known; record while the machine is quieter",
                human(*ns)
            ),
            Hidden::ClockWentBack { at_ns } => write!(
                f,
                "the TSC went back, or the clocks jumped too often, {} after the begin; nothing later is trusted; record again",
                human(*at_ns)
            ),
            Hidden::ClockJumped { jumps, undated_ns } => write!(
                f,
                "the clock jumped ({jumps} times), and gaps in {} around that have no length; record again",
                human(*undated_ns)
            ),
            Hidden::ClockBound { ns: Some(ns) } => write!(
                f,
                "the clocks of gaps and of probes may be {} apart at each gap; measure fewer, longer gaps",
                human(*ns)
            ),
            Hidden::ClockBound { ns: None } => f.write_str(
                "nothing joins the clocks of gaps and of probes; record for longer",
            ),
            Hidden::Damaged => f.write_str(
                "its sums cannot all be true; measure again",
            ),
            Hidden::Silent { cpus } => write!(
                f,
                "nothing is known of CPU {}: it never reported; record for longer, or without it",
                list(cpus)
            ),
            Hidden::OtherMachine { files } => write!(
                f,
                "{} is of another machine or kernel; record both on one",
                files.join(", ")
            ),
            Hidden::HostNames { count } => write!(
                f,
                "{count} records of the host were lost or came late; record one VM (--vm)"
            ),
            Hidden::HostInterrupts => f.write_str(
                "some interrupts of the host have no probe (posted by KVM, or of a vector without one); `vmnoise doctor` there \
                 says which and what helps",
            ),
            Hidden::HostUnsure { ns } => write!(
                f,
                "{} of gaps are too short for the clocks of guest and host; record both for longer",
                human(*ns)
            ),
            Hidden::HostElsewhere { gaps, ns } => write!(
                f,
                "the host did not record the vCPU during {gaps} gaps ({}); record the host from before the guest's run to after it",
                human(*ns)
            ),
            Hidden::Untraced { why } => write!(
                f,
                "{why}; /proc has neither interrupts nor who had the CPU, and misses threads that end between two looks"
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
                "{count} missed events do not say how much time they had (interrupts, or two CPUs at once); run it again"
            ),
            Hidden::Waits => f.write_str(
                "events were missed, and this kernel does not count how long threads wait; use one with CONFIG_SCHED_INFO",
            ),
            Hidden::BeyondSteal { ns: Some(ns) } => write!(
                f,
                "the hypervisor takes time in excess of steal time: {} at the rate measured before the command",
                human(*ns)
            ),
            Hidden::BeyondSteal { ns: None } => f.write_str(
                "the hypervisor takes time in excess of steal time, which is not seen here: measure its rate (--preflight 2s)",
            ),
            Hidden::Doubt { ns, events } => write!(
                f,
                "{} of the threads' time is not known for certain: {events} events were missed; run it again",
                human(*ns)
            ),
        }
    }
}

fn unwatched(f: &mut fmt::Formatter<'_>, share: Option<Share>, why: &WhyUnwatched) -> fmt::Result {
    match share {
        Some(share) => write!(f, "{share} was not watched: ")?,
        None => f.write_str("who took the time was not watched: ")?,
    }
    match why {
        WhyUnwatched::NoProbes => f.write_str("the run had no probes; run as root, without --no-trace"),
        WhyUnwatched::LayerBelow => f.write_str(
            "a hypervisor is below this machine, which cannot be told from the hardware here; measure on the host",
        ),
        WhyUnwatched::OnHost => f.write_str(
            "only the host of this machine has it; record the host too, and name both recordings",
        ),
        WhyUnwatched::NoStealClock => f.write_str(
            "the hypervisor of this machine offers no steal clock; measure on the host",
        ),
        WhyUnwatched::Probe { limit } if limit.is_empty() => {
            f.write_str("its probe was missing; `vmnoise doctor` says what would attach it")
        }
        WhyUnwatched::Probe { limit } => write!(f, "{limit}; `vmnoise doctor` says what helps"),
    }
}

fn list(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    cpus.join(",")
}
