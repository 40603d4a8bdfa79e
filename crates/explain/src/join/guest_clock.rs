//! Clocks of one vCPU's guest, in order: the relation of the guest's counter to its host's.

use vmnoise_events::{VcpuClock, VcpuId};

/// A clock, and the time for which it is known to hold, CLOCK_MONOTONIC of the host in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) from_mono_ns: u64,
    pub(super) until_mono_ns: u64,
    pub(super) clock: VcpuClock,
}

/// Maximum number of clocks of one vCPU; each start or restore of a guest makes one. Later clocks
/// are unknown.
const MOST: usize = 64;

/// Clocks of one vCPU, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct GuestClock(Vec<Held>);

impl GuestClock {
    /// Returns the clock of our own microVM: its gaps are reported on the host's counter.
    pub(super) fn of_host(vcpu: VcpuId) -> GuestClock {
        let mut own = GuestClock::default();
        own.add(&VcpuClock {
            vcpu,
            before_until_mono_ns: 0,
            from_mono_ns: 0,
            offset_tsc: 0,
            ratio: 1,
            ratio_frac_bits: 0,
        });
        own
    }

    /// Takes the next clock. A clock equal to the last one continues it; an impossible ratio is
    /// ignored.
    pub(super) fn add(&mut self, clock: &VcpuClock) {
        if clock.ratio == 0 || u32::from(clock.ratio_frac_bits) >= u64::BITS {
            return;
        }
        let from_mono_ns = match self.0.last_mut() {
            // Nothing shows that another clock held before.
            None if clock.before_until_mono_ns == clock.from_mono_ns => 0,
            None => clock.from_mono_ns,
            Some(last) if is_same(&last.clock, clock) => return,
            Some(last) => {
                last.until_mono_ns = clock.before_until_mono_ns;
                clock.from_mono_ns
            }
        };
        if self.0.len() == MOST {
            return;
        }
        self.0.push(Held {
            from_mono_ns,
            until_mono_ns: u64::MAX,
            clock: *clock,
        });
    }

    pub(super) fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns whether the last clocks of both are equal.
    pub(super) fn is_like(&self, other: &GuestClock) -> bool {
        let ends = self.0.last().zip(other.0.last());
        ends.is_some_and(|(one, other)| is_same(&one.clock, &other.clock))
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Held)> {
        self.0.iter().enumerate()
    }

    /// Returns the number of the clock in force at this time, and the clock.
    pub(super) fn at(&self, mono_ns: u64) -> Option<(usize, &VcpuClock)> {
        let after = self.0.partition_point(|held| held.from_mono_ns <= mono_ns);
        let place = after.checked_sub(1)?;
        let held = &self.0[place];
        (mono_ns <= held.until_mono_ns).then_some((place, &held.clock))
    }
}

fn is_same(a: &VcpuClock, b: &VcpuClock) -> bool {
    let of = |clock: &VcpuClock| (clock.offset_tsc, clock.ratio, clock.ratio_frac_bits);
    of(a) == of(b)
}

/// Returns the host's counter at the time when the guest's counter first had this value; `None` if
/// that never happened.
pub(super) fn host_tsc(clock: &VcpuClock, guest_tsc: u64) -> Option<u64> {
    let scaled = i128::from(guest_tsc) - i128::from(clock.offset_tsc);
    let unit = 1_u128.checked_shl(clock.ratio_frac_bits.into())?;
    let whole = u128::try_from(scaled).ok()?.checked_mul(unit)?;
    u64::try_from(whole.div_ceil(clock.ratio.into())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(before_until_mono_ns: u64, from_mono_ns: u64, offset_tsc: i64) -> VcpuClock {
        VcpuClock {
            vcpu: VcpuId(0),
            before_until_mono_ns,
            from_mono_ns,
            offset_tsc,
            ratio: 3 << 31,
            ratio_frac_bits: 32,
        }
    }

    #[test]
    fn between_two_clocks_none_is_known() {
        let mut clocks = GuestClock::default();
        clocks.add(&clock(500, 500, -7));
        clocks.add(&clock(600, 650, -7));
        clocks.add(&clock(700, 750, -9));
        let offset = |at| Some(clocks.at(at)?.1.offset_tsc);
        assert_eq!(offset(0), Some(-7), "it held before it was first read");
        assert_eq!(offset(620), Some(-7), "nothing changed");
        assert_eq!(offset(700), Some(-7));
        assert_eq!(offset(701), None);
        assert_eq!(offset(749), None);
        assert_eq!(offset(750), Some(-9));
    }

    #[test]
    fn a_first_clock_that_was_seen_being_made_did_not_hold_before() {
        let mut clocks = GuestClock::default();
        clocks.add(&clock(0, 500, -7));
        assert!(clocks.at(499).is_none() && clocks.at(500).is_some());
    }

    #[test]
    fn no_counter_follows_an_impossible_ratio() {
        let mut clocks = GuestClock::default();
        clocks.add(&VcpuClock {
            ratio: 0,
            ..clock(0, 0, 0)
        });
        clocks.add(&VcpuClock {
            ratio_frac_bits: 64,
            ..clock(0, 0, 0)
        });
        assert!(!clocks.is_known());
    }

    #[test]
    fn a_counter_is_found_again() {
        for offset_tsc in [-1_000_000, 0, 1_000_000, i64::MAX - 1_000_000] {
            let clock = clock(0, 0, offset_tsc);
            for host in [700_000, 700_001, 700_002, 700_003] {
                let guest = clock.guest_tsc(host).unwrap();
                let found = super::host_tsc(&clock, guest).unwrap();
                assert!(found <= host && clock.guest_tsc(found) == Some(guest));
            }
        }
        assert_eq!(host_tsc(&clock(0, 0, 100), 99), None);
    }
}
