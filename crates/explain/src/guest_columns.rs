//! Columns for a guest as in the thesis on VM noise, computed from the shares of vmnoise.

use serde::Serialize;
use vmnoise_events::{CpuTally, Share, ShareMap};

use crate::feed::ReportedHost;

/// Time that a guest lost to the layers below it. A value is `None` if no probe saw these layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct GuestColumns {
    /// STEAL: time of the shares `steal` and `preempted`, in nanoseconds.
    pub steal_ns: Option<u64>,
    /// VIRT, the time for handling exits, in nanoseconds: the shares `kvm`, `vmm`, `blocked` and
    /// `throttled`, the `host_` shares, and `unexplained` in gaps with an exit. With the feed of a
    /// host, the same shares of all exits, inside and outside of gaps.
    pub virt_ns: Option<u64>,
    /// HW_NOISE: time of the share `hw`, in nanoseconds. With the feed of a host, this is a lower
    /// bound.
    pub hw_noise_ns: Option<u64>,
    /// LW_EX: number of exits that the host's kernel handled. If only the host's recording contains
    /// exits, this is the number of exits in gaps.
    pub light_exits: Option<u64>,
    /// HW_EX: number of exits that went to the VMM, under the same rule as `light_exits`. Without
    /// reports of the host, number of reloads of the vCPU, because a guest itself can count nothing
    /// else.
    pub heavy_exits: Option<u64>,
}

impl GuestColumns {
    /// Creates the columns from the shares of some gaps and the exits counted in the same time.
    /// `unexplained_at_exits_ns` is the time of `unexplained` in gaps with an exit.
    pub(crate) fn new(
        shares: &ShareMap<Option<u64>>,
        unexplained_at_exits_ns: u64,
        exits: Option<ExitCounts>,
    ) -> GuestColumns {
        // Without `kvm` and `vmm`, the other shares of VIRT come from probes inside the guest.
        // Their time then belongs to the guest.
        let below_was_seen = shares.sum_of_known(&[Share::Kvm, Share::Vmm]).is_some();
        let of_virt = |(share, ns): (Share, Option<u64>)| ns.filter(|_| share.is_virt());
        let virt_ns: u64 = shares.iter().filter_map(of_virt).sum();
        GuestColumns {
            steal_ns: shares.sum_of_known(&[Share::Steal, Share::Preempted]),
            virt_ns: below_was_seen.then_some(virt_ns + unexplained_at_exits_ns),
            hw_noise_ns: shares[Share::Hw],
            light_exits: exits.and_then(|exits| exits.light),
            heavy_exits: exits.and_then(|exits| exits.heavy.or(exits.reloads)),
        }
    }

    /// Returns the columns with the values that the host's feed reported in this time. These values
    /// are `None` if the feed reported nothing. STEAL stays that of the guest's own steal clock.
    pub(crate) fn reported_by_host(self, reported: Option<&ReportedHost>) -> GuestColumns {
        GuestColumns {
            steal_ns: self.steal_ns,
            virt_ns: reported.map(|reported| reported.virt_ns),
            hw_noise_ns: reported.and_then(ReportedHost::hw_noise_ns),
            light_exits: reported.and_then(|reported| reported.light),
            heavy_exits: reported.map(|reported| reported.heavy),
        }
    }
}

/// Cumulative numbers of exits in a tally; `None` if a number is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExitCounts {
    light: Option<u64>,
    heavy: Option<u64>,
    reloads: Option<u64>,
}

impl ExitCounts {
    pub(crate) fn of(tally: &CpuTally) -> ExitCounts {
        ExitCounts {
            light: tally.light_exits,
            heavy: tally.heavy_exits,
            reloads: tally.reloads,
        }
    }

    /// Returns these numbers. Unknown numbers are replaced by `light` and `heavy`, the numbers of
    /// exits that a host's recording maps to gaps.
    pub(crate) fn or(self, light: u64, heavy: u64) -> ExitCounts {
        ExitCounts {
            light: self.light.or(Some(light)),
            heavy: self.heavy.or(Some(heavy)),
            ..self
        }
    }

    /// Returns the number of exits since the tally of `earlier`.
    pub(crate) fn since(self, earlier: ExitCounts) -> ExitCounts {
        let advance = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        ExitCounts {
            light: advance(self.light, earlier.light),
            heavy: advance(self.heavy, earlier.heavy),
            reloads: advance(self.reloads, earlier.reloads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(known: &[(Share, u64)]) -> GuestColumns {
        let mut shares = ShareMap::default();
        for (share, ns) in known {
            shares[*share] = Some(*ns);
        }
        GuestColumns::new(&shares, 5, None)
    }

    #[test]
    fn without_data_from_below_only_steal_is_known() {
        let of_guest = [
            (Share::Irq, 9),
            (Share::Blocked, 1),
            (Share::Throttled, 1),
            (Share::Steal, 7),
            (Share::HvOrHw, 3),
        ];
        let expected = GuestColumns {
            steal_ns: Some(7),
            ..GuestColumns::default()
        };
        assert_eq!(columns(&of_guest), expected);
    }

    #[test]
    fn every_column_adds_its_shares() {
        let all = Share::ALL.map(|share| (share, 1 << (share as u64)));
        let reported = columns(&all);
        let bits = |shares: &[Share]| shares.iter().map(|share| 1 << (*share as u64)).sum::<u64>();
        assert_eq!(
            reported.steal_ns,
            Some(bits(&[Share::Steal, Share::Preempted]))
        );
        assert_eq!(reported.hw_noise_ns, Some(bits(&[Share::Hw])));
        let virt = [
            Share::Throttled,
            Share::Blocked,
            Share::HostIrq,
            Share::HostSoftirq,
            Share::HostNmi,
            Share::Kvm,
            Share::Vmm,
        ];
        assert_eq!(reported.virt_ns, Some(bits(&virt) + 5));
    }

    #[test]
    fn a_guest_alone_counts_its_reloads() {
        let exits = |heavy| ExitCounts {
            light: None,
            heavy,
            reloads: Some(4),
        };
        let heavy = |exits| GuestColumns::new(&ShareMap::default(), 0, Some(exits)).heavy_exits;
        assert_eq!(heavy(exits(None)), Some(4));
        assert_eq!(heavy(exits(Some(3))), Some(3));
        assert_eq!(heavy(exits(Some(3)).since(exits(Some(1)))), Some(2));
    }
}
