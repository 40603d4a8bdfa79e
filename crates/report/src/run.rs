//! A section of the page: a recording, or that of a guest joined with its host's.

use vmnoise_events::{MeasuringCommand, RunFacts, Share};
use vmnoise_explain::{ExitsRun, JoinedLatencies, JoinedRun, Summary, VcpuExits, WakeupSummary};

use crate::gathering::{ResolvedMoments, Taker};
use crate::scenes::Bar;
use crate::shares;

/// Results of the explanation.
#[derive(Debug)]
pub enum RunOutcome {
    /// Gaps that a workload observed.
    Gaps(Box<Summary>),
    /// Gaps or wake-ups of a guest, with the activity of its host.
    Joined(Box<JoinedRun>),
    /// Exits of vCPUs.
    Exits(Box<ExitsRun>),
    /// Wake-ups of periodic tasks.
    Wakeups(Box<Summary>),
}

/// An explained recording.
#[derive(Debug)]
pub struct ReportedRun {
    /// Path of the recording; both paths if it is a join.
    pub file: String,
    /// Facts about the run before its first event.
    pub facts: RunFacts,
    /// Results of the explanation.
    pub outcome: RunOutcome,
    /// Moments of the run.
    pub gathered: ResolvedMoments,
    /// Name of each lane.
    pub lane_names: Vec<String>,
    /// Activity inside some moments, by the index of the lane and the begin of the moment.
    pub scenes: Vec<((usize, u64), Vec<Bar>)>,
    /// Least CPU time left in any window, by its length: the index of a lane, and pairs of length
    /// and time left in nanoseconds. Only for gaps, and only if the run did not pause.
    pub left: Vec<(usize, Vec<(u64, u64)>)>,
    /// Limits of the run, such as lost records and the clock bound, one sentence each.
    pub limits: Vec<String>,
    /// Errors in the file, or reasons why it was not joined.
    pub notes: Vec<String>,
}

/// Words for the subject of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// Name of the party that loses time.
    pub(crate) victim: &'static str,
    /// Name of one loss.
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    /// Name of a lane.
    pub(crate) lane: &'static str,
    /// Name of the sum of all moments.
    pub(crate) noise: &'static str,
    /// Title of the axis of lengths.
    pub(crate) length: &'static str,
    /// Title of the chart of the longest moments.
    pub(crate) over_time: &'static str,
}

impl ReportedRun {
    /// Returns the cause of a share, as the end of the sentence "71 % of the noise is ". If part of
    /// this kernel's work was not observed, the residual may be that work, so the text names no
    /// layer below.
    pub(crate) fn deed(&self, share: Share, who: Option<&str>) -> String {
        let witnesses = &self.facts.witnesses;
        let may_be_this_kernel = match share {
            Share::HvOrHw => !witnesses.see_kernel(),
            Share::Unexplained => witnesses.see_nothing(),
            _ => false,
        };
        match may_be_this_kernel {
            true => "unexplained, because vmnoise could not watch all of this kernel".to_owned(),
            false => shares::deed(share, who),
        }
    }

    pub(crate) fn words(&self) -> Words {
        let gaps = |victim| Words {
            victim,
            one: "gap",
            many: "gaps",
            lane: "CPU",
            noise: "noise",
            length: "length of a gap",
            over_time: "Noise over time",
        };
        match (&self.outcome, self.facts.workload) {
            (RunOutcome::Exits(_), _) => Words {
                victim: "its guest",
                one: "exit",
                many: "exits",
                lane: "vCPU",
                noise: "time in exits",
                length: "length of an exit",
                over_time: "Exits over time",
            },
            (RunOutcome::Wakeups(_), _) | (_, MeasuringCommand::Timerlat) => Words {
                victim: match self.latencies() {
                    Some(_) => "a task of the guest",
                    None => "a periodic task",
                },
                one: "wake-up",
                many: "wake-ups",
                lane: "CPU",
                noise: "lateness",
                length: "how late a task woke up",
                over_time: "Lateness over time",
            },
            (RunOutcome::Joined(_), _) => gaps("the guest"),
            (_, MeasuringCommand::Microvm) => gaps("a VM"),
            (_, MeasuringCommand::Observed) => gaps("the observed thread"),
            _ => gaps("a thread"),
        }
    }

    /// Returns the summary; `None` for exits.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        match &self.outcome {
            RunOutcome::Gaps(summary) | RunOutcome::Wakeups(summary) => Some(summary),
            RunOutcome::Joined(run) => Some(&run.summary),
            RunOutcome::Exits(_) => None,
        }
    }

    /// Returns the results about periodic tasks.
    pub(crate) fn wakeups(&self) -> Option<&WakeupSummary> {
        self.summary()?.wakeups.as_ref()
    }

    /// Returns true if the moments are wake-ups.
    pub(crate) fn is_of_tasks(&self) -> bool {
        self.wakeups().is_some()
    }

    /// Returns the guest's and the host's part in the wake-ups of periodic tasks, if the run is a
    /// join.
    pub(crate) fn latencies(&self) -> Option<&JoinedLatencies> {
        match &self.outcome {
            RunOutcome::Joined(run) => run.latencies.as_ref(),
            _ => None,
        }
    }

    /// Returns the name of a CPU.
    pub(crate) fn name_of(&self, cpu: u32) -> String {
        let place = self.gathered.lanes.iter().position(|lane| *lane == cpu);
        place.map_or_else(|| format!("CPU {cpu}"), |it| self.lane_name(it).to_owned())
    }

    /// Returns the index of a vCPU's lane; `None` if none of its exits was recorded singly.
    pub(crate) fn lane_of(&self, vcpu: &VcpuExits) -> Option<usize> {
        self.gathered.lanes.iter().position(|id| *id == vcpu.id.0)
    }

    /// Returns the name of a lane by its index.
    pub(crate) fn lane_name(&self, place: usize) -> &str {
        self.lane_names.get(place).map_or("-", |name| name)
    }

    /// Returns zero of the page's times, CLOCK_MONOTONIC in nanoseconds. It is the zero of text and
    /// JSON. For exits, which text and JSON date by CLOCK_MONOTONIC, it is the earliest instant of
    /// the stream.
    pub(crate) fn origin_mono_ns(&self) -> u64 {
        let origin_ns = self.summary().and_then(|summary| summary.origin_mono_ns);
        origin_ns.unwrap_or(self.gathered.span_mono_ns.0)
    }

    /// Converts an instant to nanoseconds after [`Self::origin_mono_ns`].
    pub(crate) fn at_ns(&self, mono_ns: u64) -> u64 {
        mono_ns.saturating_sub(self.origin_mono_ns())
    }

    /// Returns the length of the run in nanoseconds.
    pub(crate) fn lasted_ns(&self) -> u64 {
        self.at_ns(self.gathered.span_mono_ns.1)
    }

    /// Returns the length of the longest moment of a lane, to the nanosecond.
    pub(crate) fn longest_ns(&self, lane: usize) -> Option<u64> {
        let spikes = self.gathered.spikes.iter();
        let of_lane = spikes.filter(|spike| spike.lane == lane);
        of_lane.map(|spike| spike.dur_ns).max()
    }

    /// Returns the causes of lost time, the largest first. The time of vCPUs in KVM and the VMM is
    /// by the reason of the exit, from the kernel's own sums.
    pub(crate) fn takers(&self) -> Vec<Taker> {
        let mut takers = self.gathered.takers.clone();
        if let RunOutcome::Exits(run) = &self.outcome {
            let vcpus = run.exits.vms.iter().flat_map(|vm| &vm.vcpus);
            let counted: Vec<Taker> = vcpus.flat_map(|vcpu| self.counted(vcpu)).collect();
            // A run that was cut off may have no sums.
            if !counted.is_empty() {
                takers.retain(|taker| !matches!(taker.share, Share::Kvm | Share::Vmm));
                takers.extend(counted);
            }
            takers.sort_by_key(|taker| std::cmp::Reverse(taker.total_ns));
        }
        takers
    }

    /// Returns the time that KVM and the VMM took from a vCPU, by the reason of the exit.
    fn counted(&self, vcpu: &VcpuExits) -> impl Iterator<Item = Taker> {
        let lane = self.lane_of(vcpu);
        let reasons = lane.map(|lane| {
            vcpu.reasons.iter().flat_map(move |reason| {
                let taker = move |share, total_ns| Taker {
                    lane,
                    share,
                    name: Some(reason.name.clone()),
                    moments: reason.count,
                    total_ns,
                    max_ns: None,
                };
                let counted = [Share::Kvm, Share::Vmm, Share::Unexplained];
                let counted = reason.shares_ns.select(counted);
                counted.map(|(share, ns)| taker(share, ns.unwrap_or(0)))
            })
        });
        let takers = reasons.into_iter().flatten();
        takers.filter(|taker| taker.total_ns > 0)
    }
}
