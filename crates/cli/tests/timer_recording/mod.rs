//! Small recording of periodic tasks on two CPUs of a guest: in time, delayed by a softirq, by a
//! task and by the hypervisor, with a step that was not seen, and so late out of idle that the run
//! ended.

use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

const BEGIN_NS: u64 = 5_000_000_000;
const PERIOD_NS: u64 = 1_000_000;
const SOURCES: [&str; 3] = ["local_timer:236", "TIMER:1", "hog:4711"];

/// Writes the recording.
pub fn write(path: &Path) {
    let mut writer = Writer::create(path, &facts()).unwrap();
    for (id, name) in (0..).zip(SOURCES) {
        let (id, name) = (SourceId(id), name.to_owned());
        writer
            .push(&Event::Source(Source {
                id,
                name: name.into(),
            }))
            .unwrap();
    }
    for event in events() {
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
}

fn events() -> Vec<Event> {
    use ActivityKind::{Irq, Softirq, Thread};

    let mut events = vec![anchor(BEGIN_NS)];
    // CPU 0: in time, twice.
    for nth in 1..=2 {
        let expiry_ns = BEGIN_NS + nth * PERIOD_NS;
        events.push(activity(0, Irq, (expiry_ns + 700, expiry_ns + 2_900), 0, 0));
        events.push(woken(0, expiry_ns, [1_000, 1_400, 4_100], 5_200 + nth));
    }
    // CPU 1: a softirq, then a task, delay it.
    let expiry_ns = BEGIN_NS + PERIOD_NS;
    events.extend([
        activity(1, Irq, (expiry_ns + 800, expiry_ns + 3_000), 0, 0),
        activity(1, Softirq, (expiry_ns - 9_000, expiry_ns + 41_000), 1, 0),
        activity(1, Thread, (expiry_ns - 80_000, expiry_ns + 43_000), 2, 0),
        woken(1, expiry_ns, [1_100, 1_500, 43_000], 44_000),
    ]);
    let expiry_ns = BEGIN_NS + 2 * PERIOD_NS;
    events.extend([
        activity(1, Irq, (expiry_ns + 800, expiry_ns + 3_000), 0, 0),
        activity(
            1,
            Thread,
            (expiry_ns - 20_000, expiry_ns + 305_000),
            2,
            4_000,
        ),
        Event::Activation(Activation {
            steal_ns: [0, 0, 0, 4_000, 0],
            ..activation(1, expiry_ns, [1_100, 1_500, 305_000], 306_100)
        }),
    ]);
    // The hypervisor delays the interrupt of CPU 0 for more than two periods.
    let expiry_ns = BEGIN_NS + 3 * PERIOD_NS;
    let late_ns = 2_400_000;
    events.extend([
        activity(
            0,
            Irq,
            (expiry_ns + late_ns, expiry_ns + late_ns + 2_200),
            0,
            0,
        ),
        Event::Activation(Activation {
            steal_ns: [0, 2_395_000, 0, 0, 0],
            ..activation(
                0,
                expiry_ns,
                [late_ns + 300, late_ns + 700, late_ns + 3_400],
                late_ns + 4_500,
            )
        }),
    ]);
    // Two periods were missed, and so was the switch of this wake-up.
    let expiry_ns = BEGIN_NS + 6 * PERIOD_NS;
    events.extend([
        activity(0, Irq, (expiry_ns + 700, expiry_ns + 2_900), 0, 0),
        Event::Activation(Activation {
            missed: 2,
            switch_mono_ns: None,
            ..activation(0, expiry_ns, [1_000, 1_400, 0], 5_300)
        }),
    ]);
    // Nothing ran on CPU 1, but the interrupt was late.
    let expiry_ns = BEGIN_NS + 7 * PERIOD_NS;
    events.extend([
        activity(1, Irq, (expiry_ns + 2_700_000, expiry_ns + 2_702_000), 0, 0),
        Event::Activation(Activation {
            steal_ns: [0, 2_600_000, 0, 0, 0],
            ..activation(1, expiry_ns, [2_700_300, 2_700_700, 2_703_500], 2_704_700)
        }),
    ]);
    let end_ns = BEGIN_NS + 10 * PERIOD_NS;
    events.push(anchor(end_ns));
    for cpu in [0, 1] {
        events.push(Event::Tally(CpuTally {
            cpu,
            first_tsc: BEGIN_NS,
            last_tsc: end_ns,
            ..CpuTally::default()
        }));
    }
    events.push(Event::Watermark(end_ns));
    events.push(Event::Finish(Finish {
        reason: FinishReason::Stop,
        mono_ns: end_ns,
    }));
    events
}

/// Returns an anchor; the TSC equals CLOCK_MONOTONIC.
fn anchor(at_ns: u64) -> Event {
    Event::Anchor(Anchor {
        before_tsc: at_ns,
        mono_ns: at_ns,
        after_tsc: at_ns,
    })
}

fn activity(
    cpu: u32,
    kind: ActivityKind,
    (start_mono_ns, end_mono_ns): (u64, u64),
    source: u32,
    steal_ns: u64,
) -> Event {
    Event::Activity(Activity {
        cpu,
        kind,
        start_mono_ns,
        end_mono_ns,
        source: SourceId(source),
        steal_ns,
    })
}

/// Returns an activation with interrupt, wake-up and switch at these times after the expiry.
fn activation(cpu: u32, expiry_ns: u64, steps_ns: [u64; 3], latency_ns: u64) -> Activation {
    let [irq, waking, switch] = steps_ns.map(|ns| Some(expiry_ns + ns));
    Activation {
        cpu,
        expiry_mono_ns: expiry_ns,
        woke_mono_ns: expiry_ns + latency_ns,
        armed_mono_ns: Some(expiry_ns - 900_000),
        irq_mono_ns: irq,
        waking_mono_ns: waking,
        switch_mono_ns: switch,
        steal_ns: [0; 5],
        missed: 0,
    }
}

fn woken(cpu: u32, expiry_ns: u64, steps_ns: [u64; 3], latency_ns: u64) -> Event {
    Event::Activation(activation(cpu, expiry_ns, steps_ns, latency_ns))
}

fn facts() -> RunFacts {
    let mut facts = fixtures::facts(MeasuringCommand::Timerlat);
    facts.options = RunOptions {
        cpus: vec![0, 1],
        duration_ns: 10_000_000_000,
        threshold_ns: 0,
        priority: Some(Policy::Fifo(95)),
        timer: Some(TimerOptions {
            stop_thread_ns: Some(2_500_000),
            dma_latency_us: Some(0),
            ..fixtures::timer(PERIOD_NS)
        }),
        ..facts.options
    };
    facts.host.hypervisor = Some("KVM".into());
    facts.witnesses.kvm_run = false;
    facts.witnesses.kvm_exit = false;
    facts
}
