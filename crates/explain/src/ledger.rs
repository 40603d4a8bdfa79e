//! Running sums over the gaps of one CPU.

use std::collections::BTreeMap;

use serde::Serialize;
use vmnoise_events::{InterferenceCounts, Share, ShareMap, SourceId};

use crate::feed::ReportedHost;
use crate::guest_columns::{ExitCounts, GuestColumns};
use crate::interference::InterferenceColumns;
use crate::interval::{GapDetail, Interval};
use crate::lengths::Lengths;
use crate::part::Part;
use crate::visibility::Visibility;

/// Maximum number of unexplained gaps that are kept for the search for a period (800 kB per CPU).
const UNATTRIBUTED_KEPT: usize = 50_000;

/// Losses of one CPU since the last call of [`crate::Explainer::take_period`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeriodLine {
    /// The CPU.
    pub cpu: u32,
    /// Runtime of the workload since the last call, in nanoseconds; `None` if the workload has not
    /// reported.
    pub runtime_ns: Option<u64>,
    /// Number of gaps explained in this period.
    pub gaps: u64,
    /// Total length of the gaps, in nanoseconds.
    pub noise_ns: u64,
    /// Length of the longest gap, in nanoseconds; 0 if there was no gap.
    pub max_gap_ns: u64,
    /// Time of the gaps by share, in nanoseconds.
    #[serde(rename = "shares_ns")]
    pub shares: ShareMap<Option<u64>>,
    /// Number of interferences by class, as osnoise counts them. If counters exist, these are all
    /// interferences since the last call.
    pub interference: InterferenceColumns,
    /// Columns of a guest for this period, including the exits since the last call.
    pub guest_columns: GuestColumns,
    /// Columns of a guest over the run so far.
    #[serde(skip)]
    pub columns_so_far: GuestColumns,
    /// Reports of the host's frames in this period; `None` without frames.
    pub host: Option<ReportedHost>,
}

/// Sums over the gaps of the run or of one period.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) gaps: u64,
    pub(crate) noise_ns: u64,
    pub(crate) max_gap_ns: u64,
    shares_ns: ShareMap<u64>,
    unexplained_at_exits_ns: u64,
    unbounded_kvm_ns: u64,
    interference: InterferenceColumns,
    /// Number of gaps that a host's recording covers.
    pub(crate) witnessed: u64,
    /// Number of exits in all gaps that the host's kernel handled.
    light_exits: u64,
    /// Number of exits in all gaps that went to the VMM.
    heavy_exits: u64,
    /// Number of gaps with interferences that no activity shows; `None` if no gap has a counter.
    pub(crate) incomplete_gaps: Option<u64>,
}

impl Sums {
    fn add(&mut self, budget: &Interval, gap: &GapDetail) {
        self.gaps += 1;
        self.noise_ns += budget.dur_ns;
        self.max_gap_ns = self.max_gap_ns.max(budget.dur_ns);
        for part in &budget.parts {
            self.shares_ns[part.share] += part.ns;
        }
        if budget.holds_exit() {
            self.unexplained_at_exits_ns += budget.ns_of(Share::Unexplained);
        }
        let unbounded_ns = &mut self.unbounded_kvm_ns;
        *unbounded_ns = unbounded_ns.saturating_add(gap.unbounded_kvm_ns);
        self.interference += gap.interference;
        self.witnessed += u64::from(budget.witnessed);
        self.light_exits += u64::from(gap.light_exits);
        self.heavy_exits += u64::from(gap.heavy_exits);
        if gap.lost_activities.is_some() {
            let gaps = self.incomplete_gaps.get_or_insert(0);
            *gaps += u64::from(budget.is_incomplete());
        }
    }

    /// Returns the interferences. `counts` are the workload's counters for the same time.
    pub(crate) fn interference(
        &self,
        visibility: &Visibility,
        counts: Option<InterferenceCounts>,
    ) -> InterferenceColumns {
        let mut interference = InterferenceColumns::none(visibility);
        interference += self.interference;
        interference.reported_by(visibility, counts)
    }

    /// Returns the columns of a guest. `exits` are the exits counted in the same time.
    pub(crate) fn guest_columns(
        &self,
        visibility: &Visibility,
        exits: Option<ExitCounts>,
    ) -> GuestColumns {
        let exits = match self.witnessed > 0 && visibility.counts_exits() {
            true => Some(
                exits
                    .unwrap_or_default()
                    .or(self.light_exits, self.heavy_exits),
            ),
            false => exits,
        };
        GuestColumns::new(
            &self.shares(visibility),
            self.unexplained_at_exits_ns,
            exits,
        )
    }

    /// Returns the time by share, in nanoseconds. A share is known if its probe was present, or if
    /// its time is not 0.
    pub(crate) fn shares(&self, visibility: &Visibility) -> ShareMap<Option<u64>> {
        visibility.known(&self.shares_ns, self.witnessed > 0)
    }

    /// Returns the time of `kvm` without an upper bound, in nanoseconds; `None` if `kvm` is
    /// unknown.
    pub(crate) fn unbounded_kvm_ns(&self, visibility: &Visibility) -> Option<u64> {
        let kvm_ns = self.shares(visibility)[Share::Kvm];
        kvm_ns.map(|_| self.unbounded_kvm_ns)
    }
}

/// Time that one source took from all gaps, under one share.
#[derive(Debug, Default)]
pub(crate) struct SourceTotal {
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: u64,
}

/// Gaps that no probe explains, for the search for a period.
#[derive(Debug, Default)]
pub(crate) struct UnattributedGaps {
    /// Start (CLOCK_MONOTONIC) and length of the first such gaps, in nanoseconds.
    pub(crate) kept: Vec<(u64, u64)>,
    /// Number of all such gaps.
    pub(crate) seen: u64,
    /// Residual time of the CPU in nanoseconds, until too many gaps had been kept.
    pub(crate) residual_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) run: Sums,
    period: Sums,
    pub(crate) lengths: Lengths,
    pub(crate) steal_clamps: u64,
    /// Sums by share and source. A stream may define any number of sources, but each CPU has few,
    /// so an ordered map costs less than hashing.
    pub(crate) sources: BTreeMap<(Share, Option<SourceId>), SourceTotal>,
    pub(crate) unattributed: UnattributedGaps,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            run: Sums::default(),
            period: Sums::default(),
            lengths: Lengths::default(),
            steal_clamps: 0,
            sources: BTreeMap::new(),
            unattributed: UnattributedGaps::default(),
        }
    }

    /// Adds parts, each of one activity, to the sums of their sources.
    pub(crate) fn book_sources(&mut self, pieces: &[Part]) {
        for piece in pieces.iter().filter(|piece| piece.count > 0) {
            let key = (piece.share, piece.source);
            let total = self.sources.entry(key).or_default();
            total.count += u64::from(piece.count);
            total.total_ns += piece.ns;
            total.max_ns = total.max_ns.max(piece.ns);
        }
    }

    /// Adds a gap with its final parts to the sums.
    pub(crate) fn book(&mut self, budget: &Interval, gap: &GapDetail) {
        self.run.add(budget, gap);
        self.period.add(budget, gap);
        self.lengths.record(budget.dur_ns);
        self.steal_clamps += u64::from(budget.steal_clamped);
        let full = self.unattributed.kept.len() == UNATTRIBUTED_KEPT;
        if budget.is_unattributed() {
            self.unattributed.seen += 1;
            if !full {
                self.unattributed
                    .kept
                    .push((budget.start_mono_ns, budget.dur_ns));
            }
        }
        if !full {
            self.unattributed.residual_ns = self.run.shares_ns.sum(&Share::RESIDUALS);
        }
    }

    pub(crate) fn take_period(
        &mut self,
        cpu: u32,
        visibility: &Visibility,
        runtime_ns: Option<u64>,
        exits: Option<ExitCounts>,
        counts: Option<InterferenceCounts>,
    ) -> PeriodLine {
        let sums = std::mem::take(&mut self.period);
        let guest_columns = sums.guest_columns(visibility, exits);
        PeriodLine {
            cpu,
            runtime_ns,
            gaps: sums.gaps,
            noise_ns: sums.noise_ns,
            max_gap_ns: sums.max_gap_ns,
            shares: sums.shares(visibility),
            interference: sums.interference(visibility, counts),
            guest_columns,
            columns_so_far: guest_columns,
            host: None,
        }
    }
}
