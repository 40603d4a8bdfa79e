//! Finds the offset between the guest's TSC and the host's TSC from brackets. A bracket is a host
//! reading, then a guest reading, then a host reading.

use vmnoise_events::OffsetProof;

/// A guest reading between two readings of the host on the same CPU.
#[derive(Debug, Clone, Copy)]
pub struct Bracket {
    pub before_tsc: u64,
    pub guest_tsc: u64,
    pub after_tsc: u64,
}

/// Known facts about the guest's clock. The fields have the same meaning as in
/// [`vmnoise_events::ClockFacts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestClock {
    /// Evidence for the offset; `None` if the brackets contradict each other. In that case the
    /// guest's clock does not run at the rate of the host's clock, and the bound is valid only for
    /// the past.
    pub offset_proof: Option<OffsetProof>,
    /// TSC of the host minus TSC of the guest, in cycles. vmnoise applies this offset to all gaps.
    pub offset_tsc: i64,
    /// Bound of the error of `offset_tsc`, in cycles; 0 if the offset was set and all brackets
    /// allow it.
    pub offset_bound_tsc: u64,
    /// Half of the width of the narrowest bracket, in cycles.
    pub bracket_tsc: u64,
}

impl GuestClock {
    /// Value before the first bracket was measured.
    pub(super) const UNKNOWN: GuestClock = GuestClock {
        offset_proof: None,
        offset_tsc: 0,
        offset_bound_tsc: u64::MAX,
        bracket_tsc: u64::MAX,
    };

    /// Converts a reading of the guest's TSC to the host's TSC.
    pub(super) fn to_host(self, guest_tsc: u64) -> u64 {
        guest_tsc.wrapping_add_signed(self.offset_tsc)
    }

    /// Converts a reading of the host's TSC to the guest's TSC. Returns 0 if the guest's TSC was
    /// not yet 0.
    pub(super) fn to_guest(self, host_tsc: u64) -> u64 {
        let guest_tsc = i128::from(host_tsc) - i128::from(self.offset_tsc);
        u64::try_from(guest_tsc.max(0)).unwrap_or(u64::MAX)
    }
}

impl Bracket {
    /// Returns the smallest and the largest offset (host minus guest) that this bracket allows.
    fn offsets(&self) -> (i64, i64) {
        (
            self.before_tsc.wrapping_sub(self.guest_tsc).cast_signed(),
            self.after_tsc.wrapping_sub(self.guest_tsc).cast_signed(),
        )
    }

    fn half_width(&self) -> u64 {
        self.after_tsc.wrapping_sub(self.before_tsc).div_ceil(2)
    }
}

/// Computes the offset from the brackets of one vCPU.
///
/// If KVM `accepted` the offset 0 and every bracket allows it, the offset is 0. Otherwise the
/// offset is the middle of the range that all brackets allow, and its bound is half of this range.
///
/// # Panics
/// If there is no bracket.
pub fn judge(brackets: &[Bracket], accepted: bool) -> GuestClock {
    let tightest = brackets
        .iter()
        .min_by_key(|bracket| bracket.half_width())
        .expect("the caller makes brackets before it judges them");
    let offsets = || brackets.iter().map(Bracket::offsets);
    let least = offsets().map(|(low, _)| low).max().unwrap_or(i64::MIN);
    let greatest = offsets().map(|(_, high)| high).min().unwrap_or(i64::MAX);
    let bracket_tsc = tightest.half_width();

    if accepted && least <= 0 && 0 <= greatest {
        return GuestClock {
            offset_proof: Some(OffsetProof::SetAndBracketed),
            offset_tsc: 0,
            offset_bound_tsc: 0,
            bracket_tsc,
        };
    }
    let (proof, low, high) = if least <= greatest {
        (Some(OffsetProof::Mapped), least, greatest)
    } else {
        let (low, high) = tightest.offsets();
        (None, low, high)
    };
    let offset_tsc = low.midpoint(high);
    let farthest =
        |(low, high): (i64, i64)| offset_tsc.abs_diff(low).max(offset_tsc.abs_diff(high));
    let offset_bound_tsc = match proof {
        Some(_) => farthest((low, high)),
        None => offsets().map(farthest).max().unwrap_or(u64::MAX),
    };
    GuestClock {
        offset_proof: proof,
        offset_tsc,
        offset_bound_tsc,
        bracket_tsc,
    }
}

/// Returns one value that is valid for all vCPUs. It has the weakest evidence, the widest bounds,
/// and the offset of the first vCPU. Each gap is converted by the offset of its own vCPU.
pub fn weakest(clocks: &[GuestClock]) -> Option<GuestClock> {
    let rank = |clock: &GuestClock| match clock.offset_proof {
        None => 0,
        Some(OffsetProof::Mapped) => 1,
        Some(OffsetProof::SetAndBracketed) => 2,
    };
    Some(GuestClock {
        offset_proof: clocks.iter().min_by_key(|clock| rank(clock))?.offset_proof,
        offset_tsc: clocks.first()?.offset_tsc,
        offset_bound_tsc: clocks.iter().map(|clock| clock.offset_bound_tsc).max()?,
        bracket_tsc: clocks.iter().map(|clock| clock.bracket_tsc).max()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bracket(before: u64, after: u64, guest: u64) -> Bracket {
        Bracket {
            before_tsc: before,
            guest_tsc: guest,
            after_tsc: after,
        }
    }

    #[test]
    fn an_accepted_offset_is_proved() {
        let clock = judge(&[bracket(100, 200, 150), bracket(300, 320, 301)], true);
        assert_eq!(clock.offset_proof, Some(OffsetProof::SetAndBracketed));
        assert_eq!(
            (clock.offset_tsc, clock.offset_bound_tsc, clock.bracket_tsc),
            (0, 0, 10)
        );
    }

    #[test]
    fn a_contradicted_offset_is_mapped_although_accepted() {
        let clock = judge(
            &[bracket(1_000, 1_020, 500), bracket(2_000, 2_010, 1_495)],
            true,
        );
        assert_eq!(clock.offset_proof, Some(OffsetProof::Mapped));
        // The brackets allow offsets in [500, 520] and in [505, 515].
        assert_eq!((clock.offset_tsc, clock.offset_bound_tsc), (510, 5));
    }

    #[test]
    fn a_refused_offset_is_mapped_although_zero_would_do() {
        let clock = judge(&[bracket(100, 200, 150)], false);
        assert_eq!(clock.offset_proof, Some(OffsetProof::Mapped));
        assert_eq!((clock.offset_tsc, clock.offset_bound_tsc), (0, 50));
    }

    #[test]
    fn a_clock_that_drifts_is_not_proved() {
        let clock = judge(
            &[bracket(100, 110, 100), bracket(1_000, 1_020, 2_000)],
            false,
        );
        assert_eq!(clock.offset_proof, None);
        assert_eq!(clock.offset_tsc, 5);
        assert_eq!(clock.offset_bound_tsc, 1_005);
    }

    #[test]
    fn readings_are_mapped_both_ways() {
        let clock = GuestClock {
            offset_tsc: 1_000,
            ..GuestClock::UNKNOWN
        };
        assert_eq!((clock.to_host(5), clock.to_guest(1_005)), (1_005, 5));
        assert_eq!(
            clock.to_guest(0),
            0,
            "a deadline before the guest's zero has passed"
        );
        let ahead = GuestClock {
            offset_tsc: -1_000,
            ..GuestClock::UNKNOWN
        };
        assert_eq!((ahead.to_host(1_005), ahead.to_guest(5)), (5, 1_005));
        assert_eq!(ahead.to_guest(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_weakest_clock_speaks_for_all() {
        let set = judge(&[bracket(100, 200, 150)], true);
        let mapped = judge(&[bracket(1_000, 1_020, 500)], true);
        let both = weakest(&[set, mapped]).unwrap();
        assert_eq!(both.offset_proof, Some(OffsetProof::Mapped));
        assert_eq!(
            (both.offset_tsc, both.offset_bound_tsc, both.bracket_tsc),
            (0, 10, 50)
        );
        assert_eq!(weakest(&[]), None);
    }

    proptest! {
        /// For any offset and any delays, the estimate differs from the true offset by at most its
        /// bound. The bound is at most half of the narrowest bracket (rounded up).
        #[test]
        fn the_truth_is_within_the_bound(
            truth in -(1i64 << 50)..(1i64 << 50),
            rounds in prop::collection::vec((0u64..1 << 50, 0u64..100_000, 0u64..100_000), 1..40),
            accepted: bool,
        ) {
            let brackets: Vec<Bracket> = rounds
                .iter()
                .map(|&(host, early, late)| Bracket {
                    before_tsc: (1 << 51) + host - early,
                    guest_tsc: ((1 << 51) + host).wrapping_sub(truth.cast_unsigned()),
                    after_tsc: (1 << 51) + host + late,
                })
                .collect();
            let clock = judge(&brackets, accepted);
            prop_assert!(clock.offset_proof.is_some());
            if clock.offset_proof == Some(OffsetProof::Mapped) {
                prop_assert!(clock.offset_tsc.abs_diff(truth) <= clock.offset_bound_tsc);
                prop_assert!(clock.offset_bound_tsc <= clock.bracket_tsc);
            } else {
                prop_assert!(accepted);
                prop_assert!(truth.unsigned_abs() <= 2 * clock.bracket_tsc);
            }
        }
    }
}
