//! Computes when a thread polls and when it pauses: one runtime in every period. The begins of the
//! periods are fixed.

use vmnoise_events::Anchor;

use crate::tsc;

/// Periods of one thread. Events in one period never shift the next period.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Begin of the first period, in TSC cycles.
    pub origin_tsc: u64,
    /// Duration of a period, in TSC cycles; not 0.
    pub period_tsc: u64,
    /// Time for which the thread polls in each period, in TSC cycles. It begins at the begin of the
    /// period, or at a late wake-up. It is at most a whole period.
    pub runtime_tsc: u64,
}

impl Schedule {
    /// Returns the time at which polling ends in the period that begins at `start_tsc`. The thread
    /// polls from `now_tsc` on.
    pub fn end_tsc(&self, start_tsc: u64, now_tsc: u64) -> u64 {
        let runtime_over_tsc = now_tsc.saturating_add(self.runtime_tsc);
        runtime_over_tsc.min(start_tsc.saturating_add(self.period_tsc))
    }

    /// Returns the begin of the next period after the period that began at `start_tsc`. Periods
    /// that are over at `now_tsc` are skipped. The begin is in the past if a gap reached into the
    /// period.
    pub fn next_start_tsc(&self, start_tsc: u64, now_tsc: u64) -> u64 {
        let since_tsc = now_tsc.saturating_sub(self.origin_tsc);
        let current_tsc = now_tsc.saturating_sub(since_tsc % self.period_tsc);
        start_tsc.saturating_add(self.period_tsc).max(current_tsc)
    }
}

/// Returns the time of CLOCK_MONOTONIC at `target_tsc`, in nanoseconds. `target_tsc` must not be
/// before `now`. The function uses the rate between the two anchors. If this rate is still unknown,
/// it returns the time of `now`.
pub fn mono_ns_at(target_tsc: u64, origin: &Anchor, now: &Anchor) -> u64 {
    let now_tsc = tsc::middle(now);
    let elapsed_tsc = now_tsc.saturating_sub(tsc::middle(origin));
    let elapsed_ns = now.mono_ns.saturating_sub(origin.mono_ns);
    let ahead_tsc = target_tsc.saturating_sub(now_tsc);
    let ahead_ns = u128::from(ahead_tsc) * u128::from(elapsed_ns) / u128::from(elapsed_tsc.max(1));
    now.mono_ns
        .saturating_add(u64::try_from(ahead_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule {
        origin_tsc: 5_000,
        period_tsc: 1_000,
        runtime_tsc: 300,
    };

    #[test]
    fn a_runtime_is_polled_in_each_period() {
        assert_eq!(SCHEDULE.end_tsc(6_000, 6_000), 6_300);
        assert_eq!(SCHEDULE.next_start_tsc(6_000, 6_300), 7_000);
    }

    #[test]
    fn a_late_wake_up_costs_no_runtime_but_keeps_the_grid() {
        assert_eq!(SCHEDULE.end_tsc(6_000, 6_500), 6_800);
        assert_eq!(SCHEDULE.next_start_tsc(6_000, 6_800), 7_000);
        assert_eq!(SCHEDULE.end_tsc(6_000, 6_900), 7_000, "until the next one");
        assert_eq!(SCHEDULE.end_tsc(6_000, 7_200), 7_000, "it is over");
    }

    #[test]
    fn a_gap_into_the_next_period_is_followed_by_the_rest_of_it() {
        assert_eq!(SCHEDULE.next_start_tsc(6_000, 7_200), 7_000);
        assert_eq!(SCHEDULE.next_start_tsc(6_000, 9_999), 9_000);
    }

    #[test]
    fn without_a_pause_the_periods_touch() {
        let always = Schedule {
            runtime_tsc: 1_000,
            ..SCHEDULE
        };
        assert_eq!(always.end_tsc(6_000, 6_010), 7_000);
        assert_eq!(always.next_start_tsc(6_000, 7_000), 7_000);
    }

    #[test]
    fn a_period_without_end_is_the_only_one() {
        let endless = Schedule {
            period_tsc: u64::MAX,
            runtime_tsc: u64::MAX,
            ..SCHEDULE
        };
        assert_eq!(endless.end_tsc(5_000, 1 << 62), u64::MAX);
        assert_eq!(endless.next_start_tsc(5_000, 1 << 62), u64::MAX);
    }

    fn anchor(tsc: u64, mono_ns: u64) -> Anchor {
        Anchor {
            before_tsc: tsc - 10,
            mono_ns,
            after_tsc: tsc + 10,
        }
    }

    #[test]
    fn the_rate_so_far_reports_the_time_ahead() {
        let (origin, now) = (anchor(1_000, 7_000_000), anchor(3_001_000, 8_000_000));
        assert_eq!(mono_ns_at(3_301_000, &origin, &now), 8_100_000);
        assert_eq!(mono_ns_at(3_001_000, &origin, &now), 8_000_000);
        assert_eq!(mono_ns_at(2_000_000, &origin, &now), 8_000_000, "is over");
        assert_eq!(mono_ns_at(9_000_000, &now, &now), 8_000_000, "no rate yet");
        // The anchors are 30 days apart at 3 GHz, and the target is another 30 days later.
        let month = 30 * 86_400 * 1_000_000_000;
        let now = anchor(1_000 + 3 * month, 7_000_000 + month);
        let target_tsc = 1_000 + 6 * month;
        assert_eq!(mono_ns_at(target_tsc, &origin, &now), 7_000_000 + 2 * month);
    }
}
