//! Tests a run on 512 CPUs that is recorded, read back and explained. Each CPU must have its own
//! events.

use std::ops::ControlFlow;

use vmnoise_events::{Activity, ActivityKind, Event, Gap, Share, SourceId};
use vmnoise_recording::{RecordingReader, Writer};

use crate::streams::{activity, anchor, explain, facts, finish, gap, parts, source};

const CPUS: u32 = 512;

/// Returns the length of the interrupt of a CPU, in ns. The lengths of all CPUs differ.
fn length(cpu: u32) -> u64 {
    1_000 + u64::from(cpu)
}

/// Returns a stream with one gap on each CPU, all at the same time. An interrupt on the CPU causes
/// the gap.
fn stream() -> Vec<Event> {
    let mut events = vec![anchor(0)];
    events.extend((0..CPUS).map(|cpu| source(cpu, &format!("eth0-{cpu}"))));
    events.extend((0..CPUS).map(|cpu| {
        match activity(ActivityKind::Irq, 5_000, 5_000 + length(cpu), cpu) {
            Event::Activity(activity) => Event::Activity(Activity { cpu, ..activity }),
            other => other,
        }
    }));
    events.extend((0..CPUS).map(|cpu| {
        let gap = gap(5_000, 5_000 + length(cpu));
        Event::Gap(Gap { cpu, ..gap })
    }));
    events.extend([Event::Watermark(1_000_000), anchor(1_000_000), finish()]);
    events
}

#[test]
fn each_of_512_cpus_has_its_own() {
    let mut facts = facts();
    facts.options.cpus = (0..CPUS).collect();
    facts.host.allowed_cpus = (0..CPUS).collect();
    let mut writer = Writer::new(Vec::new(), &facts).unwrap();
    for event in &stream() {
        writer.push(event).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.facts(), &facts);
    let mut events = Vec::new();
    while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    assert_eq!(events, stream());

    let (mut budgets, summary) = explain(&facts, &events);
    budgets.sort_by_key(|budget| budget.cpu);
    assert_eq!(budgets.len(), CPUS as usize);
    assert_eq!(summary.cpus.len(), CPUS as usize);
    for (cpu, (budget, of_cpu)) in (0..CPUS).zip(budgets.iter().zip(&summary.cpus)) {
        assert_eq!((budget.cpu, of_cpu.cpu), (cpu, cpu));
        let irq = (Share::HostIrq, Some(SourceId(cpu).0), length(cpu));
        assert_eq!(parts(budget), [irq]);
        let mut shares = of_cpu.shares_ns.iter();
        assert!(shares.any(|(share, ns)| share == Share::HostIrq && ns == Some(length(cpu))));
    }
    // The longest gaps are those of the last CPUs.
    let worst: Vec<u32> = summary.worst.iter().map(|gap| gap.cpu).collect();
    assert_eq!(worst, [511, 510, 509]);
}
