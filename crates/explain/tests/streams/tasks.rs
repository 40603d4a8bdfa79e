//! Pairs of recordings whose guest has tasks that wake up, instead of a workload that polls.

pub use vmnoise_events::fixtures::by_hand::{PERIOD_NS, of_tasks};
use vmnoise_events::{Activation, Event};

use super::clocks::Dice;
use super::lives::Life;
use super::pairs::{RecordedPair, RecordingPlan};

const US: u64 = 1_000;
/// Records the pair of this plan, with a task on each CPU of the guest. Each task wakes up at
/// random times, and runs only while its vCPU runs.
pub fn with_tasks(plan: &RecordingPlan) -> RecordedPair {
    let mut pair = plan.record();
    pair.guest_facts = of_tasks(pair.guest_facts);
    pair.guest.retain(|event| !matches!(event, Event::Gap(_)));
    let end = pair.guest.pop();
    for (cpu, life) in (0..).zip(pair.lives.iter().take(plan.apic_ids.len())) {
        pair.guest.extend(wakeups(plan, cpu, life));
    }
    pair.guest.extend(end);
    pair
}

fn wakeups(plan: &RecordingPlan, cpu: u32, life: &Life) -> Vec<Event> {
    const STEP_NS: u64 = 3 * US;
    let mut dice = Dice(plan.seed ^ u64::from(cpu) << 40);
    let mut wakeups = Vec::new();
    let mut out = life
        .away
        .iter()
        .chain(&life.exits)
        .copied()
        .collect::<Vec<_>>();
    out.sort_unstable_by_key(|span| span.start_ns);
    let mut out = &out[..];
    let mut at_ns = plan.guest.0;
    while at_ns < plan.guest.1 {
        let planned_ns = at_ns;
        while let Some((first, later)) = out.split_first()
            && first.end_ns <= at_ns
        {
            out = later;
        }
        // The task waits until its vCPU runs for long enough to take all steps of the wake-up.
        for span in out {
            if span.start_ns >= at_ns + 5 * STEP_NS {
                break;
            }
            if span.end_ns > at_ns {
                at_ns = span.end_ns + US;
            }
        }
        let is_stopped = plan.clocks.is_stopped(planned_ns, at_ns + 5 * STEP_NS);
        if !is_stopped && at_ns + 5 * STEP_NS < plan.guest.1 {
            let step = |number: u64| plan.clocks.guest_mono_ns(at_ns + number * STEP_NS);
            wakeups.push(Event::Activation(Activation {
                cpu,
                expiry_mono_ns: plan.clocks.guest_mono_ns(planned_ns),
                irq_mono_ns: Some(step(1)),
                waking_mono_ns: Some(step(2)),
                switch_mono_ns: Some(step(3)),
                woke_mono_ns: step(4),
                ..Activation::default()
            }));
        }
        at_ns += 200 * US + dice.roll(0, 1_000 * US);
    }
    wakeups
}
