//! A section of the page: a recording, or a guest's recording joined with its host's.

use vmnoise_events::{MeasuringCommand, RunFacts, Share};
use vmnoise_explain::{ExitsRun, JoinedLatencies, JoinedRun, Summary, VcpuExits, WakeupSummary};

use crate::gathering::{ResolvedMoments, Taker};
use crate::scenes::Bar;
use crate::shares;

/// Result of the explanation, by the kind of recording.
#[derive(Debug)]
pub enum RunOutcome {
    /// Gaps that a workload measured.
    Gaps(Box<Summary>),
    /// Gaps or wake-ups of a guest, with the activity of its host.
    Joined(Box<JoinedRun>),
    /// Exits of vCPUs.
    Exits(Box<ExitsRun>),
    /// Wake-ups of periodic tasks.
    Wakeups(Box<Summary>),
}

/// An explained recording, ready for the page.
#[derive(Debug)]
pub struct ReportedRun {
    /// Path of the recording. For a join, the paths of both recordings.
    pub file: String,
    /// Facts that were recorded before the run's first event.
    pub facts: RunFacts,
    /// Result of the explanation.
    pub outcome: RunOutcome,
    /// Gaps, wake-ups or exits of the run.
    pub gathered: ResolvedMoments,
    /// Name of each CPU or vCPU, by its index.
    pub lane_names: Vec<String>,
    /// Activities inside the longest gaps, wake-ups or exits. The key has the index of the CPU or
    /// vCPU, and the begin in CLOCK_MONOTONIC nanoseconds.
    pub scenes: Vec<((usize, u64), Vec<Bar>)>,
    /// Least CPU time left in any window, for each window length. Each entry has the index of a
    /// CPU, and pairs of length and time left in nanoseconds. Empty unless gaps were measured
    /// without pauses.
    pub left: Vec<(usize, Vec<(u64, u64)>)>,
    /// Limits of the run, such as lost records and the clock error. Each is one sentence.
    pub limits: Vec<String>,
    /// Errors in the file, or the reasons why two recordings were not joined.
    pub notes: Vec<String>,
}

/// Words that depend on what the run measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// Noun for the program or machine that loses time.
    pub(crate) victim: &'static str,
    /// Noun for one gap, wake-up or exit.
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    /// Noun for a CPU or vCPU.
    pub(crate) lane: &'static str,
    /// Noun for the sum of all lost time.
    pub(crate) noise: &'static str,
    /// Title of the axis that shows lengths.
    pub(crate) length: &'static str,
    /// Title of the chart of spikes.
    pub(crate) over_time: &'static str,
}

impl ReportedRun {
    /// Returns the cause of a share as the end of the sentence "71 % of the noise is ". If part of
    /// this kernel's work was not observed, the residual may be work of this kernel. In this case
    /// the text names no hypervisor.
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

    /// Returns the summary of gaps and wake-ups; `None` for exits.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        match &self.outcome {
            RunOutcome::Gaps(summary) | RunOutcome::Wakeups(summary) => Some(summary),
            RunOutcome::Joined(run) => Some(&run.summary),
            RunOutcome::Exits(_) => None,
        }
    }

    /// Returns the results of periodic tasks; `None` if no tasks were measured.
    pub(crate) fn wakeups(&self) -> Option<&WakeupSummary> {
        self.summary()?.wakeups.as_ref()
    }

    /// Returns whether the run measured wake-ups.
    pub(crate) fn is_of_tasks(&self) -> bool {
        self.wakeups().is_some()
    }

    /// Returns how much of the wake-up latencies guest and host caused; `None` unless the run is a
    /// join of periodic tasks.
    pub(crate) fn latencies(&self) -> Option<&JoinedLatencies> {
        match &self.outcome {
            RunOutcome::Joined(run) => run.latencies.as_ref(),
            _ => None,
        }
    }

    /// Returns the name of the CPU with this number.
    pub(crate) fn name_of(&self, cpu: u32) -> String {
        let place = self.gathered.lanes.iter().position(|lane| *lane == cpu);
        place.map_or_else(|| format!("CPU {cpu}"), |it| self.lane_name(it).to_owned())
    }

    /// Returns the index of a vCPU; `None` if none of its exits was recorded individually.
    pub(crate) fn lane_of(&self, vcpu: &VcpuExits) -> Option<usize> {
        self.gathered.lanes.iter().position(|id| *id == vcpu.id.0)
    }

    /// Returns the name of the CPU or vCPU with this index.
    pub(crate) fn lane_name(&self, place: usize) -> &str {
        self.lane_names.get(place).map_or("-", |name| name)
    }

    /// Returns the zero point of the page's times, CLOCK_MONOTONIC in nanoseconds. Text and JSON
    /// use the same zero point. For exits, text and JSON show CLOCK_MONOTONIC itself, and the page
    /// begins at the earliest instant of the stream.
    pub(crate) fn origin_mono_ns(&self) -> u64 {
        let origin_ns = self.summary().and_then(|summary| summary.origin_mono_ns);
        origin_ns.unwrap_or(self.gathered.span_mono_ns.0)
    }

    /// Returns the nanoseconds between [`Self::origin_mono_ns`] and this instant.
    pub(crate) fn at_ns(&self, mono_ns: u64) -> u64 {
        mono_ns.saturating_sub(self.origin_mono_ns())
    }

    /// Returns the length of the run in nanoseconds.
    pub(crate) fn lasted_ns(&self) -> u64 {
        self.at_ns(self.gathered.span_mono_ns.1)
    }

    /// Returns the length of the longest gap, wake-up or exit of a CPU or vCPU, in nanoseconds.
    /// `None` without gaps, wake-ups and exits.
    pub(crate) fn longest_ns(&self, lane: usize) -> Option<u64> {
        let spikes = self.gathered.spikes.iter();
        let of_lane = spikes.filter(|spike| spike.lane == lane);
        of_lane.map(|spike| spike.dur_ns).max()
    }

    /// Returns the causes of lost time, the largest first. For vCPUs, the kernel's own sums by exit
    /// reason replace the time of KVM and the VMM.
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

    /// Returns the time that KVM and the VMM took from a vCPU, by exit reason.
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
