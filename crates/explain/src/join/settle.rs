//! Corrects the recorded pieces of an exit by the kernel's own sums. A lost record may remove a
//! name or a time, but never changes the total of a share.

use std::cmp::Reverse;

use vmnoise_events::{Share, ShareMap};

use crate::piece::Piece;

/// Changes the shares of pieces until each share has the time in `split`, the kernel's own sums.
/// Shares with too much time give it to shares with too little. The lengths of `pieces` add up to
/// the total of `split`.
pub(super) fn settle(pieces: &mut Vec<Piece>, split: &ShareMap<u64>) {
    let had_ns = |pieces: &[Piece], share: Share| -> u64 {
        let of_share = pieces.iter().filter(|piece| piece.share == share);
        of_share.map(Piece::dur_ns).sum()
    };
    let counted = split.select(Share::OF_EXITS);
    let mut excess = counted.map(|(share, ns)| (share, had_ns(pieces, share).saturating_sub(ns)));
    if excess.iter().all(|(_, ns)| *ns == 0) {
        return;
    }
    for (share, ns) in counted {
        let mut lacking_ns = ns.saturating_sub(had_ns(pieces, share));
        for (from, excess_ns) in &mut excess {
            let given_ns = lacking_ns.min(*excess_ns);
            give(pieces, *from, share, given_ns);
            *excess_ns -= given_ns;
            lacking_ns -= given_ns;
        }
    }
}

/// Moves `ns` nanoseconds from one share to another. Takes the end of the longest piece first. The
/// moved time has no source.
pub(super) fn give(pieces: &mut Vec<Piece>, from: Share, to: Share, mut ns: u64) {
    while ns > 0 {
        let of_share = pieces.iter().enumerate().filter(|(_, it)| it.share == from);
        let longest = of_share.max_by_key(|(place, it)| (it.dur_ns(), Reverse(*place)));
        let Some((place, piece)) = longest.map(|(place, piece)| (place, *piece)) else {
            return;
        };
        let given_ns = ns.min(piece.dur_ns());
        let given = Piece {
            start_mono_ns: piece.end_mono_ns - given_ns,
            share: to,
            source: None,
            ..piece
        };
        ns -= given_ns;
        if given.start_mono_ns == piece.start_mono_ns {
            pieces[place] = given;
        } else {
            pieces[place].end_mono_ns = given.start_mono_ns;
            pieces.insert(place + 1, given);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::SourceId;

    fn pieces(reported: &[(Share, u64, u64)]) -> Vec<Piece> {
        let piece = |&(share, start_mono_ns, end_mono_ns): &(Share, u64, u64)| Piece {
            start_mono_ns,
            end_mono_ns,
            cpu: 3,
            share,
            source: Some(SourceId(0)),
            since_ns: start_mono_ns,
            waits: false,
        };
        reported.iter().map(piece).collect()
    }

    #[test]
    fn what_was_lost_is_nobodys_and_the_rest_stays_where_it_was() {
        let mut reported = pieces(&[
            (Share::Kvm, 0, 10),
            (Share::HostIrq, 10, 15),
            (Share::Kvm, 15, 40),
        ]);
        let split = ShareMap::from([
            (Share::Kvm, 20),
            (Share::HostIrq, 8),
            (Share::Preempted, 12),
        ]);
        settle(&mut reported, &split);
        let flat = reported
            .iter()
            .map(|it| (it.share, it.start_mono_ns, it.end_mono_ns));
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
        assert_eq!(reported[3].source, None);
        let settled = reported.clone();
        settle(&mut reported, &split);
        assert_eq!(reported, settled);
    }

    #[test]
    fn a_share_gives_no_more_than_it_has() {
        let mut reported = pieces(&[(Share::Kvm, 0, 10), (Share::Vmm, 10, 20)]);
        give(&mut reported, Share::Kvm, Share::Unexplained, 99);
        let shares: Vec<Share> = reported.iter().map(|piece| piece.share).collect();
        assert_eq!(shares, [Share::Unexplained, Share::Vmm]);
    }
}
