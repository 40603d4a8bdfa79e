//! When to poll and when to pause: a runtime in every period, on a fixed grid.

use vmnoise_events::Anchor;

use crate::tsc;

/// The grid of one thread's periods. No period is shifted by what happened in the
/// one before.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Begin of the first period.
    pub origin_tsc: u64,
    /// Not 0.
    pub period_tsc: u64,
    /// The polled beginning of each period; at most all of it.
    pub runtime_tsc: u64,
}

/// A stretch to poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start_tsc: u64,
    pub end_tsc: u64,
}

impl Schedule {
    /// The window that is open at `now_tsc`, else the next one. A gap that reached
    /// into a window leaves the rest of it.
    pub fn window(&self, now_tsc: u64) -> Window {
        let since = now_tsc.saturating_sub(self.origin_tsc);
        let into_period = since % self.period_tsc;
        let mut start_tsc = self.origin_tsc.saturating_add(since - into_period);
        if into_period >= self.runtime_tsc {
            start_tsc = start_tsc.saturating_add(self.period_tsc);
        }
        Window {
            start_tsc,
            end_tsc: start_tsc.saturating_add(self.runtime_tsc),
        }
    }
}

/// CLOCK_MONOTONIC at `target_tsc`, which lies after `now`, by the rate between the
/// two anchors. Where that is still unknown the answer is "now".
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
    fn a_window_opens_with_each_period() {
        for (now_tsc, start_tsc) in [
            (5_000, 5_000),
            (5_299, 5_000),
            (5_300, 6_000),
            (5_999, 6_000),
            (6_000, 6_000),
            (8_100, 8_000),
            (8_700, 9_000),
            (4_000, 5_000),
        ] {
            let end_tsc = start_tsc + 300;
            assert_eq!(
                SCHEDULE.window(now_tsc),
                Window { start_tsc, end_tsc },
                "{now_tsc}"
            );
        }
    }

    #[test]
    fn without_a_pause_the_windows_touch() {
        let always = Schedule {
            runtime_tsc: 1_000,
            ..SCHEDULE
        };
        assert_eq!(always.window(5_999).end_tsc, 6_000);
        assert_eq!(always.window(6_000).start_tsc, 6_000);
    }

    #[test]
    fn a_period_without_end_has_one_window() {
        let endless = Schedule {
            period_tsc: u64::MAX,
            runtime_tsc: u64::MAX,
            ..SCHEDULE
        };
        let window = endless.window(1 << 62);
        assert_eq!((window.start_tsc, window.end_tsc), (5_000, u64::MAX));
    }

    fn anchor(tsc: u64, mono_ns: u64) -> Anchor {
        Anchor {
            before_tsc: tsc - 10,
            mono_ns,
            after_tsc: tsc + 10,
        }
    }

    #[test]
    fn the_rate_so_far_tells_the_time_ahead() {
        let (origin, now) = (anchor(1_000, 7_000_000), anchor(3_001_000, 8_000_000));
        assert_eq!(mono_ns_at(3_301_000, &origin, &now), 8_100_000);
        assert_eq!(mono_ns_at(3_001_000, &origin, &now), 8_000_000);
        assert_eq!(mono_ns_at(2_000_000, &origin, &now), 8_000_000, "is over");
        assert_eq!(mono_ns_at(9_000_000, &now, &now), 8_000_000, "no rate yet");
        // 30 days at 3 GHz, and a target as far ahead.
        let month = 30 * 86_400 * 1_000_000_000;
        let now = anchor(1_000 + 3 * month, 7_000_000 + month);
        let target_tsc = 1_000 + 6 * month;
        assert_eq!(mono_ns_at(target_tsc, &origin, &now), 7_000_000 + 2 * month);
    }
}
