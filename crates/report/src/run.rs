//! One section of the page: a recording, or a guest's with its host's.

use vmnoise_events::{RunFacts, Share, Workload};
use vmnoise_explain::{ExitsRun, JoinedLatencies, JoinedRun, Summary, VcpuExits, Wakeups};

use crate::gathering::{Resolved, Taker};
use crate::scenes::Bar;
use crate::shares;

/// What explain made of it.
#[derive(Debug)]
pub enum Outcome {
    /// Gaps that a workload observed.
    Gaps(Box<Summary>),
    /// A guest's gaps or wake-ups, with what the host did in them.
    Joined(Box<JoinedRun>),
    /// Exits of vCPUs.
    Exits(Box<ExitsRun>),
    /// Wake-ups of periodic tasks.
    Wakeups(Box<Summary>),
}

/// A recording, explained.
#[derive(Debug)]
pub struct Run {
    /// Where it lies; of a join both.
    pub file: String,
    /// What was true before its first event.
    pub facts: RunFacts,
    /// What it came to.
    pub outcome: Outcome,
    /// Its moments.
    pub gathered: Resolved,
    /// What each lane is called, by its place.
    pub lane_names: Vec<String>,
    /// What ran when in some moments: which, by the place of the lane and the begin.
    pub scenes: Vec<((usize, u64), Vec<Bar>)>,
    /// The least that was left in windows of each length: the place of the lane, and lengths with what was left,
    /// nanoseconds. Of gaps alone, and of no run that paused.
    pub left: Vec<(usize, Vec<(u64, u64)>)>,
    /// What was lost, the clocks' bound and the like, a sentence each.
    pub limits: Vec<String>,
    /// What went wrong with the file, or why it was not joined.
    pub notes: Vec<String>,
}

/// The words for what a run is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// Who loses time.
    pub(crate) victim: &'static str,
    /// What one of its losses is.
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    /// What a lane is.
    pub(crate) lane: &'static str,
    /// Over all moments.
    pub(crate) noise: &'static str,
    /// What the axis of their lengths is called.
    pub(crate) length: &'static str,
    /// Over the chart of the longest.
    pub(crate) over_time: &'static str,
}

impl Run {
    /// Says who took a share, to go on after "71 % of the noise is ". If some of this kernel's work is not
    /// observed, the residual may be that work, and nobody below is named for it.
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
            (Outcome::Exits(_), _) => Words {
                victim: "its guest",
                one: "exit",
                many: "exits",
                lane: "vCPU",
                noise: "time in exits",
                length: "length of an exit",
                over_time: "Exits over time",
            },
            (Outcome::Wakeups(_), _) | (_, Workload::Timerlat) => Words {
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
            (Outcome::Joined(_), _) => gaps("the guest"),
            (_, Workload::Microvm) => gaps("a VM"),
            (_, Workload::Observed) => gaps("the observed thread"),
            _ => gaps("a thread"),
        }
    }

    /// The summary behind it; of exits there is none.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        match &self.outcome {
            Outcome::Gaps(summary) | Outcome::Wakeups(summary) => Some(summary),
            Outcome::Joined(run) => Some(&run.summary),
            Outcome::Exits(_) => None,
        }
    }

    /// What it says of periodic tasks.
    pub(crate) fn wakeups(&self) -> Option<&Wakeups> {
        self.summary()?.wakeups.as_ref()
    }

    /// Whether its moments are wake-ups.
    pub(crate) fn is_of_tasks(&self) -> bool {
        self.wakeups().is_some()
    }

    /// Beside a host, what either side had of the wake-ups of periodic tasks.
    pub(crate) fn latencies(&self) -> Option<&JoinedLatencies> {
        match &self.outcome {
            Outcome::Joined(run) => run.latencies.as_ref(),
            _ => None,
        }
    }

    /// What a CPU is called.
    pub(crate) fn name_of(&self, cpu: u32) -> String {
        let place = self.gathered.lanes.iter().position(|lane| *lane == cpu);
        place.map_or_else(|| format!("CPU {cpu}"), |it| self.lane_name(it).to_owned())
    }

    /// The place of a vCPU's lane; `None` if no exit of it was recorded by itself.
    pub(crate) fn lane_of(&self, vcpu: &VcpuExits) -> Option<usize> {
        self.gathered.lanes.iter().position(|id| *id == vcpu.id.0)
    }

    /// What a lane is called, by its place.
    pub(crate) fn lane_name(&self, place: usize) -> &str {
        self.lane_names.get(place).map_or("-", |name| name)
    }

    /// Zero of the page's times, as text and JSON have it; of exits, which these date by CLOCK_MONOTONIC, the
    /// earliest instant of the stream. CLOCK_MONOTONIC in nanoseconds.
    pub(crate) fn origin_mono_ns(&self) -> u64 {
        let origin_ns = self.summary().and_then(|summary| summary.origin_mono_ns);
        origin_ns.unwrap_or(self.gathered.span_mono_ns.0)
    }

    /// An instant after [`Self::origin_mono_ns`], in nanoseconds.
    pub(crate) fn at_ns(&self, mono_ns: u64) -> u64 {
        mono_ns.saturating_sub(self.origin_mono_ns())
    }

    /// How long the run lasted, in nanoseconds.
    pub(crate) fn lasted_ns(&self) -> u64 {
        self.at_ns(self.gathered.span_mono_ns.1)
    }

    /// The longest moment of a lane, to the nanosecond.
    pub(crate) fn longest_ns(&self, lane: usize) -> Option<u64> {
        let spikes = self.gathered.spikes.iter();
        let of_lane = spikes.filter(|spike| spike.lane == lane);
        of_lane.map(|spike| spike.dur_ns).max()
    }

    /// Who took how much, the most first. What vCPUs spent in KVM and the VMM goes by the
    /// reason of the exit, and comes from the kernel's own sums.
    pub(crate) fn takers(&self) -> Vec<Taker> {
        let mut takers = self.gathered.takers.clone();
        if let Outcome::Exits(run) = &self.outcome {
            let vcpus = run.exits.vms.iter().flat_map(|vm| &vm.vcpus);
            let counted: Vec<Taker> = vcpus.flat_map(|vcpu| self.counted(vcpu)).collect();
            // A run that was cut off may have told no sums.
            if !counted.is_empty() {
                takers.retain(|taker| !matches!(taker.share, Share::Kvm | Share::Vmm));
                takers.extend(counted);
            }
            takers.sort_by_key(|taker| std::cmp::Reverse(taker.total_ns));
        }
        takers
    }

    /// What KVM and the VMM had of a vCPU, by the reason of the exit.
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
