//! A pair with two CPUs, of which the second loses time first.

use super::*;

/// For each CPU of the guest: its number, the beginning of its first exit after that of the
/// recording, and the delay of its thread's first clock reading after the other thread's.
const CPUS: [(u32, u64, u64); 2] = [(0, 138_900_000, 0), (1, 8_700_000, 3_000)];

/// Returns the beginning and length of each exit of a vCPU; all lengths differ.
fn exits(cpu: u32) -> impl Iterator<Item = (u64, u64)> {
    let (_, lag_ns, _) = CPUS[cpu as usize];
    let cpu = u64::from(cpu);
    // Irregular, so that no other offset fits as well.
    let exits = (0..400).map(move |nth| {
        let jitter_ns = (nth * nth * 7_919 + cpu * 333_667) % 1_700_000;
        let at_ns = GUEST_NS.start + lag_ns + nth * 2_900_000 + jitter_ns * u64::from(nth > 0);
        (at_ns, 60_000 - 26 * nth - 13 * cpu)
    });
    exits.take_while(|(at_ns, _)| at_ns + 1_000_000 < GUEST_NS.end)
}

/// Writes the host's recording: exits of both vCPUs of the VM `web`.
pub fn write_host(path: &Path) {
    let mut facts = facts(MeasuringCommand::Exits);
    facts.options.exits = Some(ExitFilter::default());
    facts.host.kernel = "6.2.0-rt3-host".into();
    let mut reported = Vec::new();
    for (cpu, ..) in CPUS {
        let Event::Vcpu(of_first) = vcpu(0, "web") else {
            unreachable!()
        };
        let vcpu = Vcpu {
            id: VcpuId(cpu),
            tid: of_first.tid + cpu,
            number: Some(cpu),
            ..of_first
        };
        reported.extend([(0, Event::Vcpu(vcpu)), (0, clock(cpu, 0))]);
        let of_vcpu: Vec<(u64, Event)> = exits(cpu).map(|exit| host_exit(cpu, exit)).collect();
        let totals = Event::VcpuTotals(totals_of(VcpuId(cpu), &of_vcpu));
        reported.extend(of_vcpu);
        reported.push((HOST_NS.end, totals));
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

/// Writes the guest's recording: a gap around each exit.
pub fn write_guest(path: &Path) {
    write_guest_of(path, true);
}

/// Writes the same recording without the times of the threads' first clock readings.
pub fn write_guest_without_readings(path: &Path) {
    write_guest_of(path, false);
}

fn write_guest_of(path: &Path, has_readings: bool) {
    let mut facts = facts(MeasuringCommand::Osnoise);
    facts.options.cpus = CPUS.map(|(cpu, ..)| cpu).to_vec();
    facts.host.kernel = "6.12.9-guest".into();
    facts.host.hypervisor = Some("KVM".into());
    facts.host.apic_ids = CPUS.map(|(cpu, ..)| (cpu, cpu)).to_vec();
    facts.witnesses.kvm_exit = false;
    facts.witnesses.kvm_run = false;
    let gaps = CPUS.into_iter().flat_map(|(cpu, ..)| {
        exits(cpu).map(move |(at_ns, dur_ns)| {
            let end_ns = at_ns + dur_ns + 300;
            let gap = Gap {
                cpu,
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
        })
    });
    write(path, &facts, gaps.collect(), GUEST_NS, |at_ns| {
        let mut events = guest_looks(at_ns);
        let Some(Event::Tally(tally)) = events.pop() else {
            unreachable!()
        };
        if !has_readings {
            return events;
        }
        let started_ns = GUEST_NS.start + 41_000;
        events.extend(CPUS.map(|(cpu, _, later_ns)| {
            let first_tsc = guest_tsc(started_ns + later_ns);
            Event::Tally(CpuTally {
                cpu,
                first_tsc,
                last_tsc: tally.last_tsc.max(first_tsc),
                ..tally
            })
        }));
        events
    });
}

fn host_exit(cpu: u32, (at_ns, dur_ns): (u64, u64)) -> (u64, Event) {
    let start_mono_ns = at_ns - HOST_BOOT_NS;
    let exit = Exit {
        start_mono_ns,
        end_mono_ns: start_mono_ns + dur_ns,
        reason: INTERRUPT,
        exit_cpu: cpu,
        entry_cpu: cpu,
        heavy: false,
        split: ShareMap::from([(Share::Kvm, dur_ns)]),
    };
    let vcpu = VcpuId(cpu);
    (at_ns + dur_ns, Event::Exit(VcpuExit { vcpu, exit }))
}
