//! Selection of the blind spots that can change the answer to a question.

use super::blind_spot::{BlindSpot, Hidden, WhyUnwatched};
use super::{CommandCoverage, Coverage, HypervisorTime, Question, RunEnd, USUAL_THRESHOLD_NS};
use crate::{MeasuringCommand, ProbeName, Share};

impl Coverage {
    /// Returns the blind spots of this recording that can change the answer; empty if there are
    /// none.
    pub fn blind_spots(&self, question: Question) -> Vec<BlindSpot> {
        let hidden = match &self.command {
            Some(command) => self.of_threads(command, question),
            None => [
                self.of_time(question),
                self.of_lengths(question),
                self.of_tasks(question),
                self.of_owners(question),
            ]
            .concat(),
        };
        hidden.into_iter().map(BlindSpot::new).collect()
    }

    /// Returns the reasons why the recording does not cover the whole planned time.
    fn of_time(&self, question: Question) -> Vec<Hidden> {
        let measured_ns = self.measured_ns();
        let planned_ns = self.planned_ns;
        let end = match self.end {
            RunEnd::InOrder => None,
            RunEnd::Failed => Some(Hidden::Failed { measured_ns }),
            RunEnd::CutOff => Some(Hidden::CutOff {
                measured_ns,
                planned_ns,
            }),
        };
        let silent = self.cpus.iter().filter(|it| it.window_mono_ns.is_none());
        let silent: Vec<u32> = silent.map(|it| it.cpu).collect();
        let silent = (!silent.is_empty()).then_some(Hidden::Silent { cpus: silent });
        let files = self.others.clone();
        let others = (!files.is_empty()).then_some(Hidden::OtherMachine { files });
        let back = self.clock.went_back_at_ns;
        let back = back.map(|at_ns| Hidden::ClockWentBack { at_ns });
        let (jumps, undated_ns) = (self.clock.jumps, self.clock.undated_ns);
        let jumped = (jumps > 0).then_some(Hidden::ClockJumped { jumps, undated_ns });
        let damaged = self.more_taken_than_measured.then_some(Hidden::Damaged);
        let unstored = self.unstored.then_some(Hidden::NotStored);
        // Measuring a random part of the time gives the same rate of events as measuring all of it.
        let is_rate = matches!(question, Question::Often(_) | Question::OftenProbed(_));
        let paused = self.pause.filter(|_| !is_rate).map(|it| Hidden::Paused {
            runtime_ns: it.runtime_ns,
            period_ns: it.period_ns,
        });
        let stopped = match is_rate {
            true => None,
            false => self.not_measured(question),
        };
        let unplaced = self.unplaced(question);
        let all = [
            silent, others, damaged, unstored, back, jumped, end, paused, stopped, unplaced,
        ];
        all.into_iter().flatten().collect()
    }

    /// Returns the unmeasured time, if any. For [`Question::TakenFrom`], this time counts as
    /// unplaced.
    fn not_measured(&self, question: Question) -> Option<Hidden> {
        if let Question::TakenFrom(_) = question {
            return None;
        }
        let not_measured = self.cpus.iter().map(|it| it.not_measured_ns);
        let ns = not_measured.max().filter(|ns| *ns > 0)?;
        let cpus = self.cpus.iter().filter(|it| it.not_measured_ns > 0);
        let cpus = cpus.map(|it| it.cpu).collect();
        Some(Hidden::NotMeasured { ns, cpus })
    }

    /// Returns the unplaced time, if any. These answers need only its amount, because they count
    /// all of this time as taken.
    fn unplaced(&self, question: Question) -> Option<Hidden> {
        let not_measured = self.cpus.iter().map(|it| it.not_measured_ns);
        let ns = match question {
            Question::TakenFrom(_) => not_measured.fold(self.unplaced_ns(), u64::saturating_add),
            // The pauses are most of the unplaced time, and `Hidden::Paused` states them.
            Question::Taken if self.pause.is_none() => self.unplaced_ns(),
            _ => 0,
        };
        (ns > 0).then_some(Hidden::Unplaced { ns })
    }

    /// Returns the reasons why gaps may be missing in the records.
    fn of_lengths(&self, question: Question) -> Vec<Hidden> {
        let threshold_ns = self.threshold_ns;
        let below_ns = self.writing_ns;
        let is_above = |limit_ns: f64| threshold_ns as f64 > limit_ns;
        let threshold = match question {
            Question::Longest(limit_ns)
            | Question::Often(limit_ns)
            | Question::LongestProbed(limit_ns)
            | Question::OftenProbed(limit_ns) => is_above(limit_ns),
            _ => threshold_ns > USUAL_THRESHOLD_NS,
        };
        let threshold = threshold.then_some(Hidden::Threshold { threshold_ns });
        let is_below = |limit_ns: f64| (limit_ns as u64) < below_ns;
        let writing = match question {
            Question::Longest(limit_ns)
            | Question::Often(limit_ns)
            | Question::LongestProbed(limit_ns)
            | Question::OftenProbed(limit_ns) => is_below(limit_ns),
            _ => false,
        };
        let writing = writing.then_some(Hidden::Writing { below_ns });
        let count = self.lost.gaps;
        let lost = (count > 0).then_some(Hidden::Lost { count });
        [threshold, writing, lost].into_iter().flatten().collect()
    }

    /// Returns the kinds of work that can delay a task without delaying the recorder.
    fn of_tasks(&self, question: Question) -> Vec<Hidden> {
        let is_observed = self.workload == MeasuringCommand::Observed;
        let below = is_observed
            && !matches!(question, Question::TakenAs(share) | Question::TakenBy(Some(share)) if is_of_kernel(share));
        let below = below.then_some(Hidden::BelowObserved);
        let first = match (question, self.policy) {
            _ if is_observed => None,
            (Question::TakenFrom(_), None) => Some(Hidden::Policy),
            (Question::TakenFrom(task), Some(recorder)) => recorder
                .is_spared_what_delays(task)
                .then_some(Hidden::GoesFirst { recorder, task }),
            _ => None,
        };
        [below, first].into_iter().flatten().collect()
    }

    /// Returns the reasons why the owner of lost time may be unknown.
    fn of_owners(&self, question: Question) -> Vec<Hidden> {
        let share = match question {
            Question::TakenAs(share) => Some(share),
            Question::TakenBy(share) => share,
            Question::Anything => return self.of_any_owner(),
            Question::LongestProbed(_) | Question::OftenProbed(_) => {
                return self.of_names().into_iter().collect();
            }
            _ => return Vec::new(),
        };
        let unwatched = share.filter(|it| !self.watched.known[*it]);
        let unwatched = unwatched.map(|share| self.unwatched(share));
        let mut hidden: Vec<Hidden> = unwatched.into_iter().collect();
        // The kernel sums the shares itself. Lost records do not change these sums.
        if self.workload == MeasuringCommand::Exits {
            return hidden;
        }
        hidden.extend(self.of_names());
        // These two shares are residuals without a known owner.
        if !matches!(share, Some(Share::HvOrHw | Share::Unexplained)) {
            let handler_only = [Share::Hw, Share::Kvm, Share::Nmi, Share::HostNmi];
            if share.is_none_or(|it| handler_only.contains(&it)) {
                hidden.push(Hidden::Unnamed);
            }
            let is_irq = share.is_none_or(|it| matches!(it, Share::Irq | Share::HostIrq));
            if is_irq && self.watched.hidden_interrupts {
                hidden.push(Hidden::Interrupts);
            }
            let is_host_irq = share.is_none_or(|it| it == Share::HostIrq);
            if is_host_irq && self.host.is_some_and(|it| it.hidden_interrupts) {
                hidden.push(Hidden::HostInterrupts);
            }
        }
        if share.is_none_or(may_be_kvms) && self.watched.unbounded_kvm_ns > 0 {
            let ns = self.watched.unbounded_kvm_ns;
            hidden.push(Hidden::KvmUnbounded { ns });
        }
        if share.is_none_or(is_of_host) {
            hidden.extend(self.of_host());
        }
        let ns = self.clock.bound_ns;
        // The clock of the probes stamps wake-ups. So there is no clock error between two clocks.
        if ns != Some(0) && self.workload != MeasuringCommand::Timerlat {
            hidden.push(Hidden::ClockBound { ns });
        }
        hidden
    }

    fn of_any_owner(&self) -> Vec<Hidden> {
        let mut hidden = Vec::new();
        if !self.watched.traced || self.watched.witnesses.see_nothing() {
            hidden.push(Hidden::Unwatched {
                share: None,
                why: WhyUnwatched::NoProbes,
            });
        }
        let has_steal =
            self.workload == MeasuringCommand::Exits || self.watched.known[Share::Steal];
        if self.watched.has_layer_below && !has_steal {
            hidden.push(self.unwatched(Share::Steal));
        }
        hidden.extend(self.of_names());
        if self.watched.hidden_interrupts {
            hidden.push(Hidden::Interrupts);
        }
        if self.host.is_some_and(|it| it.hidden_interrupts) {
            hidden.push(Hidden::HostInterrupts);
        }
        hidden.extend(self.of_host());
        hidden
    }

    fn of_names(&self) -> Option<Hidden> {
        let count = self.lost.names;
        (count > 0).then_some(Hidden::LostNames { count })
    }

    fn of_host(&self) -> Vec<Hidden> {
        let Some(host) = self.host else {
            return Vec::new();
        };
        let count = host.lost_names;
        let names = (count > 0).then_some(Hidden::HostNames { count });
        let ns = host.unsure_ns;
        let unsure = (ns > 0).then_some(Hidden::HostUnsure { ns });
        let (gaps, ns) = (host.uncovered_gaps, host.uncovered_ns);
        let elsewhere = (gaps > 0).then_some(Hidden::HostElsewhere { gaps, ns });
        [names, unsure, elsewhere].into_iter().flatten().collect()
    }

    fn unwatched(&self, share: Share) -> Hidden {
        Hidden::Unwatched {
            share: Some(share),
            why: self.why_unwatched(share),
        }
    }

    fn why_unwatched(&self, share: Share) -> WhyUnwatched {
        let watched = &self.watched;
        match share {
            Share::Steal if watched.has_layer_below && !watched.witnesses.steal_clock => {
                WhyUnwatched::NoStealClock
            }
            _ if !watched.traced => WhyUnwatched::NoProbes,
            Share::Hw if watched.has_layer_below => WhyUnwatched::LayerBelow,
            _ if is_of_host(share)
                && !is_own(share)
                && self.workload != MeasuringCommand::Microvm =>
            {
                WhyUnwatched::OnHost
            }
            _ => WhyUnwatched::Probe {
                limit: self.limit_of(share),
            },
        }
    }

    /// Returns the limit that the probe of this share reports; empty if no probe reports one.
    fn limit_of(&self, share: Share) -> String {
        let probes = ProbeName::of_share(share);
        let statuses = self.watched.probe_statuses.iter();
        let mut limited = statuses.filter(|it| !it.best && !it.limit.is_empty());
        let about = limited.find(|it| probes.iter().any(|probe| it.probe == probe.name()));
        about.map(|it| it.limit.to_string()).unwrap_or_default()
    }

    /// Returns the blind spots of the threads of a command.
    fn of_threads(&self, command: &CommandCoverage, question: Question) -> Vec<Hidden> {
        if let Some(why) = &command.untraced {
            let why = why.clone();
            return vec![Hidden::Untraced { why }];
        }
        let unwatched = |share, why| {
            let share = Some(share);
            Hidden::Unwatched { share, why }
        };
        let mut hidden = Vec::new();
        if !self.watched.known[Share::Steal] {
            hidden.push(unwatched(Share::Steal, WhyUnwatched::NoStealClock));
        }
        hidden.push(match command.beyond_steal {
            HypervisorTime::Nothing => Hidden::Firmware,
            HypervisorTime::Unmeasured => Hidden::BeyondSteal { ns: None },
            HypervisorTime::Measured(ns) => Hidden::BeyondSteal { ns: Some(ns) },
        });
        hidden.extend(too_short_preflight(command, question));
        if !self.watched.known[Share::Nmi] {
            let limit = String::new();
            hidden.push(unwatched(Share::Nmi, WhyUnwatched::Probe { limit }));
        }
        if command.threads == 0 {
            hidden.push(Hidden::Unfollowed { threads: None });
        }
        if command.unbounded > 0 {
            let count = command.unbounded;
            hidden.push(Hidden::Events { count });
        }
        if command.unfollowed > 0 {
            let threads = Some(command.unfollowed);
            hidden.push(Hidden::Unfollowed { threads });
        }
        if command.missed > 0 && !command.kernel_counts_waits {
            hidden.push(Hidden::Waits);
        }
        let (ns, events) = (command.doubt_ns, command.missed);
        if ns > 0 || events > 0 {
            hidden.push(Hidden::Doubt { ns, events });
        }
        hidden
    }
}

/// Returns the preflight if it is too short for an answer. A preflight of any length bounds the sum
/// of the time that a hypervisor takes, but only a long one bounds the longest piece.
fn too_short_preflight(command: &CommandCoverage, question: Question) -> Option<Hidden> {
    let is_of_longest = matches!(question, Question::Longest(_) | Question::Anything);
    let preflight = command.short_preflight.filter(|_| is_of_longest)?;
    Some(Hidden::ShortPreflight {
        polled_ns: preflight.polled_ns,
        needed_ns: preflight.needed_ns,
    })
}

/// Returns whether vmnoise can see this share while it observes a thread. An observed thread shows
/// only what its own kernel sees, and no layer below this kernel.
fn is_of_kernel(share: Share) -> bool {
    !share.is_residual() && share != Share::Steal
}

/// Returns whether a host may have taken this share from its guest.
fn is_of_host(share: Share) -> bool {
    matches!(
        share,
        Share::Kvm
            | Share::Vmm
            | Share::Steal
            | Share::Preempted
            | Share::Blocked
            | Share::Throttled
            | Share::HostIrq
            | Share::HostSoftirq
            | Share::HostNmi
    )
}

/// Returns whether a virtual machine can measure this share without a recording of its host.
fn is_own(share: Share) -> bool {
    matches!(share, Share::Steal | Share::Throttled)
}

/// Returns whether a part of the unbounded KVM time may belong to this share.
fn may_be_kvms(share: Share) -> bool {
    matches!(
        share,
        Share::Kvm | Share::Preempted | Share::HostIrq | Share::HostSoftirq | Share::HostNmi
    )
}
