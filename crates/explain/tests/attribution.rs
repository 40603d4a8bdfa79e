//! Tests the attribution of gaps in small handwritten streams.

use crate::streams::{
    activity, anchor, explain, facts, finish, gap, in_a_machine, parts, polling_in_a_machine,
    source, with_steal,
};
use ActivityKind::{Blocked, Exit, Irq, Nmi, Softirq, Thread, Throttled, Vmm};
use vmnoise_events::{
    ActivityKind, CpuTally, Event, Gap, Loss, LossKind, MeasuringCommand, PostedInterrupts,
    RunFacts, Share, Witnesses,
};

type Parts = Vec<(Share, Option<u32>, u64)>;

/// Returns the parts of one gap from 1000 to 2000.
fn budget_of(facts: &RunFacts, gap: Gap, activities: &[Event]) -> Parts {
    let names = (0..10).map(|id| source(id, &format!("source:{id}")));
    let mut events: Vec<Event> = names.chain([anchor(0), anchor(10_000)]).collect();
    events.extend_from_slice(activities);
    events.extend([Event::Gap(gap), finish()]);
    let (budgets, summary) = explain(facts, &events);
    assert_eq!(budgets.len(), 1);
    assert!(summary.complete);
    parts(&budgets[0])
}

fn budget(activities: &[Event]) -> Parts {
    budget_of(&facts(), gap(1000, 2000), activities)
}

#[test]
fn every_layer_is_net_of_what_interrupts_it() {
    let nested = [
        activity(Exit, 1000, 2000, 0),
        activity(Vmm, 1100, 1900, 1),
        activity(Thread, 1200, 1800, 2),
        activity(Softirq, 1300, 1700, 3),
        activity(Irq, 1400, 1600, 4),
        activity(Nmi, 1490, 1510, 5),
    ];
    assert_eq!(
        budget(&nested),
        [
            (Share::Preempted, Some(2), 200),
            (Share::HostSoftirq, Some(3), 200),
            (Share::Kvm, Some(0), 200),
            (Share::Vmm, Some(1), 200),
            (Share::HostIrq, Some(4), 180),
            (Share::HostNmi, Some(5), 20),
        ]
    );
}

#[test]
fn a_sleeper_is_blocked_whoever_runs_meanwhile() {
    let stream = [
        activity(Blocked, 1000, 1900, 1),
        activity(Thread, 1000, 2000, 2),
    ];
    let blamed = [
        (Share::Blocked, Some(1), 900),
        (Share::Preempted, Some(2), 100),
    ];
    assert_eq!(budget(&stream), blamed);
}

#[test]
fn one_source_in_one_gap_is_one_part() {
    let ticks: Vec<Event> = (0..5)
        .map(|n| activity(Irq, 1000 + n * 100, 1010 + n * 100, 7))
        .collect();
    assert_eq!(
        budget(&ticks),
        [
            (Share::Unexplained, None, 950),
            (Share::HostIrq, Some(7), 50)
        ]
    );
}

#[test]
fn a_source_never_defined_is_booked_without_a_name() {
    let stream = [activity(Irq, 1000, 2000, 10)];
    assert_eq!(budget(&stream), [(Share::HostIrq, None, 1000)]);
}

#[test]
fn steal_is_what_no_witnessed_wait_explains() {
    let stolen = |steal_ns, activities: &[Event]| {
        budget_of(
            &in_a_machine(),
            Gap {
                steal_ns,
                ..gap(1000, 2000)
            },
            activities,
        )
    };
    assert_eq!(
        stolen(300, &[]),
        [(Share::HvOrHw, None, 700), (Share::Steal, None, 300)]
    );
    // The interrupt inside the wait is part of the clock's 300 ns, too.
    let waits = [
        activity(Thread, 1000, 1250, 1),
        activity(Irq, 1100, 1200, 2),
    ];
    assert_eq!(
        stolen(300, &waits),
        [
            (Share::HvOrHw, None, 700),
            (Share::Preempted, Some(1), 150),
            (Share::HostIrq, Some(2), 100),
            (Share::Steal, None, 50),
        ]
    );
    let throttled = [activity(Throttled, 1000, 1300, 1)];
    assert_eq!(
        stolen(300, &throttled),
        [(Share::HvOrHw, None, 700), (Share::Throttled, Some(1), 300),]
    );
    assert_eq!(stolen(u64::MAX, &[]), [(Share::Steal, None, 1000)]);
}

#[test]
fn without_a_steal_clock_nothing_is_stolen() {
    let mut facts = facts();
    facts.witnesses.steal_clock = false;
    let blamed = budget_of(
        &facts,
        Gap {
            steal_ns: 300,
            ..gap(1000, 2000)
        },
        &[],
    );
    assert_eq!(blamed, [(Share::Hw, None, 1000)]);
}

#[test]
fn hardware_is_named_only_where_nobody_else_was_there() {
    let rest = |facts: &RunFacts, gap, activities: &[Event]| {
        budget_of(facts, gap, activities)
            .iter()
            .find(|part| part.0.is_residual())
            .map(|part| part.0)
    };
    let bare = gap(1000, 2000);
    assert_eq!(rest(&facts(), bare, &[]), Some(Share::Hw));
    assert_eq!(
        rest(&facts(), bare, &[activity(Irq, 0, 1001, 0)]),
        Some(Share::Unexplained)
    );
    assert_eq!(
        rest(&facts(), bare, &[activity(Irq, 0, 1000, 0)]),
        Some(Share::Hw)
    );
    for touched in [
        Gap {
            light_exits: 1,
            ..bare
        },
        Gap {
            heavy_exits: 1,
            ..bare
        },
        Gap { reloads: 1, ..bare },
    ] {
        assert_eq!(rest(&facts(), touched, &[]), Some(Share::Unexplained));
        assert_eq!(rest(&in_a_machine(), touched, &[]), Some(Share::HvOrHw));
    }
    let mut untraced = facts();
    untraced.witnesses = Witnesses {
        steal_clock: true,
        ..Witnesses::default()
    };
    assert_eq!(rest(&untraced, bare, &[]), Some(Share::Unexplained));
}

#[test]
fn hardware_is_named_only_where_every_layer_is_watched() {
    type Change = fn(&mut RunFacts);
    let of_kernel: [Change; 4] = [
        |facts| facts.witnesses.irq = false,
        |facts| facts.witnesses.softirq = false,
        |facts| facts.witnesses.nmi = false,
        |facts| facts.witnesses.sched = false,
    ];
    // Changes that hide interrupts.
    let hidden: [Change; 3] = [
        |facts| facts.witnesses.hides_vectors = true,
        |facts| facts.host.posted_interrupts = Some(true),
        // This recording does not contain the fact, but its machine may have had posted interrupts.
        |facts| facts.host.kvm_module = Some("kvm_intel".into()),
    ];
    let of_kvm: [Change; 2] = [
        |facts| facts.witnesses.kvm_run = false,
        |facts| facts.witnesses.kvm_exit = false,
    ];
    let residual = |change: Change, workload| {
        let mut facts = facts();
        facts.workload = workload;
        change(&mut facts);
        let gap = Event::Gap(gap(1000, 2000));
        let events = [anchor(0), anchor(10_000_000), gap, finish()];
        let (budgets, summary) = explain(&facts, &events);
        let shares = &summary.cpus[0].shares_ns;
        let hw = shares.iter().find(|(share, _)| *share == Share::Hw);
        let share = budgets[0].parts[0].share;
        assert_eq!(hw.unwrap().1.is_some(), share == Share::Hw);
        share
    };
    for workload in [MeasuringCommand::Microvm, MeasuringCommand::Osnoise] {
        assert_eq!(residual(|_| {}, workload), Share::Hw);
        let no_vmx: Change = |facts| {
            facts.host.kvm_module = Some("kvm_intel".into());
            facts.host.posted_interrupts = Some(false);
        };
        assert_eq!(residual(no_vmx, workload), Share::Hw);
        for (place, change) in of_kernel.into_iter().enumerate() {
            assert_eq!(residual(change, workload), Share::HvOrHw, "{place}");
        }
    }
    // A vCPU leaves its guest for each of these interrupts, which is an exit. A polling thread
    // stays on its CPU.
    for (place, change) in hidden.into_iter().enumerate() {
        assert_eq!(
            residual(change, MeasuringCommand::Osnoise),
            Share::HvOrHw,
            "{place}"
        );
        assert_eq!(
            residual(change, MeasuringCommand::Microvm),
            Share::Hw,
            "{place}"
        );
    }
    let hidden_with_kvm: Change = |facts| {
        facts.witnesses.hides_vectors = true;
        facts.witnesses.kvm_exit = false;
    };
    assert_eq!(
        residual(hidden_with_kvm, MeasuringCommand::Microvm),
        Share::HvOrHw
    );
    // Only a vCPU can be away in KVM or in its VMM.
    for change in of_kvm {
        assert_eq!(residual(change, MeasuringCommand::Microvm), Share::HvOrHw);
        assert_eq!(residual(change, MeasuringCommand::Osnoise), Share::Hw);
    }
}

/// Posted interrupts have no tracepoint, but /proc/interrupts counts them.
#[test]
fn where_no_posted_interrupt_came_a_residual_may_be_the_hardwares() {
    let reading = |count, from_mono_ns| {
        Event::Tally(CpuTally {
            cpu: 1,
            first_tsc: 500,
            last_tsc: from_mono_ns,
            posted: Some(PostedInterrupts {
                count,
                from_mono_ns,
                until_mono_ns: from_mono_ns + 20,
            }),
            ..CpuTally::default()
        })
    };
    let residual = |readings: &[Event]| {
        let mut facts = facts();
        facts.workload = MeasuringCommand::Osnoise;
        facts.host.posted_interrupts = Some(true);
        let mut events = vec![anchor(0), anchor(10_000)];
        events.extend_from_slice(readings);
        events.extend([Event::Gap(gap(1000, 2000)), finish()]);
        let (budgets, _) = explain(&facts, &events);
        budgets[0].parts[0].share
    };
    assert_eq!(residual(&[]), Share::HvOrHw);
    assert_eq!(residual(&[reading(5, 900)]), Share::HvOrHw);
    assert_eq!(residual(&[reading(5, 900), reading(5, 2_000)]), Share::Hw);
    assert_eq!(
        residual(&[reading(5, 900), reading(6, 2_000)]),
        Share::HvOrHw
    );
    // The first reading had not ended when the gap began. The second reading began before the gap
    // ended.
    assert_eq!(
        residual(&[reading(5, 990), reading(5, 2_000)]),
        Share::HvOrHw
    );
    assert_eq!(
        residual(&[reading(5, 900), reading(5, 1_999)]),
        Share::HvOrHw
    );
}

/// Without BPF, the scheduler still counts how long the thread waited, but does not show for which
/// thread.
#[test]
fn without_bpf_a_wait_is_another_threads_and_the_rest_is_nobodys() {
    let mut facts = in_a_machine();
    facts.workload = MeasuringCommand::Osnoise;
    facts.witnesses = Witnesses {
        run_delay: true,
        ..Witnesses::default()
    };
    let gap = |from, run_delay_ns| {
        Event::Gap(Gap {
            run_delay_ns,
            ..gap(from, from + 1000)
        })
    };
    let mut events = vec![anchor(0), anchor(10_000)];
    events.extend([gap(1000, 700), gap(3000, 0), gap(5000, 1200), finish()]);
    let (budgets, summary) = explain(&facts, &events);
    let all: Vec<Parts> = budgets.iter().map(parts).collect();
    let (thread, rest) = (Share::Thread, Share::Unexplained);
    assert_eq!(
        all,
        [
            vec![(thread, None, 700), (rest, None, 300)],
            vec![(rest, None, 1000)],
            vec![(thread, None, 1000)],
        ]
    );
    let cpu = &summary.cpus[0];
    assert_eq!(cpu.shares_ns[thread], Some(1700));
    assert_eq!(cpu.shares_ns[rest], Some(1300));
    for unknown in [Share::HvOrHw, Share::Hw, Share::Irq, Share::Steal] {
        assert_eq!(cpu.shares_ns[unknown], None, "{unknown}");
    }
    let [source] = &cpu.sources[..] else {
        panic!("{:?}", cpu.sources)
    };
    assert_eq!((source.share, &*source.name), (thread, "unknown"));
    assert_eq!((source.count, source.max_ns), (2, 1000));
    // If switches are seen, the run delay adds nothing.
    facts.witnesses.sched = true;
    facts.witnesses.run_delay = false;
    let (budgets, _) = explain(&facts, &events);
    assert_eq!(parts(&budgets[0]), [(Share::HvOrHw, None, 1000)]);
}

#[test]
fn kvm_does_not_swallow_what_nobody_explains() {
    let mut events = vec![
        source(0, "msr_write"),
        source(1, "tick"),
        anchor(0),
        anchor(10_000_000),
    ];
    let plain = (0..200).map(|n| 1000 * n);
    events.extend(plain.map(|start| activity(Exit, start, start + 100, 0)));
    // An exit of 300 ns contains a tick of 50 ns. Plain exits take 100 ns.
    events.push(activity(Exit, 500_000, 500_350, 0));
    events.push(activity(Irq, 500_100, 500_150, 1));
    events.extend([Event::Gap(gap(500_000, 500_350)), finish()]);
    let (budgets, summary) = explain(&facts(), &events);
    assert_eq!(
        parts(&budgets[0]),
        [
            (Share::Unexplained, Some(0), 200),
            (Share::Kvm, Some(0), 100),
            (Share::HostIrq, Some(1), 50),
        ]
    );
    let names: Vec<(Share, &str)> = summary.cpus[0]
        .sources
        .iter()
        .map(|source| (source.share, &*source.name))
        .collect();
    assert_eq!(names[0], (Share::Unexplained, "msr_write"));
}

/// Returns the parts of a gap of 4.02 ms, of which the hypervisor took 4 ms.
fn budget_of_minus_steal(facts: &RunFacts, activities: &[Event]) -> Parts {
    let mut events = vec![source(0, "local_timer:236"), source(1, "kworker/1:1:77")];
    events.extend([anchor(0), anchor(10_000_000)]);
    events.extend_from_slice(activities);
    let gap = Gap {
        steal_ns: 4_000_000,
        ..gap(1_000_000, 5_020_000)
    };
    events.extend([Event::Gap(gap), finish()]);
    parts(&explain(facts, &events).0[0])
}

#[test]
fn a_vcpu_away_inside_an_interrupt_makes_no_long_interrupt() {
    let tick = [with_steal(Irq, 1_000_000, 5_020_000, 0, 4_000_000)];
    let net = [
        (Share::Steal, None, 4_000_000),
        (Share::Irq, Some(0), 20_000),
    ];
    assert_eq!(budget_of_minus_steal(&polling_in_a_machine(), &tick), net);

    let mut blind = polling_in_a_machine();
    blind.witnesses.activity_steal = false;
    let gross = [(Share::Irq, Some(0), 4_020_000)];
    assert_eq!(budget_of_minus_steal(&blind, &tick), gross);
}

#[test]
fn steal_inside_an_interrupt_inside_a_thread_is_taken_off_once() {
    let nested = [
        with_steal(Thread, 1_000_000, 5_015_000, 1, 4_000_000),
        with_steal(Irq, 1_200_000, 5_010_000, 0, 3_800_000),
    ];
    assert_eq!(
        budget_of_minus_steal(&polling_in_a_machine(), &nested),
        [
            (Share::Steal, None, 4_000_000),
            (Share::Irq, Some(0), 10_000),
            (Share::Thread, Some(1), 5_000),
            (Share::HvOrHw, None, 5_000),
        ]
    );
}

#[test]
fn steal_beyond_that_of_activities_comes_out_of_the_rest() {
    let tick = [with_steal(Irq, 1_000_000, 3_010_000, 0, 2_000_000)];
    assert_eq!(
        budget_of_minus_steal(&polling_in_a_machine(), &tick),
        [
            (Share::Steal, None, 4_000_000),
            (Share::Irq, Some(0), 10_000),
            (Share::HvOrHw, None, 10_000),
        ]
    );
}

/// The host's steal clock shows the time that a hypervisor below took from the host, not from the
/// guest.
#[test]
fn steal_inside_the_hosts_activities_is_nobodys_below() {
    let mut facts = in_a_machine();
    let stream = [with_steal(Irq, 1_000_000, 5_020_000, 0, 4_000_000)];
    assert_eq!(
        budget_of_minus_steal(&facts, &stream),
        [
            (Share::HvOrHw, None, 4_000_000),
            (Share::HostIrq, Some(0), 20_000),
        ]
    );
    facts.witnesses.activity_steal = false;
    assert_eq!(
        budget_of_minus_steal(&facts, &stream),
        [(Share::HostIrq, Some(0), 4_020_000)]
    );
}

#[test]
fn a_polling_thread_blames_its_own_kernel() {
    let stream = [
        activity(Throttled, 1000, 1400, 0),
        activity(Blocked, 1400, 1500, 1),
        activity(Thread, 1500, 1700, 2),
        activity(Softirq, 1700, 1790, 3),
        activity(Irq, 1790, 1850, 4),
        activity(Nmi, 1850, 1880, 5),
    ];
    let mut facts = polling_in_a_machine();
    let blamed = |rest| {
        [
            (Share::Throttled, Some(0), 400),
            (Share::Thread, Some(2), 200),
            (rest, None, 120),
            (Share::Blocked, Some(1), 100),
            (Share::Softirq, Some(3), 90),
            (Share::Irq, Some(4), 60),
            (Share::Nmi, Some(5), 30),
        ]
    };
    let reported = |facts: &RunFacts| budget_of(facts, gap(1000, 2000), &stream);
    assert_eq!(reported(&facts), blamed(Share::HvOrHw));
    facts.host.hypervisor = None;
    assert_eq!(reported(&facts), blamed(Share::Unexplained));
    assert_eq!(
        budget_of(&facts, gap(1000, 2000), &[]),
        [(Share::Hw, None, 1000)]
    );
}

#[test]
fn where_records_were_lost_the_hardware_is_not_blamed() {
    // Like a recorder, this stream has the loss before the next watermark.
    let events = [
        anchor(0),
        anchor(1_000_000),
        Event::Gap(gap(10_000, 10_900)),
        Event::Loss(Loss {
            kind: LossKind::RingFull,
            count: 1,
        }),
        Event::Watermark(11_000),
        Event::Watermark(19_000),
        Event::Gap(gap(20_000, 20_900)),
        Event::Watermark(30_000),
        finish(),
    ];
    let (budgets, _) = explain(&facts(), &events);
    let reported: Vec<_> = budgets.iter().map(|budget| parts(budget)[0].0).collect();
    assert_eq!(reported, [Share::Unexplained, Share::Hw]);
}
