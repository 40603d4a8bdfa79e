//! Figures of one CPU: the rows of its table, its worst windows, and its blind spots.

use vmnoise_events::coverage::{BlindSpot, Hidden, HiddenKind, Question};
use vmnoise_events::{Share, human};
use vmnoise_predict::supply::{MeasuredSupply, WorstOfRuns};
use vmnoise_predict::{CpuRecord, HadBy, RecordCulprit};
use wildmatch::WildMatch;

use super::{CpuSupply, WindowRow, WorstWindow};

/// Returns, for each share that took time, the most time that it took in a window of each length.
fn shares(
    records: &[&CpuRecord],
    counts: impl Fn(&RecordCulprit) -> bool,
) -> Vec<(Share, Vec<u64>)> {
    let of_share = |share: Share| {
        let is = |it: &RecordCulprit| it.share == share && counts(it);
        let has = records.iter().any(|it| it.culprits().iter().any(is));
        has.then(|| {
            let taken = records.iter().map(|it| it.taken_by(is)).collect();
            let left: Vec<(u64, u64)> = MeasuredSupply::new(taken).drawn();
            let taken = left.iter().map(|(length_ns, left_ns)| length_ns - left_ns);
            (share, taken.collect())
        })
    };
    Share::ALL.into_iter().filter_map(of_share).collect()
}

/// Returns whether the pattern matches the culprit's name, with or without its number, or its
/// share.
pub fn is_called(culprit: &RecordCulprit, pattern: &WildMatch) -> bool {
    let bare = culprit.whatever_number();
    let names = [culprit.name.as_deref(), bare.name.as_deref()];
    let mut names = names.into_iter().flatten();
    pattern.matches(culprit.share.name()) || names.any(|name| pattern.matches(name))
}

impl CpuSupply<'_> {
    /// Returns the blind spots of this CPU's recordings that matter for this question. For
    /// latencies, the priority of the measuring thread does not matter. Work that delays a task but
    /// not this thread is in the recordings of gaps.
    pub fn blind_spots(&self, question: Question) -> Vec<BlindSpot> {
        let of_gaps = self.of_gaps.iter().flat_map(|it| it.blind_spots(question));
        let latest = Question::Longest(f64::INFINITY);
        let of_latencies = self.of_latencies.iter();
        let of_latencies = of_latencies.flat_map(|it| it.blind_spots(latest));
        let mut spots: Vec<BlindSpot> = Vec::new();
        for spot in of_gaps.chain(of_latencies) {
            if !spots.contains(&spot) {
                spots.push(spot);
            }
        }
        spots
    }

    /// Returns the blind spots that hide more taken time than the windows contain. The windows
    /// count unplaced and unmeasured time as taken.
    pub(crate) fn uncounted(&self) -> Vec<BlindSpot> {
        let mut spots = self.blind_spots(Question::Taken);
        spots.retain(|it| {
            let is_unmeasured = matches!(it.hidden(), Hidden::NotMeasured { .. });
            it.hides() != HiddenKind::StatedTime && !is_unmeasured
        });
        spots
    }

    /// Adds a row for each window length of the table.
    pub fn with_rows(self) -> Self {
        let counts =
            |culprit: &RecordCulprit| !self.without.iter().any(|it| is_called(culprit, it));
        let shares = shares(&self.records, counts);
        let drawn = self.supply.drawn();
        let rows = drawn.iter().enumerate();
        let rows = rows.map(|(nth, (length_ns, left_ns))| WindowRow {
            length_ns: *length_ns,
            left_ns: *left_ns,
            unseen_ns: self.supply.unseen_at_most_ns(*length_ns),
            shares_ns: shares.iter().map(|(_, ns)| ns[nth]).collect(),
        });
        CpuSupply {
            rows: rows.collect(),
            shares: shares.iter().map(|(share, _)| *share).collect(),
            ..self
        }
    }

    /// Returns the window of this length with the least time left, and its culprits.
    pub(crate) fn worst(&self, length_ns: u64) -> Option<WorstWindow> {
        let WorstOfRuns {
            run,
            window: worst,
            unseen_ns,
        } = self.supply.worst(length_ns)?;
        let record = self.records[run];
        let counts = |by: &HadBy| {
            let culprit = &record.culprits()[by.who() as usize];
            !self.without.iter().any(|it| is_called(culprit, it))
        };
        let mut by = record.taken_in(worst.begin_ns, length_ns);
        by.retain(|(by, _)| counts(by));
        by.truncate(3);
        let name = |by: HadBy, ns| match by {
            HadBy::Culprit(who) => format!("{} {ns}", record.culprits()[who as usize]),
            HadBy::Cut(most) => {
                format!("{ns} of a gap, mostly {}", record.culprits()[most as usize])
            }
        };
        Some(WorstWindow {
            at_ns: worst.begin_ns - record.from_ns(),
            file: match self.files.len() {
                1 => None,
                _ => Some(self.files[run].to_owned()),
            },
            taken_ns: worst.taken_ns,
            unseen_ns,
            by: by
                .into_iter()
                .map(|(who, ns)| name(who, human(ns)))
                .collect(),
        })
    }
}
