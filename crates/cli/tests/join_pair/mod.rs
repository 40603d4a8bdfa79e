//! A guest and its host as two small recordings: the host's TSC shows the ideal time in
//! nanoseconds, the guest's is ahead by [`OFFSET_TSC`], and each machine's CLOCK_MONOTONIC has its
//! own start.

pub mod two_cpus;

use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

/// Offset that KVM adds to the host's TSC.
const OFFSET_TSC: i64 = -400_000_000;
const HOST_BOOT_NS: u64 = 1_000_000_000;
const GUEST_BOOT_NS: u64 = 600_000_000;
const TICK_NS: u64 = 20_000_000;
const BEGIN_NS: u64 = 2_000_000_000;
/// The host begins before the guest and ends after it.
const HOST_NS: std::ops::Range<u64> = BEGIN_NS..BEGIN_NS + 1_200_000_000;
const GUEST_NS: std::ops::Range<u64> = BEGIN_NS + 100_000_000..BEGIN_NS + 1_100_000_000;
/// Length of the exit in the thesis' Figure 25.
const LONG_NS: u64 = 62_486;
/// Exit reason `interrupt` of SVM.
const INTERRUPT: ExitReason = ExitReason {
    isa: Isa::Svm,
    code: 0x60,
};
const SOURCES: [&str; 4] = [
    "local_timer:236",
    "rcuc/3:30",
    "irq_work:246",
    "ksoftirqd/3:31",
];

/// Defects of a pair.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flaws {
    /// Error of the recorded offset, in cycles.
    pub offset_tsc: i64,
    /// Whether another VM has a vCPU with the same number on the same clock.
    pub has_a_twin: bool,
    /// Whether the host recorded only long exits by interrupts.
    pub only_long_exits: bool,
    /// Whether the twin's vCPU runs in the thread of the first, as with a VMM that ends one VM and
    /// begins the next.
    pub shares_a_thread: bool,
    /// Time for which the vCPU is on this host, in ns since the host's run began; `None` is always.
    pub there_ns: Option<(u64, u64)>,
    /// Name of the VM instead of `web`.
    pub vm_name: Option<&'static str>,
}

/// Returns the beginning of each exit, and whether it is a long one.
fn exits() -> impl Iterator<Item = (u64, bool)> {
    // Irregular, so that no other offset fits as well.
    (0..400).map(|nth| {
        let at_ns = BEGIN_NS + 5_000_000 + nth * 2_900_000 + nth * nth * 7_919 % 1_700_000;
        (at_ns, nth % 10 == 0)
    })
}

/// Writes the host's recording: exits of the VM `web` on CPU 3.
pub fn write_host(path: &Path, flaws: Flaws) {
    write_host_of(path, flaws, |_| {});
}

/// Writes the same recording for another machine.
pub fn write_host_of(path: &Path, flaws: Flaws, change: impl FnOnce(&mut HostFacts)) {
    let mut facts = facts(MeasuringCommand::Exits);
    change(&mut facts.host);
    facts.options.exits = Some(ExitFilter::default());
    facts.host.kernel = "6.2.0-rt3-host".into();
    let mut reported = vec![
        (0, vcpu(0, flaws.vm_name.unwrap_or("web"))),
        (0, clock(0, flaws.offset_tsc)),
    ];
    if flaws.has_a_twin {
        let mut twin = vcpu(1, "twin");
        if let Event::Vcpu(twin) = &mut twin
            && flaws.shares_a_thread
        {
            twin.tid -= twin.id.0;
        }
        reported.extend([(0, twin), (0, clock(1, flaws.offset_tsc))]);
    }
    for (at_ns, is_long) in exits() {
        reported.extend(
            exit(0, at_ns, is_long)
                .into_iter()
                .map(|event| (at_ns + LONG_NS, event)),
        );
        if flaws.has_a_twin {
            reported.extend(
                exit(1, at_ns, is_long)
                    .into_iter()
                    .map(|event| (at_ns + LONG_NS, event)),
            );
        }
    }
    if let Some((from_ns, to_ns)) = flaws.there_ns {
        let is_there = |at_ns: u64| (from_ns..to_ns).contains(&at_ns.saturating_sub(HOST_NS.start));
        let defines = |event: &Event| matches!(event, Event::Vcpu(_) | Event::VcpuClock(_));
        reported.retain(|(at_ns, event)| defines(event) || is_there(*at_ns));
    }
    let totals = totals_of(VcpuId(0), &reported);
    reported.push((HOST_NS.end, Event::VcpuTotals(totals)));
    if flaws.only_long_exits {
        facts.options.threshold_ns = 20_000;
        let reasons = vec!["interrupt".into()];
        facts.options.exits = Some(ExitFilter {
            reasons,
            ..ExitFilter::default()
        });
        reported
            .retain(|(_, event)| !matches!(event, Event::Exit(it) if it.exit.dur_ns() < 20_000));
    }
    write(path, &facts, reported, HOST_NS, |at_ns| {
        let anchor = Anchor {
            before_tsc: at_ns,
            mono_ns: at_ns - HOST_BOOT_NS,
            after_tsc: at_ns + 30,
        };
        vec![Event::Anchor(anchor)]
    });
}

/// Writes the guest's recording: gaps of its CPU 0, each a little longer than its exit.
pub fn write_guest(path: &Path) {
    write_guest_of(path, |_| {});
}

/// Writes the same recording for another machine.
pub fn write_guest_of(path: &Path, change: impl FnOnce(&mut HostFacts)) {
    let mut facts = facts(MeasuringCommand::Osnoise);
    facts.host.kernel = "6.12.9-guest".into();
    facts.host.hypervisor = Some("KVM".into());
    facts.host.apic_ids = vec![(0, 0)];
    change(&mut facts.host);
    facts.witnesses.kvm_exit = false;
    facts.witnesses.kvm_run = false;
    let observed = exits().map(|(at_ns, is_long)| {
        let end_ns = at_ns + exit_ns(is_long) + 300;
        let gap = Gap {
            cpu: 0,
            start_tsc: guest_tsc(at_ns - 200),
            end_tsc: guest_tsc(end_ns),
            steal_ns: 0,
            reloads: 0,
            light_exits: 0,
            heavy_exits: 0,
            interference: None,
            run_delay_ns: 0,
        };
        (end_ns, Event::Gap(gap))
    });
    let observed = observed.filter(|(end_ns, _)| GUEST_NS.contains(&(end_ns - 100_000)));
    write(path, &facts, observed.collect(), GUEST_NS, guest_looks);
}

/// Writes another recording of the guest: a task on its CPU 0, which is late for each exit and in
/// time otherwise.
pub fn write_tasks(path: &Path) {
    let mut facts = facts(MeasuringCommand::Timerlat);
    facts.host.kernel = "6.12.9-guest".into();
    facts.host.hypervisor = Some("KVM".into());
    facts.host.apic_ids = vec![(0, 0)];
    facts.witnesses.kvm_exit = false;
    facts.witnesses.kvm_run = false;
    let mut reported = Vec::new();
    for ((at_ns, is_long), (next_ns, _)) in exits().zip(exits().skip(1)) {
        let end_ns = at_ns + exit_ns(is_long);
        reported.push(activation(at_ns - 500, end_ns));
        let between = (end_ns + 61_000..next_ns - 10_000).step_by(61_000);
        reported.extend(between.map(|at_ns| activation(at_ns, at_ns)));
    }
    reported.retain(|(end_ns, _)| GUEST_NS.contains(&(end_ns - 100_000)));
    write(path, &facts, reported, GUEST_NS, guest_looks);
}

/// Returns a wake-up that was due at `expiry_ns`, while the guest ran again only from `from_ns` on.
fn activation(expiry_ns: u64, from_ns: u64) -> (u64, Event) {
    let mono_ns = |at_ns: u64| at_ns - HOST_BOOT_NS - GUEST_BOOT_NS;
    let step = |after_ns| Some(mono_ns(from_ns + after_ns));
    let woke_ns = from_ns + 900;
    let activation = Activation {
        cpu: 0,
        expiry_mono_ns: mono_ns(expiry_ns),
        woke_mono_ns: mono_ns(woke_ns),
        armed_mono_ns: Some(mono_ns(expiry_ns - 1_000)),
        irq_mono_ns: step(200),
        waking_mono_ns: step(300),
        switch_mono_ns: step(600),
        ..Activation::default()
    };
    (woke_ns, Event::Activation(activation))
}

fn guest_looks(at_ns: u64) -> Vec<Event> {
    let anchor = Anchor {
        before_tsc: guest_tsc(at_ns),
        mono_ns: at_ns - HOST_BOOT_NS - GUEST_BOOT_NS,
        after_tsc: guest_tsc(at_ns) + 30,
    };
    let tally = CpuTally {
        cpu: 0,
        first_tsc: guest_tsc(GUEST_NS.start),
        last_tsc: guest_tsc(at_ns),
        blind_tsc: Some(0),
        ..CpuTally::default()
    };
    vec![Event::Anchor(anchor), Event::Tally(tally)]
}

fn guest_tsc(at_ns: u64) -> u64 {
    at_ns.strict_add_signed(OFFSET_TSC)
}

fn exit_ns(is_long: bool) -> u64 {
    if is_long { LONG_NS } else { 16_000 }
}

fn vcpu(id: u32, vm_name: &str) -> Event {
    Event::Vcpu(Vcpu {
        id: VcpuId(id),
        tid: 4_170 + id,
        vmm_pid: 4_160 + id,
        number: Some(0),
        vm: 1,
        vm_name: vm_name.into(),
        identity: Default::default(),
        sees_kvm: true,
    })
}

fn clock(id: u32, wrong_tsc: i64) -> Event {
    Event::VcpuClock(VcpuClock {
        vcpu: VcpuId(id),
        before_until_mono_ns: HOST_NS.start - HOST_BOOT_NS,
        from_mono_ns: HOST_NS.start - HOST_BOOT_NS,
        offset_tsc: OFFSET_TSC + wrong_tsc,
        ratio: 1 << 32,
        ratio_frac_bits: 32,
    })
}

/// Returns one exit with the host's activities in it, in the order of reporting.
fn exit(id: u32, at_ns: u64, is_long: bool) -> Vec<Event> {
    let start_mono_ns = at_ns - HOST_BOOT_NS;
    let mut events = Vec::new();
    let mut split = ShareMap::from([(Share::Kvm, exit_ns(false))]);
    if is_long {
        // Start, length, kind and source.
        let host = [
            (2_000, 11_004, ActivityKind::Irq, 0),
            (16_000, 9_895, ActivityKind::Thread, 1),
            (26_000, 411, ActivityKind::Irq, 2),
            (27_000, 20_362, ActivityKind::Thread, 3),
        ];
        for (after_ns, dur_ns, kind, source) in host {
            let (start_mono_ns, end_mono_ns) = {
                let start_ns = start_mono_ns + after_ns;
                (start_ns, start_ns + dur_ns)
            };
            let share = match kind {
                ActivityKind::Irq => &mut split[Share::HostIrq],
                _ => &mut split[Share::Preempted],
            };
            *share += dur_ns;
            if kind == ActivityKind::Thread {
                events.push(Event::VcpuInterval(VcpuInterval {
                    vcpu: VcpuId(id),
                    kind: VcpuIntervalKind::Waiting,
                    start_mono_ns,
                    end_mono_ns,
                    cpu: 3,
                    to_cpu: 3,
                    source: None,
                }));
            }
            // The two vCPUs of a pair with a twin share the CPU and its activities.
            if id == 0 {
                events.push(Event::Activity(Activity {
                    cpu: 3,
                    kind,
                    start_mono_ns,
                    end_mono_ns,
                    source: SourceId(source),
                    steal_ns: 0,
                }));
            }
        }
        split[Share::Kvm] = LONG_NS - split[Share::HostIrq] - split[Share::Preempted];
    }
    events.push(Event::Exit(VcpuExit {
        vcpu: VcpuId(id),
        exit: Exit {
            start_mono_ns,
            end_mono_ns: start_mono_ns + exit_ns(is_long),
            reason: INTERRUPT,
            exit_cpu: 3,
            entry_cpu: 3,
            heavy: false,
            split,
        },
    }));
    events
}

/// Returns the totals of a vCPU's exits.
fn totals_of(vcpu: VcpuId, reported: &[(u64, Event)]) -> VcpuTotals {
    let exits = reported.iter().filter_map(|(_, event)| match event {
        Event::Exit(reported) if reported.vcpu == vcpu => Some(reported.exit),
        _ => None,
    });
    let exits: Vec<Exit> = exits.collect();
    let mut split = ShareMap::default();
    for exit in &exits {
        split += exit.split;
    }
    let count = exits.len() as u64;
    let long = exits.iter().filter(|exit| exit.dur_ns() == LONG_NS).count() as u64;
    VcpuTotals {
        vcpu,
        first_mono_ns: HOST_NS.start - HOST_BOOT_NS,
        last_mono_ns: HOST_NS.end - HOST_BOOT_NS,
        exits: count,
        heavy: 0,
        split,
        unseen_ns: 0,
        worst: exits.iter().copied().max_by_key(Exit::dur_ns).map(Box::new),
        reasons: vec![ReasonTotals {
            reason: Some(INTERRUPT),
            count,
            heavy: 0,
            min_ns: exit_ns(false),
            max_ns: LONG_NS,
            split,
            histogram: vec![(16_383, count - long), (65_535, long)],
        }],
    }
}

/// Writes a run: the sources, then at each tick the clocks, everything that has ended by then, and
/// a watermark, with a flush from time to time.
fn write(
    path: &Path,
    facts: &RunFacts,
    mut reported: Vec<(u64, Event)>,
    run_ns: std::ops::Range<u64>,
    look: impl Fn(u64) -> Vec<Event>,
) {
    let mut writer = Writer::create(path, facts).unwrap();
    for (id, name) in (0..).zip(SOURCES) {
        let (id, name) = (SourceId(id), name.into());
        writer.push(&Event::Source(Source { id, name })).unwrap();
    }
    reported.sort_by_key(|(at_ns, _)| *at_ns);
    let mut reported = reported.into_iter().peekable();
    let mut last_mono_ns = 0;
    let ticks = (run_ns.start..=run_ns.end).step_by(TICK_NS as usize);
    for (nth, at_ns) in ticks.enumerate() {
        for event in look(at_ns) {
            if let Event::Anchor(anchor) = &event {
                last_mono_ns = anchor.mono_ns;
            }
            writer.push(&event).unwrap();
        }
        while let Some((_, event)) = reported.next_if(|(over_ns, _)| *over_ns <= at_ns) {
            writer.push(&event).unwrap();
        }
        let over_ns = last_mono_ns.saturating_sub(1_000_000);
        writer.push(&Event::Watermark(over_ns)).unwrap();
        if nth % 10 == 9 {
            writer.flush().unwrap();
        }
    }
    let finish = Finish {
        reason: FinishReason::Duration,
        mono_ns: last_mono_ns,
    };
    writer.push(&Event::Finish(finish)).unwrap();
    writer.finish().unwrap();
}

/// Returns facts of a machine without a hypervisor, on which everything is visible.
pub fn facts(workload: MeasuringCommand) -> RunFacts {
    let mut facts = fixtures::facts(workload);
    let (cpus, probe) = match workload {
        MeasuringCommand::Exits => (vec![], "exits"),
        _ => (vec![0], "interrupts"),
    };
    facts.options.cpus = cpus;
    facts.options.threshold_ns = if workload == MeasuringCommand::Osnoise {
        1_000
    } else {
        0
    };
    facts.options.top = 1;
    facts.options.timer =
        (workload == MeasuringCommand::Timerlat).then_some(fixtures::timer(61_000));
    facts.host.cpu_model = "a CPU".into();
    facts.witnesses.activity_steal = false;
    facts.witnesses.timer = false;
    facts.probe_statuses = vec![ProbeStatus {
        probe: probe.into(),
        in_use: "tp_btf".into(),
        best: true,
        limit: Default::default(),
        remedy: Default::default(),
    }];
    facts.rdtsc_cycles = 25;
    facts
}
