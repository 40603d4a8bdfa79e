//! Time that the steal clock reports in a gap and that no probe locates.

use vmnoise_events::{Activity, ActivityKind};

/// Time that the steal clock adds to the parts of one gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steal {
    /// Time of the share `steal`, in nanoseconds; at most the residual.
    pub(crate) share_ns: u64,
    /// Whether the steal clock advanced by more than the whole length of the gap.
    pub(crate) clamped: bool,
}

/// Returns the steal of a gap. Steal has no position inside a gap, so its share is taken from the
/// residual. `placed_ns` is time that the steal clock also includes but other parts already have:
/// waits of the vCPU that a probe saw, and steal inside activities. This time is subtracted.
pub(crate) fn steal(clock_ns: u64, placed_ns: u64, residual_ns: u64, dur_ns: u64) -> Steal {
    Steal {
        share_ns: clock_ns.saturating_sub(placed_ns).min(residual_ns),
        clamped: clock_ns > dur_ns,
    }
}

/// Returns the nanoseconds of `start..end` in which a probe saw the vCPU wait for its CPU. The
/// result includes host interrupts in this time, because a host interrupt does not stop the steal
/// clock. `waits` are sorted by start, and may overlap.
pub(crate) fn witnessed_waiting_ns(
    start_ns: u64,
    end_ns: u64,
    waits: impl IntoIterator<Item = (u64, u64)>,
) -> u64 {
    let mut counted_to_ns = start_ns;
    let mut waiting_ns = 0;
    for (from_ns, to_ns) in waits {
        let (from_ns, to_ns) = (from_ns.max(counted_to_ns), to_ns.min(end_ns));
        if from_ns < to_ns {
            waiting_ns += to_ns - from_ns;
            counted_to_ns = to_ns;
        }
    }
    waiting_ns
}

/// Returns the start and end of the activities on a microVM's host during which its vCPU waits.
pub(crate) fn waits_of(activities: &[Activity]) -> impl Iterator<Item = (u64, u64)> {
    let waits = |it: &&Activity| matches!(it.kind, ActivityKind::Thread | ActivityKind::Throttled);
    let waits = activities.iter().filter(waits);
    waits.map(|it| (it.start_mono_ns, it.end_mono_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::SourceId;

    fn activity(kind: ActivityKind, start_mono_ns: u64, end_mono_ns: u64) -> Activity {
        Activity {
            cpu: 0,
            kind,
            start_mono_ns,
            end_mono_ns,
            source: SourceId(0),
            steal_ns: 0,
        }
    }

    #[test]
    fn only_what_no_task_explains_is_stolen() {
        assert_eq!(steal(100, 70, 500, 1000).share_ns, 30);
        assert_eq!(steal(100, 170, 500, 1000).share_ns, 0);
        assert_eq!(
            steal(900, 0, 500, 1000),
            Steal {
                share_ns: 500,
                clamped: false
            }
        );
        assert_eq!(
            steal(1001, 0, 500, 1000),
            Steal {
                share_ns: 500,
                clamped: true
            }
        );
    }

    #[test]
    fn waiting_is_a_union_and_gross_of_interrupts() {
        let activities = [
            activity(ActivityKind::Thread, 0, 30),
            activity(ActivityKind::Irq, 12, 18),
            activity(ActivityKind::Throttled, 20, 40),
            activity(ActivityKind::Thread, 35, 38),
            activity(ActivityKind::Blocked, 50, 60),
            activity(ActivityKind::Thread, 90, 900),
        ];
        assert_eq!(witnessed_waiting_ns(10, 100, waits_of(&activities)), 40);
    }
}
