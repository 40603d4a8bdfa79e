//! What ran when, inside the longest moments: found in a second pass over the stream.

use std::cmp::Reverse;

use vmnoise_events::{Activity, ActivityKind, Share, SourceId, Workload};

use crate::spikes::Spike;

/// Bars of one scene; of more than these the longest stay.
const BARS: usize = 150;

/// Whose kernel it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Of the machine whose time was missing.
    Guest,
    /// Of the machine below.
    Host,
}

/// Somebody, for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// Where.
    pub side: Side,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// What it is booked as where it is not covered by another.
    pub share: Share,
    /// Who; empty where nobody is named.
    pub name: String,
}

/// Takes a stream for the second time.
#[derive(Debug)]
pub struct Scenes {
    workload: Workload,
    /// CPU, begin and end of each moment and its place, in the order of CPUs and begins.
    wanted: Vec<(u32, u64, u64, usize)>,
    found: Vec<Vec<(Activity, Share)>>,
}

impl Scenes {
    /// The scenes of these moments; `cpu` says where each of them was.
    pub fn new(workload: Workload, spikes: &[Spike], cpu: impl Fn(&Spike) -> u32) -> Scenes {
        let places = spikes.iter().enumerate();
        let wanted = places.map(|(place, it)| (cpu(it), it.start_mono_ns, it.end_mono_ns(), place));
        let mut wanted: Vec<(u32, u64, u64, usize)> = wanted.collect();
        wanted.sort_unstable();
        Scenes {
            workload,
            wanted,
            found: vec![Vec::new(); spikes.len()],
        }
    }

    /// Takes the next activity.
    pub fn see(&mut self, activity: &Activity) {
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
            self.found[*place].push((inside, share_of(activity.kind, self.workload)));
        }
    }

    /// The scenes in the order in which they were asked for, each in the order of time.
    pub fn finish(self, mut name: impl FnMut(SourceId) -> String) -> Vec<Vec<Bar>> {
        let side = side_of(self.workload);
        let scenes = self.found.into_iter().map(|found| {
            let bars = found.into_iter().map(|(activity, share)| Bar {
                side,
                start_mono_ns: activity.start_mono_ns,
                dur_ns: activity.end_mono_ns.saturating_sub(activity.start_mono_ns),
                share,
                name: name(activity.source),
            });
            bars.collect()
        });
        scenes.collect()
    }
}

/// In the order of time; the shortest go where there are too many.
pub(crate) fn few(bars: &[Bar]) -> Vec<&Bar> {
    let mut bars: Vec<&Bar> = bars.iter().collect();
    bars.sort_by_key(|bar| Reverse(bar.dur_ns));
    bars.truncate(BARS);
    bars.sort_by_key(|bar| (bar.side, bar.start_mono_ns, Reverse(bar.dur_ns)));
    bars
}

/// A microVM has no kernel: what is witnessed is its host.
const fn side_of(workload: Workload) -> Side {
    match workload {
        Workload::Microvm | Workload::Vcpus => Side::Host,
        Workload::Spin | Workload::Observed | Workload::Timer => Side::Guest,
    }
}

const fn share_of(kind: ActivityKind, workload: Workload) -> Share {
    match (kind, side_of(workload)) {
        (ActivityKind::Exit, _) => Share::Kvm,
        (ActivityKind::Vmm, _) => Share::Vmm,
        (ActivityKind::Throttled, _) => Share::Throttled,
        (ActivityKind::Blocked, _) => Share::Blocked,
        (ActivityKind::Thread, Side::Host) => Share::Preempted,
        (ActivityKind::Thread, Side::Guest) => Share::Thread,
        (ActivityKind::Softirq, Side::Host) => Share::HostSoftirq,
        (ActivityKind::Softirq, Side::Guest) => Share::Softirq,
        (ActivityKind::Irq, Side::Host) => Share::HostIrq,
        (ActivityKind::Irq, Side::Guest) => Share::Irq,
        (ActivityKind::Nmi, Side::Host) => Share::HostNmi,
        (ActivityKind::Nmi, Side::Guest) => Share::Nmi,
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
        let mut scenes = Scenes::new(Workload::Spin, &spikes, |_| 3);
        for (cpu, start_mono_ns, end_mono_ns) in [
            (3, 400, 520),
            (3, 550, 1_000),
            (3, 1_020, 1_030),
            (3, 1_090, 2_000),
            (4, 1_000, 1_100),
        ] {
            scenes.see(&Activity {
                cpu,
                kind: ActivityKind::Irq,
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
        assert_eq!(times(0), [(1_020, 10), (1_090, 10)]);
        assert_eq!(times(1), [(500, 20)]);
        assert_eq!(
            (found[0][0].share, &*found[0][0].name),
            (Share::Irq, "irq 7")
        );
    }
}
