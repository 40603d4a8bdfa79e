//! Finds the activity inside the longest gaps, wake-ups or exits, in a second pass over the stream.

use std::cmp::Reverse;

use vmnoise_events::{Activity, ActivityKind, MeasuringCommand, Share, SourceId};
use vmnoise_explain::{Longest, share_of};

use crate::spikes::Spike;

/// Largest number of bars in a scene. The longest bars are kept.
const BARS: usize = 150;

/// Machine whose kernel recorded the activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelSide {
    /// The machine that lost the time.
    Guest,
    /// The host of the machine that lost the time.
    Host,
}

/// One activity inside a gap, wake-up or exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// Machine whose kernel recorded the activity.
    pub side: KernelSide,
    /// Begin of the activity, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of the activity, in nanoseconds.
    pub dur_ns: u64,
    /// Share in which the activity's time is counted, except for the time of nested activities.
    pub share: Share,
    /// Name of the source; empty if unknown.
    pub name: String,
}

/// Collects activities inside given time ranges while a stream is read for the second time.
#[derive(Debug)]
pub struct Scenes {
    workload: MeasuringCommand,
    /// CPU, begin, end (both CLOCK_MONOTONIC in nanoseconds) and index of each range, sorted by CPU
    /// and begin.
    wanted: Vec<(u32, u64, u64, usize)>,
    /// Longest activities of each range. Of activities with equal length, the earlier is kept.
    found: Vec<Longest<(u64, Reverse<u64>), Activity>>,
    seen: u64,
}

impl Scenes {
    /// Prepares a scene for each of these spikes. `cpu` returns the number of a spike's CPU.
    pub fn new(
        workload: MeasuringCommand,
        spikes: &[Spike],
        cpu: impl Fn(&Spike) -> u32,
    ) -> Scenes {
        let places = spikes.iter().enumerate();
        let wanted = places.map(|(place, it)| (cpu(it), it.start_mono_ns, it.end_mono_ns(), place));
        let mut wanted: Vec<(u32, u64, u64, usize)> = wanted.collect();
        wanted.sort_unstable();
        Scenes {
            workload,
            wanted,
            found: spikes.iter().map(|_| Longest::new(BARS)).collect(),
            seen: 0,
        }
    }

    /// Adds the next activity. A stop is ignored, because stopped time was not measured.
    pub fn see(&mut self, activity: &Activity) {
        if activity.kind == ActivityKind::Stopped {
            return;
        }
        let (cpu, start_ns, end_ns) = (activity.cpu, activity.start_mono_ns, activity.end_mono_ns);
        let first = self
            .wanted
            .partition_point(|it| (it.0, it.2) <= (cpu, start_ns));
        let overlapping = self.wanted[first..].iter();
        let overlapping = overlapping.take_while(|it| it.0 == cpu && it.1 < end_ns);
        for (_, from_ns, until_ns, place) in overlapping {
            let mut inside = *activity;
            inside.start_mono_ns = start_ns.max(*from_ns);
            inside.end_mono_ns = end_ns.min(*until_ns);
            self.seen += 1;
            let rank = (
                inside.end_mono_ns.saturating_sub(inside.start_mono_ns),
                Reverse(self.seen),
            );
            self.found[*place].see(rank, || inside);
        }
    }

    /// Returns a scene for each spike, in their order. The bars of a scene are in the order of
    /// time.
    pub fn finish(self, mut name: impl FnMut(SourceId) -> String) -> Vec<Vec<Bar>> {
        let side = side_of(self.workload);
        let scenes = self.found.into_iter().map(|found| {
            let mut found = found.into_vec();
            found.sort_by_key(|activity| (activity.start_mono_ns, activity.end_mono_ns));
            let bars = found.into_iter().map(|activity| Bar {
                side,
                start_mono_ns: activity.start_mono_ns,
                dur_ns: activity.end_mono_ns.saturating_sub(activity.start_mono_ns),
                share: share_of(self.workload, activity.kind),
                name: name(activity.source),
            });
            bars.collect()
        });
        scenes.collect()
    }
}

/// Returns the bars in the order of time. If there are too many, the shortest are left out.
pub(crate) fn few(bars: &[Bar]) -> Vec<&Bar> {
    let mut bars: Vec<&Bar> = bars.iter().collect();
    bars.sort_by_key(|bar| Reverse(bar.dur_ns));
    bars.truncate(BARS);
    bars.sort_by_key(|bar| (bar.side, bar.start_mono_ns, Reverse(bar.dur_ns)));
    bars
}

/// Returns the machine that recorded the activities. A microVM has no kernel of its own, so its
/// host recorded them.
const fn side_of(workload: MeasuringCommand) -> KernelSide {
    match workload.is_witnessed_by_host() {
        true => KernelSide::Host,
        false => KernelSide::Guest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_holds_what_overlaps_its_moment_and_no_more() {
        let spike = |start_mono_ns, dur_ns| Spike {
            lane: 0,
            start_mono_ns,
            dur_ns,
            parts: Vec::new(),
        };
        let spikes = [spike(1_000, 100), spike(500, 50)];
        let mut scenes = Scenes::new(MeasuringCommand::Osnoise, &spikes, |_| 3);
        for (kind, cpu, start_mono_ns, end_mono_ns) in [
            (ActivityKind::Irq, 3, 400, 520),
            (ActivityKind::Irq, 3, 550, 1_000),
            (ActivityKind::Irq, 3, 1_020, 1_030),
            (ActivityKind::Stopped, 3, 1_040, 1_080),
            (ActivityKind::Irq, 3, 1_090, 2_000),
            (ActivityKind::Irq, 4, 1_000, 1_100),
        ] {
            scenes.see(&Activity {
                cpu,
                kind,
                start_mono_ns,
                end_mono_ns,
                source: SourceId(7),
                steal_ns: 0,
            });
        }
        let found = scenes.finish(|id| format!("irq {}", id.0));
        let times = |place: usize| -> Vec<(u64, u64)> {
            let bars = found[place].iter();
            bars.map(|bar| (bar.start_mono_ns, bar.dur_ns)).collect()
        };
        assert_eq!(times(0), [(1_020, 10), (1_090, 10)], "and no stop");
        assert_eq!(times(1), [(500, 20)]);
        assert_eq!(
            (found[0][0].share, &*found[0][0].name),
            (Share::Irq, "irq 7")
        );
    }
}
