//! What is compared.

use vmnoise_events::Share;

use super::sample::Window;

/// One figure of a run, or of a window of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// All gaps, in percent of the runtime.
    Noise,
    /// How many gaps, per second of the runtime.
    Gaps,
    /// The length that so many of ten thousand gaps do not exceed, nanoseconds.
    Percentile(u16),
    /// What one share took, in percent of the runtime.
    Share(Share),
}

/// What the numbers of a figure are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Parts of a hundred.
    Percent,
    /// Occurrences a second.
    PerSecond,
    /// A length of time.
    Nanoseconds,
}

const PERCENTILES: [(u16, &str); 5] = [
    (5_000, "p50"),
    (9_000, "p90"),
    (9_900, "p99"),
    (9_990, "p99.9"),
    (10_000, "max"),
];

impl Figure {
    /// Every figure, in the order in which results list them.
    pub fn all() -> impl Iterator<Item = Figure> {
        let percentiles = PERCENTILES.map(|(rank, _)| Figure::Percentile(rank));
        [Figure::Noise, Figure::Gaps]
            .into_iter()
            .chain(percentiles)
            .chain(Share::ALL.map(Figure::Share))
    }

    /// The figure of this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Figure> {
        Figure::all().find(|figure| figure.name() == name)
    }

    /// The word for it in results and conditions: `noise`, `gaps`, `p99.9`, `max`, or the name
    /// of a share.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Noise => "noise",
            Figure::Gaps => "gaps",
            Figure::Share(share) => share.name(),
            Figure::Percentile(rank) => {
                let mut known = PERCENTILES.iter();
                let found = known.find(|(known, _)| *known == rank);
                found.map_or("percentile", |(_, name)| name)
            }
        }
    }

    /// What its numbers are.
    pub fn unit(self) -> Unit {
        match self {
            Figure::Noise | Figure::Share(_) => Unit::Percent,
            Figure::Gaps => Unit::PerSecond,
            Figure::Percentile(_) => Unit::Nanoseconds,
        }
    }

    /// The figure of this window, in its [`Unit`]; `None` where it is not known. The length of
    /// gaps is 0 where there are none: shorter than any.
    pub fn of(self, window: &Window) -> Option<f64> {
        let of_runtime = |ns: u64| {
            let is_part = window.runtime_ns > 0 && ns <= window.runtime_ns;
            is_part.then(|| ns as f64 * 100.0 / window.runtime_ns as f64)
        };
        match self {
            Figure::Noise => of_runtime(window.noise_ns),
            Figure::Gaps => (window.runtime_ns > 0)
                .then(|| window.lengths.count() as f64 * 1e9 / window.runtime_ns as f64),
            Figure::Percentile(rank) => {
                let [length_ns] = window.lengths.at_quantiles([f64::from(rank) / 10_000.0]);
                Some(length_ns.min(window.max_gap_ns) as f64)
            }
            Figure::Share(share) => window.share_ns(share).and_then(of_runtime),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_conditions() {
        for figure in Figure::all() {
            assert_eq!(Figure::from_name(figure.name()), Some(figure));
        }
        assert_eq!(Figure::from_name("p99.9"), Some(Figure::Percentile(9_990)));
        assert_eq!(Figure::from_name("p98"), None);
    }
}
