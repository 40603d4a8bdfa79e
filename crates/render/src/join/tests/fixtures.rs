//! Joined run for the tests: the exit of Figure 25 of the thesis, in a gap of its guest.

use vmnoise_events::{
    Anchor, CpuTally, Event, Finish, FinishReason, Gap, ProbeStatus, Share, fixtures,
};
use vmnoise_explain::{
    Alternative, CandidateVm, Detail, ExitBranch, Explainer, GapDetail, GuestColumns, GuestCulprit,
    HostSide, JoinTree, JoinedTotals, Losses, NamedInterval, NamedPart, Pairing, PairingVerdict,
    Stretch, Summary, ThesisSum, Unsure, VmSide,
};

use super::super::*;

const GAP_NS: u64 = 64_500;

/// Returns the summary of one CPU that polled for a second and had one gap.
pub(super) fn summary(facts: &RunFacts) -> Summary {
    let mut explainer = Explainer::new(facts);
    let anchor = |at| {
        Event::Anchor(Anchor {
            before_tsc: at,
            mono_ns: at,
            after_tsc: at,
        })
    };
    let events = [
        anchor(0),
        anchor(1_000_000_000),
        Event::Gap(Gap {
            cpu: 0,
            start_tsc: 269_583_000,
            end_tsc: 269_583_000 + GAP_NS,
            steal_ns: 0,
            reloads: 1,
            light_exits: 0,
            heavy_exits: 0,
            interference: None,
            run_delay_ns: 0,
        }),
        Event::Tally(CpuTally {
            cpu: 0,
            last_tsc: 1_000_000_000,
            ..CpuTally::default()
        }),
        Event::Finish(Finish {
            reason: FinishReason::Duration,
            mono_ns: 1_000_000_000,
        }),
    ];
    for event in &events {
        explainer.push(event, &mut |_| {});
    }
    let mut summary = explainer.finish();
    summary.cpus[0].guest_columns = GuestColumns {
        steal_ns: Some(30_257),
        virt_ns: Some(32_229),
        hw_noise_ns: Some(0),
        light_exits: Some(41),
        heavy_exits: Some(0),
    };
    summary
}

fn facts(machine: &str, hypervisor: Option<&str>, probe: &str) -> RunFacts {
    let mut facts = fixtures::polling_facts();
    facts.options.cpus = vec![0];
    facts.host.cpu_model = machine.into();
    facts.host.kernel = "6.2.0-rt3".into();
    facts.host.hypervisor = hypervisor.map(str::to_owned).map(Into::into);
    facts.probe_statuses = vec![ProbeStatus {
        probe: probe.into(),
        in_use: "tp_btf".into(),
        best: true,
        limit: Default::default(),
        remedy: Default::default(),
    }];
    facts
}

pub(super) fn on_host(share: Share, ns: u64, name: Option<&str>) -> NamedPart {
    let is_who = name.is_some();
    NamedPart {
        phase: None,
        share,
        source: name.map(str::to_owned).map(Into::into),
        host_cpu: is_who.then_some(3),
        ns,
        count: is_who.into(),
    }
}

pub(super) fn detail(lost_activities: u64) -> Detail {
    Detail::Gap(GapDetail {
        start_tsc: 269_583_000,
        end_tsc: 269_583_000 + GAP_NS,
        lost_activities: Some(lost_activities),
        ..GapDetail::default()
    })
}

fn tree() -> JoinTree {
    let parts = vec![
        on_host(Share::Preempted, 20_362, Some("ksoftirqd/3:31")),
        on_host(Share::Kvm, 17_998, None),
        on_host(Share::HostIrq, 11_004, Some("local_timer:236")),
        on_host(Share::Preempted, 9_895, Some("rcuc/3:30")),
        on_host(Share::HostSoftirq, 2_504, Some("NET_RX:3")),
        on_host(Share::HostIrq, 411, Some("irq_work:246")),
        on_host(Share::Unexplained, 312, None),
    ];
    JoinTree {
        of: NamedInterval {
            cpu: 0,
            at_ns: 269_583_000,
            start_mono_ns: 269_583_000,
            dur_ns: GAP_NS,
            parts: Vec::new(),
            detail: detail(0),
        },
        stretches: vec![Stretch {
            phase: None,
            dur_ns: GAP_NS,
            guest: vec![NamedPart {
                phase: None,
                host_cpu: None,
                share: Share::Irq,
                source: Some("local_timer:236".into()),
                ns: 1_514,
                count: 1,
            }],
            exits: vec![ExitBranch {
                reason: "EXTERNAL_INTERRUPT".into(),
                heavy: false,
                exit_cpu: 3,
                entry_cpu: 3,
                after_ns: 96,
                dur_ns: 62_486,
                parts,
                pieces: Vec::new(),
            }],
            steal_ns: 0,
            residual_ns: 500,
        }],
        residual: Share::Unexplained,
        witnessed: true,
    }
}

fn culprit(side: VmSide, share: Share, name: Option<&str>, ns: u64) -> GuestCulprit {
    GuestCulprit {
        side,
        share,
        name: name.map(str::to_owned).map(Into::into),
        cpu: match side {
            VmSide::Host if !matches!(share, Share::Kvm) => Some(3),
            VmSide::Guest => Some(0),
            _ => None,
        },
        gaps: 1,
        total_ns: ns,
        max_ns: ns,
        percent: ns as f64 * 100.0 / GAP_NS as f64,
    }
}

pub(super) fn pair() -> VcpuPair {
    VcpuPair {
        cpu: 0,
        vm: "l2".into(),
        vmm_pid: 4160,
        vcpu: Some(0),
        tid: 4168,
        clocks: 1,
        overlap_ns: 998_000_000,
        exits_tested: 40,
        exits_inside: 39,
        exits_contradicted: 0,
        by_chance_percent: 0.0065,
        slack_ns: Some((-96, 1_418)),
        anchors_ns: 30,
        bound_ns: 86,
        log10_odds: 41.7,
        against: Alternative::Chance,
        verdict: PairingVerdict::Proven,
        joined: true,
        leans_on: None,
    }
}

pub(super) fn run(summary: Summary) -> JoinedRun {
    JoinedRun {
        latencies: None,
        summary,
        pairs: vec![pair()],
        pairing: Pairing {
            verdict: PairingVerdict::Proven,
            log10_odds: 41.7,
            candidates: vec![CandidateVm {
                vm: "l2".into(),
                vmm_pid: 4160,
                identity: Default::default(),
                verdict: PairingVerdict::Proven,
                log10_odds: 41.7,
                against: Alternative::Chance,
                pairs: vec![pair()],
            }],
        },
        joined: JoinedTotals {
            gaps: 1,
            witnessed: 1,
            joined: 1,
            witnessed_above: 1,
            joined_above: 1,
            witnessed_ns: GAP_NS,
            witnessed_unexplained_ns: 812,
            joined_ns: GAP_NS,
            unexplained_ns: 812,
            exits: 1,
            unsure: Unsure::default(),
            unbounded_kvm_ns: 0,
        },
        above_ns: 20_000,
        culprits: vec![
            culprit(
                VmSide::Host,
                Share::Preempted,
                Some("ksoftirqd/3:31"),
                20_362,
            ),
            culprit(VmSide::Host, Share::Kvm, Some("EXTERNAL_INTERRUPT"), 17_998),
            culprit(
                VmSide::Host,
                Share::HostIrq,
                Some("local_timer:236"),
                11_004,
            ),
            culprit(VmSide::Host, Share::Preempted, Some("rcuc/3:30"), 9_895),
            culprit(VmSide::Host, Share::HostSoftirq, Some("NET_RX:3"), 2_504),
            culprit(VmSide::Guest, Share::Irq, Some("local_timer:236"), 1_514),
            culprit(VmSide::Unknown, Share::Unexplained, None, 812),
            culprit(VmSide::Host, Share::HostIrq, Some("irq_work:246"), 411),
        ],
        trees: vec![tree()],
        thesis: Some(ThesisSum {
            exits: 1,
            length_ns: 62_486,
            thesis_ns: 59_670,
            ours_ns: 62_174,
        }),
        host: HostSide {
            kernel: "6.2.0-rt3".into(),
            hypervisor: None,
            threshold_ns: 0,
            only_reasons: Vec::new(),
            losses: Losses::default(),
            lost_events: 0,
            late_events: 0,
            complete: true,
            finish_reason: Some(FinishReason::Duration),
        },
    }
}

/// Returns the facts of the guest and of its host.
pub(super) fn both() -> (RunFacts, RunFacts) {
    (
        facts("J4105", Some("KVM"), "interrupts"),
        facts("J4105", None, "exits of every VM"),
    )
}
