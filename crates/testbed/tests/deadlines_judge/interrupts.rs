//! Times for which interrupts had a CPU.

use vmnoise_events::Activity;

/// Windows in which interrupts ran, CLOCK_MONOTONIC in nanoseconds. The windows do not touch.
#[derive(Debug)]
pub struct Interrupts {
    begins_ns: Vec<u64>,
    ends_ns: Vec<u64>,
    /// For each window, the sum of the lengths of all windows before it.
    before_ns: Vec<u64>,
}

impl Interrupts {
    /// Merges the times of these activities. The activities must be sorted by their starts, and may
    /// overlap and nest.
    pub fn new(activities: &[Activity]) -> Interrupts {
        let mut merged = Interrupts {
            begins_ns: Vec::new(),
            ends_ns: Vec::new(),
            before_ns: Vec::new(),
        };
        let mut all_ns = 0;
        for activity in activities {
            let (begin_ns, end_ns) = (activity.start_mono_ns, activity.end_mono_ns);
            match merged.ends_ns.last_mut() {
                Some(last_ns) if begin_ns <= *last_ns => {
                    all_ns += end_ns.saturating_sub(*last_ns);
                    *last_ns = end_ns.max(*last_ns);
                }
                _ if begin_ns < end_ns => {
                    merged.begins_ns.push(begin_ns);
                    merged.ends_ns.push(end_ns);
                    merged.before_ns.push(all_ns);
                    all_ns += end_ns - begin_ns;
                }
                _ => {}
            }
        }
        merged
    }

    /// Returns how much of the window from `from_ns` to `to_ns` is without interrupts, nanoseconds.
    pub fn without_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        (to_ns - from_ns) - (self.until_ns(to_ns) - self.until_ns(from_ns))
    }

    /// Returns the total length of all interrupts until `now_ns`, nanoseconds.
    fn until_ns(&self, now_ns: u64) -> u64 {
        let begun = self.begins_ns.partition_point(|it| *it < now_ns);
        begun.checked_sub(1).map_or(0, |last| {
            self.before_ns[last] + now_ns.min(self.ends_ns[last]) - self.begins_ns[last]
        })
    }
}

#[test]
fn a_stretch_is_left_what_no_interrupt_had() {
    use vmnoise_events::{ActivityKind, SourceId};
    let interrupt = |(start_mono_ns, end_mono_ns)| Activity {
        cpu: 0,
        kind: ActivityKind::Irq,
        start_mono_ns,
        end_mono_ns,
        source: SourceId(0),
        steal_ns: 0,
    };
    // The second is nested, the third overlaps, the fourth touches, and the fifth ends before its
    // start.
    let all = [(10, 20), (12, 15), (18, 25), (25, 30), (40, 39), (50, 60)].map(interrupt);
    let interrupts = Interrupts::new(&all);
    for (from_ns, to_ns, left_ns) in [
        (0, 10, 10),
        (0, 100, 70),
        (15, 28, 0),
        (28, 52, 20),
        (30, 50, 20),
        (55, 70, 10),
    ] {
        assert_eq!(interrupts.without_ns(from_ns, to_ns), left_ns);
    }
}
