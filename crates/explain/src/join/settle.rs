//! Makes what the stream tells of an exit agree with what the kernel counted of it: a record
//! that was lost costs a name and a place, never an amount.

use std::cmp::Reverse;

use vmnoise_events::{Share, ShareMap};

use crate::vcpus::Slice;

/// Gives every share what the kernel's own sums say, at the expense of those that have too
/// much; the lengths of `slices` add up to `split`.
pub(super) fn settle(slices: &mut Vec<Slice>, split: &ShareMap<u64>) {
    let had_ns = |slices: &[Slice], share: Share| -> u64 {
        let of_share = slices.iter().filter(|slice| slice.share == share);
        of_share.map(|slice| slice.end_ns - slice.start_ns).sum()
    };
    let counted = split.select(Share::OF_EXITS);
    let mut excess = counted.map(|(share, ns)| (share, had_ns(slices, share).saturating_sub(ns)));
    if excess.iter().all(|(_, ns)| *ns == 0) {
        return;
    }
    for (share, ns) in counted {
        let mut lacking_ns = ns.saturating_sub(had_ns(slices, share));
        for (from, excess_ns) in &mut excess {
            let given_ns = lacking_ns.min(*excess_ns);
            give(slices, *from, share, given_ns);
            *excess_ns -= given_ns;
            lacking_ns -= given_ns;
        }
    }
}

/// Books `ns` of what one share has under another, and to nobody: the end of its longest
/// slice first.
pub(super) fn give(slices: &mut Vec<Slice>, from: Share, to: Share, mut ns: u64) {
    while ns > 0 {
        let of_share = slices.iter().enumerate().filter(|(_, it)| it.share == from);
        let longest = of_share.max_by_key(|(place, it)| (it.end_ns - it.start_ns, Reverse(*place)));
        let Some((place, slice)) = longest.map(|(place, slice)| (place, *slice)) else {
            return;
        };
        let given_ns = ns.min(slice.end_ns - slice.start_ns);
        let given = Slice {
            start_ns: slice.end_ns - given_ns,
            share: to,
            source: None,
            ..slice
        };
        ns -= given_ns;
        if given.start_ns == slice.start_ns {
            slices[place] = given;
        } else {
            slices[place].end_ns = given.start_ns;
            slices.insert(place + 1, given);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::SourceId;

    fn slices(told: &[(Share, u64, u64)]) -> Vec<Slice> {
        let slice = |&(share, start_ns, end_ns): &(Share, u64, u64)| Slice {
            start_ns,
            end_ns,
            cpu: 3,
            share,
            source: Some(SourceId(0)),
            since_ns: start_ns,
            waits: false,
        };
        told.iter().map(slice).collect()
    }

    #[test]
    fn what_was_lost_is_nobodys_and_the_rest_stays_where_it_was() {
        let mut told = slices(&[
            (Share::Kvm, 0, 10),
            (Share::HostIrq, 10, 15),
            (Share::Kvm, 15, 40),
        ]);
        let split = ShareMap::from([
            (Share::Kvm, 20),
            (Share::HostIrq, 8),
            (Share::Preempted, 12),
        ]);
        settle(&mut told, &split);
        let flat = told.iter().map(|it| (it.share, it.start_ns, it.end_ns));
        let flat: Vec<(Share, u64, u64)> = flat.collect();
        assert_eq!(
            flat,
            [
                (Share::Kvm, 0, 10),
                (Share::HostIrq, 10, 15),
                (Share::Kvm, 15, 25),
                (Share::HostIrq, 25, 28),
                (Share::Preempted, 28, 40),
            ]
        );
        assert_eq!(told[3].source, None);
        let settled = told.clone();
        settle(&mut told, &split);
        assert_eq!(told, settled);
    }

    #[test]
    fn a_share_gives_no_more_than_it_has() {
        let mut told = slices(&[(Share::Kvm, 0, 10), (Share::Vmm, 10, 20)]);
        give(&mut told, Share::Kvm, Share::Unexplained, 99);
        let shares: Vec<Share> = told.iter().map(|slice| slice.share).collect();
        assert_eq!(shares, [Share::Unexplained, Share::Vmm]);
    }
}
