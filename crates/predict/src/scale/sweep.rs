//! Delay of a host at all moments at which a step may begin. The result is exact. One pass over the
//! gaps of the host's CPUs is enough.

use super::rank::Rank;
use super::tournament::Tournament;
use crate::taken::TakenTime;

/// Consecutive moments, one per nanosecond, at which the delay of the host's slowest rank is
/// constant or falls steadily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// First moment, CLOCK_MONOTONIC in nanoseconds.
    pub(super) begin_ns: u64,
    /// Number of moments, which is the duration of the piece in nanoseconds.
    pub(super) length_ns: u64,
    /// Delay of a step that begins at the first moment, in nanoseconds.
    pub(super) delay_ns: u64,
    /// Whether the delay falls by one nanosecond each nanosecond. If not, the delay is constant.
    pub(super) falls: bool,
    /// Begin of the oldest gap that contains these moments, in nanoseconds; `None` if no gap does.
    pub(super) in_gap_since_ns: Option<u64>,
}

impl Piece {
    /// Splits the piece. Returns the moments before `moment_ns`, and the moments from `moment_ns`
    /// on.
    pub(super) fn cut(self, moment_ns: u64) -> (Option<Piece>, Option<Piece>) {
        let end_ns = self.begin_ns + self.length_ns;
        let cut_ns = moment_ns.clamp(self.begin_ns, end_ns);
        let before = Piece {
            length_ns: cut_ns - self.begin_ns,
            ..self
        };
        let after = Piece {
            begin_ns: cut_ns,
            length_ns: end_ns - cut_ns,
            delay_ns: self.delay_at_ns(cut_ns),
            ..self
        };
        let some = |piece: Piece| (piece.length_ns > 0).then_some(piece);
        (some(before), some(after))
    }

    /// Returns the delay of a step that begins at `moment_ns`, in nanoseconds. `moment_ns` must be
    /// a moment of the piece, or the first moment after the piece.
    pub(super) fn delay_at_ns(&self, moment_ns: u64) -> u64 {
        match self.falls {
            true => self.delay_ns - (moment_ns - self.begin_ns),
            false => self.delay_ns,
        }
    }
}

/// State of all ranks of a host during a pass over the gaps.
#[derive(Debug)]
struct Sweep<'a> {
    ranks: Vec<Rank<'a>>,
    /// Next change of each rank, as `u64::MAX` minus the moment.
    changes: Tournament,
    /// Delay of each rank whose CPU is free; 0 for other ranks.
    constant: Tournament,
    /// For each rank whose CPU is in a gap, the moment at which the falling delay would reach 0; 0
    /// for other ranks.
    falling: Tournament,
    /// Begin of the gap that each rank is in, as `u64::MAX` minus the moment; 0 for other ranks.
    since: Tournament,
}

/// Passes all moments at which a step may begin to `on_piece`, in ascending order. At each of these
/// moments, an undisturbed step would end within the runs of all CPUs.
pub(super) fn sweep(cpus: &[TakenTime<'_>], step_ns: u64, mut on_piece: impl FnMut(Piece)) {
    let Some(mut now_ns) = cpus.iter().map(|taken| taken.from_ns).max() else {
        return;
    };
    let mut sweep = Sweep {
        ranks: cpus
            .iter()
            .map(|taken| Rank::new(taken, step_ns, now_ns))
            .collect(),
        changes: Tournament::new(cpus.len()),
        constant: Tournament::new(cpus.len()),
        falling: Tournament::new(cpus.len()),
        since: Tournament::new(cpus.len()),
    };
    for place in 0..cpus.len() {
        if !sweep.look_at(place, now_ns) {
            return;
        }
    }
    loop {
        let change_ns = u64::MAX - sweep.changes.best();
        sweep.pieces(now_ns, change_ns, &mut on_piece);
        now_ns = change_ns;
        while u64::MAX - sweep.changes.best() == now_ns {
            let place = sweep.changes.winner();
            sweep.ranks[place].move_to(now_ns);
            if !sweep.look_at(place, now_ns) {
                return;
            }
        }
    }
}

impl Sweep<'_> {
    /// Updates the state of this rank. Returns `false` if an undisturbed step would end after the
    /// run.
    fn look_at(&mut self, place: usize, now_ns: u64) -> bool {
        let rank = &self.ranks[place];
        let Some(change_ns) = rank.change_ns() else {
            return false;
        };
        let delay_ns = rank.delay_ns();
        let (constant, falling, since) = match rank.in_gap_since_ns() {
            Some(since_ns) => (0, now_ns + delay_ns, u64::MAX - since_ns),
            None => (delay_ns, 0, 0),
        };
        self.changes.set(place, u64::MAX - change_ns);
        self.constant.set(place, constant);
        self.falling.set(place, falling);
        self.since.set(place, since);
        true
    }

    /// Passes the moments until the next change to `on_piece`. First, a rank in a gap may be the
    /// slowest, and its delay falls. After that, a rank outside of gaps is the slowest, and its
    /// delay is constant.
    fn pieces(&self, from_ns: u64, to_ns: u64, on_piece: &mut impl FnMut(Piece)) {
        let constant_ns = self.constant.best();
        let falling_ns = self.falling.best().saturating_sub(from_ns);
        let falls_for_ns = falling_ns.saturating_sub(constant_ns).min(to_ns - from_ns);
        let since = self.since.best();
        let piece = Piece {
            begin_ns: from_ns,
            length_ns: falls_for_ns,
            delay_ns: falling_ns,
            falls: true,
            in_gap_since_ns: (since > 0).then_some(u64::MAX - since),
        };
        if falls_for_ns > 0 {
            on_piece(piece);
        }
        if from_ns + falls_for_ns < to_ns {
            on_piece(Piece {
                begin_ns: from_ns + falls_for_ns,
                length_ns: to_ns - from_ns - falls_for_ns,
                delay_ns: constant_ns,
                falls: false,
                ..piece
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vmnoise_events::Share;

    use super::*;
    use crate::record::{CpuRecord, RecordCulprit};

    fn record(gaps: &[(u64, u64)], from_ns: u64, rest_ns: u64) -> CpuRecord {
        let mut record = CpuRecord::new(0);
        let who = record.culprit(RecordCulprit {
            share: Share::Hw,
            name: None,
        });
        let mut now_ns = from_ns;
        for (pause_ns, length_ns) in gaps {
            now_ns += pause_ns;
            record.push(now_ns, *length_ns, [(who, *length_ns)].into_iter());
            now_ns += length_ns;
        }
        record.measured(from_ns, now_ns + rest_ns);
        record
    }

    /// Computes the delay in half nanoseconds, one by one, until the rank has had the CPU for its
    /// step. No time is taken after the run. Returns `None` if an undisturbed step would end after
    /// the run.
    fn naive_delay_in_halves(
        taken: &TakenTime<'_>,
        begin_in_halves: u64,
        step_ns: u64,
    ) -> Option<u64> {
        let gaps = || taken.begins_ns.iter().zip(taken.taken_ns());
        if begin_in_halves + 2 * step_ns > 2 * taken.to_ns {
            return None;
        }
        let mut had = 0;
        let mut now = begin_in_halves;
        while had < 2 * step_ns {
            had += u64::from(
                !gaps().any(|(from_ns, ns)| (2 * from_ns..2 * (from_ns + ns)).contains(&now)),
            );
            now += 1;
        }
        Some(now - begin_in_halves - 2 * step_ns)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares the delays in the middle of each nanosecond, where the delay never changes its
        /// rule.
        #[test]
        fn the_slowest_rank_is_as_late_as_walking_finds(
            cpus in proptest::collection::vec(
                (proptest::collection::vec((0_u64..9, 0_u64..7), 0..7), 0_u64..5, 0_u64..20), 1..4),
            step_ns in 1_u64..12,
        ) {
            let records: Vec<CpuRecord> = cpus.iter()
                .map(|(gaps, from_ns, rest_ns)| record(gaps, 100 + from_ns, *rest_ns)).collect();
            let taken: Vec<TakenTime<'_>> = records.iter().map(CpuRecord::taken).collect();
            let mut pieces = Vec::new();
            sweep(&taken, step_ns, |piece| pieces.push(piece));
            let mut now_ns = taken.iter().map(|it| it.from_ns).max().unwrap();
            let found = |at_ns: u64| -> Option<u64> {
                let delays = taken.iter().map(|it| naive_delay_in_halves(it, 2 * at_ns + 1, step_ns));
                delays.collect::<Option<Vec<u64>>>()?.into_iter().max()
            };
            for piece in &pieces {
                prop_assert_eq!(piece.begin_ns, now_ns);
                for at_ns in now_ns..now_ns + piece.length_ns {
                    let delay = 2 * piece.delay_at_ns(at_ns) - u64::from(piece.falls);
                    prop_assert_eq!(Some(delay), found(at_ns), "at {} of {:?}", at_ns, piece);
                    let inside = taken.iter().flat_map(|it| {
                        let gaps = it.begins_ns.iter().zip(it.taken_ns());
                        gaps.filter(|(from_ns, ns)| (**from_ns..**from_ns + **ns).contains(&at_ns))
                            .map(|(from_ns, _)| *from_ns).collect::<Vec<_>>()
                    });
                    prop_assert_eq!(piece.in_gap_since_ns, inside.min());
                }
                now_ns += piece.length_ns;
            }
            prop_assert_eq!(found(now_ns), None);
        }
    }
}
