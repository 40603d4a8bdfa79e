//! Pass 1 of a join: takes both recordings, and says which vCPU is which CPU of the guest.

use std::collections::BTreeMap;

use vmnoise_events::{Activation, Event, RunFacts, VcpuId, Workload};

use super::candidates::candidates;
use super::choice::{Choice, Judged, Tried};
use super::crossing::Crossing;
use super::eras::Eras;
use super::error::JoinError;
use super::evidence::{Evidence, examine};
use super::felt::{Felt, Holes};
use super::guest_clock::GuestClock;
use super::pairs::Pairs;
use super::ran;
use super::result::Pair;
use super::told::ToldVcpus;

/// Gaps, and exits, that are kept as evidence (64 MB of each): those after them are not
/// tested. Nothing else of either recording grows with it but the anchors, 50 a second.
const KEPT: usize = 4 << 20;

/// Finds the vCPUs that a guest's CPUs are. Takes every event of both recordings once; in
/// which order the two sides come does not matter.
#[derive(Debug)]
pub struct Matcher {
    guest_facts: RunFacts,
    only: Option<String>,
    guest: Eras,
    host: Eras,
    host_until_ns: u64,
    felt: BTreeMap<u32, Felt>,
    /// Instants at which periodic tasks ran, the guest's CLOCK_MONOTONIC in nanoseconds.
    ran: BTreeMap<u32, Vec<u64>>,
    /// How many gaps or instants, and times away, may still be kept.
    gaps_left: usize,
    told: ToldVcpus,
    away_left: usize,
}

impl Matcher {
    /// Starts with what was true before the first event of either recording.
    ///
    /// # Errors
    /// Where the two cannot be of a guest and its host, in this order.
    pub fn new(guest: &RunFacts, host: &RunFacts) -> Result<Matcher, JoinError> {
        match (guest.workload, host.workload) {
            (Workload::Vcpus, Workload::Vcpus) => return Err(JoinError::NoGuest),
            (Workload::Vcpus, _) => return Err(JoinError::Swapped),
            (Workload::Observed, _) => return Err(JoinError::Observed),
            (_, Workload::Vcpus) => {}
            (Workload::Spin | Workload::Microvm | Workload::Timer, _) => {
                return Err(JoinError::NoHost);
            }
        }
        Ok(Matcher {
            guest_facts: guest.clone(),
            only: None,
            guest: Eras::new(&guest.clock),
            host: Eras::new(&host.clock),
            host_until_ns: 0,
            felt: BTreeMap::new(),
            ran: BTreeMap::new(),
            gaps_left: KEPT,
            told: ToldVcpus::new(guest.workload == Workload::Timer),
            away_left: KEPT,
        })
    }

    /// Considers only the VM of this name, or whose VMM has this process id.
    #[must_use]
    pub fn only(self, vm: &str) -> Matcher {
        Matcher {
            only: Some(vm.to_string()),
            ..self
        }
    }

    /// Takes the next event of the guest's recording.
    pub fn guest(&mut self, event: &Event) {
        match event {
            Event::Anchor(anchor) => self.guest.add(anchor),
            Event::Gap(gap) if self.gaps_left > 0 => {
                self.gaps_left -= 1;
                self.felt.entry(gap.cpu).or_default().add_gap(gap);
            }
            Event::Activation(activation) => {
                let instants = instants(activation).take(self.gaps_left);
                let ran = self.ran.entry(activation.cpu).or_default();
                let before = ran.len();
                ran.extend(instants);
                self.gaps_left -= ran.len() - before;
            }
            Event::Tally(tally) => {
                let has_room = self.gaps_left > 0;
                let felt = self.felt.entry(tally.cpu).or_default();
                felt.add_tally(tally, has_room);
            }
            Event::Watermark(_) | Event::Finish(_) if self.gaps_left > 0 => {
                self.felt.values_mut().for_each(Felt::settle);
            }
            _ => {}
        }
    }

    /// Takes the next event of the host's recording.
    pub fn host(&mut self, event: &Event) {
        let threshold_ns = self.guest_facts.options.threshold_ns;
        let has_room = self.away_left > 0;
        match event {
            Event::Anchor(anchor) => self.host.add(anchor),
            Event::Vcpu(vcpu) => self.told.define(vcpu),
            Event::VcpuClock(clock) => self.told.add_clock(clock),
            Event::Exit(exit) => {
                let is_kept = self.told.add_exit(exit, threshold_ns, has_room);
                self.away_left -= usize::from(is_kept);
            }
            Event::VcpuInterval(interval) => {
                let is_kept = self.told.add_interval(interval, threshold_ns, has_room);
                self.away_left -= usize::from(is_kept);
            }
            Event::Watermark(mono_ns) => self.host_until_ns = self.host_until_ns.max(*mono_ns),
            Event::Finish(finish) => {
                self.host_until_ns = self.host_until_ns.max(finish.mono_ns);
            }
            _ => {}
        }
    }

    /// Which vCPU each CPU of the guest is.
    ///
    /// # Errors
    /// Where no VM can be the guest, the data contradict those that could, or more than one
    /// is left.
    pub fn conclude(mut self) -> Result<Pairs, JoinError> {
        let (Some(_), Some(host_span)) = (self.guest.span_mono_ns(), self.host.span_mono_ns())
        else {
            let no_guest = self.guest.span_mono_ns().is_none();
            let side = if no_guest { "guest" } else { "host" };
            return Err(JoinError::NoAnchors { side });
        };
        self.felt.retain(|_, felt| felt.span().is_some());
        let cpus: Vec<u32> = self.felt.keys().copied().collect();
        if cpus.is_empty() {
            return Err(JoinError::NothingFelt);
        }
        self.told.sort();
        self.felt.values_mut().for_each(Felt::sort);
        self.ran.values_mut().for_each(|ran| ran.sort_unstable());
        let only = self.only.as_deref();
        let candidates = candidates(&self.guest_facts, &cpus, &self.told, only)?;
        let judged = candidates.into_iter().map(|candidate| {
            let pairs = candidate.vcpus.iter();
            let pairs = pairs.filter_map(|(cpu, vcpu)| self.try_pair(*cpu, *vcpu));
            Judged {
                vm: candidate.vm,
                pairs: pairs.collect(),
            }
        });
        let choice = Choice {
            judged: judged.collect(),
            host_span_ns: (host_span.0, host_span.1.min(self.host_until_ns)),
            threshold_ns: self.guest_facts.options.threshold_ns,
            is_timer: self.is_timer(),
        };
        Ok(self.pairs_of(choice.choose()?))
    }

    /// What the data say of this vCPU as this CPU.
    fn try_pair(&self, cpu: u32, id: VcpuId) -> Option<Tried> {
        let told = self.told.get(id)?;
        let felt = self.felt.get(&cpu)?;
        let clock = match self.guest_facts.workload {
            Workload::Microvm => GuestClock::of_host(id),
            _ => told.clock.clone(),
        };
        let crossing = Crossing {
            host: &self.host,
            guest: &self.guest,
            clock: &clock,
        };
        let span_tsc = felt.span()?;
        let evidence = match self.is_timer() {
            true => {
                let instants = self.ran.get(&cpu).map_or(&[][..], Vec::as_slice);
                ran::examine(&told.away, &crossing, instants, self.half_period_ns())
            }
            false => {
                let threshold_ns = self.guest_facts.options.threshold_ns;
                examine(&told.away, &crossing, &Holes::of(felt), threshold_ns)
            }
        };
        Some(Tried {
            cpu,
            vcpu: told.vcpu.clone()?,
            overlap: crossing.overlap(span_tsc, self.host_until_ns),
            placed_ns: crossing.placed(span_tsc)?,
            evidence,
            clock,
        })
    }

    fn is_timer(&self) -> bool {
        self.guest_facts.workload == Workload::Timer
    }

    /// A task tells its periods apart by what went wrong in them, and by nothing else.
    fn half_period_ns(&self) -> u64 {
        let timer = self.guest_facts.options.timer.as_ref();
        timer.map_or(0, |timer| timer.period_ns / 2)
    }

    fn pairs_of(self, found: Vec<Tried>) -> Pairs {
        let Matcher { guest, host, .. } = self;
        let pairs = found.iter().map(|tried| Pair {
            cpu: tried.cpu,
            vm: tried.vcpu.vm_name.clone(),
            vmm_pid: tried.vcpu.vmm_pid,
            vcpu: tried.vcpu.number,
            tid: tried.vcpu.tid,
            clocks: tried.overlap.clocks,
            overlap_ns: tried.overlap.ns,
            exits_tested: tried.evidence.tested,
            exits_inside: tried.evidence.inside,
            by_chance_percent: tried.evidence.chance * 100.0,
            slack_ns: tried.evidence.slack_ns,
            anchors_ns: host.bound_ns().saturating_add(guest.bound_ns()),
            bound_ns: bound_ns(&host, &guest, &tried.evidence),
        });
        Pairs {
            pairs: pairs.collect(),
            vcpus: found
                .into_iter()
                .map(|tried| (tried.vcpu.id, tried.clock))
                .collect(),
            host_until_ns: self.host_until_ns,
            host,
            guest,
        }
    }
}

/// When its task provably ran, in no order.
fn instants(activation: &Activation) -> impl Iterator<Item = u64> {
    let steps = [
        activation.armed_mono_ns,
        activation.irq_mono_ns,
        activation.waking_mono_ns,
        activation.switch_mono_ns,
        Some(activation.woke_mono_ns),
    ];
    steps.into_iter().flatten()
}

/// How wrong a time can be that is laid over the other side's clock. Where the clock recorded
/// is the guest's to the cycle, what the anchors of both sides add. If it is off, then by no
/// more than the slack of the exits, which were themselves placed by the host's anchors.
fn bound_ns(host: &Eras, guest: &Eras, evidence: &Evidence) -> u64 {
    let anchors_ns = host.bound_ns().saturating_add(guest.bound_ns());
    match evidence.widest_slack_ns() {
        None => anchors_ns,
        Some(slack_ns) => anchors_ns
            .saturating_add(slack_ns)
            .saturating_add(host.bound_ns()),
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{
        Anchor, Exit, ExitReason, ExitSplit, Gap, Isa, Tally, Vcpu, VcpuClock, VcpuExit,
    };

    use super::*;

    fn facts(workload: &str) -> RunFacts {
        let facts = format!(
            r#"{{"tool_version": "", "workload": "{workload}", "started_at": "", "options": {{
                "cpus": [], "duration_ns": 0, "threshold_ns": 5, "period_ns": 0,
                "priority": null, "top": 0, "stop_ns": null, "trace": true}}, "host": {{
                "kernel": "", "hypervisor": null, "cpu_model": "", "allowed_cpus": [],
                "clocksource": "", "kvm_module": null}}, "clock": {{"source": "tsc",
                "tsc_hz": 1000000000, "offset_proof": null, "offset_tsc": 0,
                "offset_bound_tsc": 0, "bracket_tsc": 0}}, "witnesses": {{"irq": true,
                "softirq": true, "nmi": true, "sched": true, "kvm_run": true,
                "kvm_exit": true, "steal_clock": true}}, "rungs": [], "shares_cpu": false,
                "rdtsc_cycles": 0}}"#
        );
        serde_json::from_str(&facts).unwrap()
    }

    /// A pair of gaps and exits each 1000 ns that agree, of which so many may be kept.
    fn tested(gaps: usize, exits: usize) -> u64 {
        let mut matcher = Matcher::new(&facts("spin"), &facts("vcpus")).unwrap();
        (matcher.gaps_left, matcher.away_left) = (gaps, exits);
        let vcpu = VcpuId(0);
        matcher.host(&Event::Vcpu(Vcpu {
            id: vcpu,
            tid: 2,
            vmm_pid: 1,
            number: Some(0),
            vm: 0,
            vm_name: "web".to_string(),
            sees_kvm: true,
        }));
        matcher.host(&Event::VcpuClock(VcpuClock {
            vcpu,
            before_until_mono_ns: 0,
            from_mono_ns: 0,
            offset_tsc: 0,
            ratio: 1,
            ratio_frac_bits: 0,
        }));
        for at in (10_000..110_000).step_by(1_000) {
            let anchor = |at| {
                Event::Anchor(Anchor {
                    before_tsc: at,
                    mono_ns: at,
                    after_tsc: at,
                })
            };
            matcher.guest(&anchor(at));
            matcher.guest(&Event::Tally(Tally {
                cpu: 0,
                first_tsc: 10_000,
                last_tsc: at,
                ..Tally::default()
            }));
            matcher.guest(&Event::Gap(Gap {
                cpu: 0,
                start_tsc: at - 120,
                end_tsc: at - 80,
                steal_ns: 0,
                reloads: 0,
                light_exits: 0,
                heavy_exits: 0,
                interference: None,
            }));
            matcher.guest(&Event::Watermark(at));
            matcher.host(&anchor(at));
            matcher.host(&Event::Exit(VcpuExit {
                vcpu,
                exit: Exit {
                    start_mono_ns: at - 110,
                    end_mono_ns: at - 90,
                    reason: ExitReason {
                        isa: Isa::Svm,
                        code: 0,
                    },
                    exit_cpu: 0,
                    entry_cpu: 0,
                    heavy: false,
                    split: ExitSplit::default(),
                },
            }));
            matcher.host(&Event::Watermark(at));
        }
        let pair = matcher.conclude().unwrap().pairs[0].clone();
        assert_eq!(pair.exits_inside, pair.exits_tested);
        pair.exits_tested
    }

    #[test]
    fn what_is_not_kept_is_not_tested() {
        // The first gap lies before the first reading.
        assert_eq!(tested(KEPT, KEPT), 99);
        assert_eq!(
            tested(50, KEPT),
            48,
            "whether more gaps were felt is not known"
        );
        assert_eq!(tested(KEPT, 50), 49);
    }
}
