//! CPU from which time is taken, and recordings of it. The truth is known before the recording.

use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

use crate::join_pair::facts;

pub const CPU: u32 = 1;
pub const LENGTH_NS: u64 = 2_000_000_000;
/// Period in which the CPU is taken.
pub const EVERY_NS: u64 = 4_000_000;
/// Time for which it is taken in each period.
pub const TAKEN_NS: u64 = 1_900_000;
/// Delay after the timer.
pub const AFTER_NS: u64 = 1_500_000;
/// Time that the timer takes.
const TICK_NS: u64 = 5_000;
const BEGIN_NS: u64 = 1_000_000_000;
const DRAIN_NS: u64 = 20_000_000;

/// Culprit that takes the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Task at SCHED_FIFO 30.
    Task,
    /// Hypervisor without a steal clock.
    Hypervisor,
    /// Hypervisor with a steal clock.
    Host,
}

/// True state of the CPU: the timer, and a culprit from some instant on.
#[derive(Debug, Clone, Copy)]
pub struct BlindWorld {
    pub by: By,
    pub from_ns: u64,
}

impl BlindWorld {
    /// Returns the times at which the culprit has the CPU, since the beginning of the run.
    fn taken(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let from_ns = self.from_ns;
        let periods = (0..LENGTH_NS / EVERY_NS).map(|nth| nth * EVERY_NS + AFTER_NS);
        let begins = periods.filter(move |begin_ns| *begin_ns >= from_ns);
        begins.map(|begin_ns| (begin_ns, begin_ns + TAKEN_NS))
    }

    /// Returns the part of the run that the culprit takes, from 0 to 1.
    pub fn taken_part(&self) -> f64 {
        let ns: u64 = self.taken().map(|(begin, end)| end - begin).sum();
        ns as f64 / LENGTH_NS as f64
    }
}

/// Information that a recording hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HiddenPart {
    #[default]
    Nothing,
    /// Gaps of the culprit.
    Gaps,
    /// Culprits of the gaps.
    Owners,
    /// Advance of the steal clock.
    Steal,
    /// Everything from here on: the recorder was killed.
    End(u64),
    /// Everything from here on: the clock goes back.
    Clock(u64),
    /// Rest of each period, after this time.
    AllBut(u64),
}

/// Writes a recording of this world by a recorder with these facts.
pub fn record(
    path: &Path,
    world: BlindWorld,
    hides: HiddenPart,
    lost: Option<Loss>,
    change: impl FnOnce(&mut RunFacts),
) {
    let mut facts = facts(MeasuringCommand::Osnoise);
    facts.options.cpus = vec![CPU];
    facts.options.duration_ns = LENGTH_NS;
    facts.options.period_ns = EVERY_NS;
    if world.by != By::Task {
        facts.host.hypervisor = Some("KVM".into());
    }
    facts.host.settings = Some(settings());
    change(&mut facts);
    let mut writer = Writer::create(path, &facts).unwrap();
    let mut push = |event: Event| writer.push(&event).unwrap();
    for (id, name) in [(0, "local_timer:236"), (1, "hog:77")] {
        let id = SourceId(id);
        let name = name.into();
        push(Event::Source(Source { id, name }));
    }
    let observed = observed(world, hides, &facts);
    let mut observed = observed.into_iter().peekable();
    let end_ns = match hides {
        HiddenPart::End(ns) => ns,
        _ => LENGTH_NS,
    };
    for now_ns in (0..=end_ns).step_by(DRAIN_NS as usize) {
        let went_back = matches!(hides, HiddenPart::Clock(ns) if now_ns > ns);
        let tsc = match went_back {
            true => 1,
            false => BEGIN_NS + now_ns,
        };
        push(Event::Anchor(Anchor {
            before_tsc: tsc,
            mono_ns: BEGIN_NS + now_ns,
            after_tsc: tsc,
        }));
        while let Some((_, event)) = observed.next_if(|(over_ns, _)| *over_ns <= now_ns) {
            push(event);
        }
        push(Event::Tally(CpuTally {
            cpu: CPU,
            first_tsc: BEGIN_NS,
            last_tsc: BEGIN_NS + now_ns,
            blind_tsc: Some(match hides {
                HiddenPart::AllBut(polled_ns) => now_ns / EVERY_NS * (EVERY_NS - polled_ns),
                _ => 0,
            }),
            ..CpuTally::default()
        }));
        if let Some(loss) = lost {
            push(Event::Loss(loss));
        }
        push(Event::Watermark(BEGIN_NS + now_ns));
    }
    match hides {
        HiddenPart::End(_) => writer.flush().unwrap(),
        _ => {
            let reason = FinishReason::Duration;
            let mono_ns = BEGIN_NS + end_ns;
            writer
                .push(&Event::Finish(Finish { reason, mono_ns }))
                .unwrap();
            writer.finish().unwrap();
        }
    }
}

/// Returns settings of a machine of which only its four CPUs are known.
fn settings() -> Settings {
    let mut settings = Settings::default();
    for (path, text) in [
        ("sys/devices/system/cpu/online", "0-3"),
        ("proc/sys/kernel/osrelease", "6.12.9"),
        ("sys/fs/cgroup/cpuset.cpus.isolated", ""),
    ] {
        settings.insert(path, Some(text)).unwrap();
    }
    settings
}

/// Returns gaps and activities, each with its end.
fn observed(world: BlindWorld, hides: HiddenPart, facts: &RunFacts) -> Vec<(u64, Event)> {
    let ticks = (0..LENGTH_NS / EVERY_NS).map(|nth| (nth * EVERY_NS + 1_000, TICK_NS));
    let ticks = ticks.map(|(begin_ns, ns)| (begin_ns, begin_ns + ns, Some(ActivityKind::Irq)));
    let kind = (world.by == By::Task).then_some(ActivityKind::Thread);
    let taken = world.taken().map(|(begin, end)| (begin, end, kind));
    let mut events = Vec::new();
    for (begin_ns, end_ns, kind) in ticks.chain(taken) {
        let is_tick = kind == Some(ActivityKind::Irq);
        let is_seen =
            is_tick || hides != HiddenPart::Gaps && !matches!(hides, HiddenPart::AllBut(_));
        let is_long_enough = end_ns - begin_ns >= facts.options.threshold_ns;
        if is_seen && is_long_enough && facts.workload != MeasuringCommand::Observed {
            let steals = world.by == By::Host && !is_tick && hides != HiddenPart::Steal;
            events.push((
                end_ns,
                Event::Gap(Gap {
                    cpu: CPU,
                    start_tsc: BEGIN_NS + begin_ns,
                    end_tsc: BEGIN_NS + end_ns,
                    steal_ns: if steals { TAKEN_NS } else { 0 },
                    ..fixtures::by_hand::gap(0, 0)
                }),
            ));
        }
        let shows_owner = is_tick || is_seen && hides != HiddenPart::Owners;
        if let Some(kind) = kind.filter(|_| shows_owner && facts.options.trace) {
            events.push((
                end_ns,
                Event::Activity(Activity {
                    cpu: CPU,
                    kind,
                    start_mono_ns: BEGIN_NS + begin_ns,
                    end_mono_ns: BEGIN_NS + end_ns,
                    source: SourceId(u32::from(!is_tick)),
                    steal_ns: 0,
                }),
            ));
        }
    }
    events.sort_by_key(|(over_ns, _)| *over_ns);
    events
}
