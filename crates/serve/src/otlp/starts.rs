//! Begin of each series' sum. OTLP requires this begin for cumulative sums, and the counters do not
//! contain it.

use std::collections::HashMap;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::LabelPair;

/// Key of a series: the name of the metric, and the labels.
type Series = (String, Vec<LabelPair>);

/// Begin of the sum of each series. A sum begins again if its series was missing at the last
/// export, or if it is smaller than at the last export.
#[derive(Debug)]
pub(super) struct Starts {
    /// Time of the last export. Before the first export, the start of this process.
    last_utc_ns: u64,
    told: HashMap<Series, Told>,
    now: HashMap<Series, Told>,
}

#[derive(Debug)]
struct Told {
    start_utc_ns: u64,
    sum: f64,
}

impl Starts {
    /// Creates the list. Sums begin at `now_utc_ns` at the earliest.
    pub(super) fn new(now_utc_ns: u64) -> Starts {
        Starts {
            last_utc_ns: now_utc_ns,
            told: HashMap::new(),
            now: HashMap::new(),
        }
    }

    /// Returns the begin of the sum of this series (UTC in ns). `sum` is its current value.
    pub(super) fn of(&mut self, name: &str, labels: &[LabelPair], sum: f64) -> u64 {
        let series = (name.to_owned(), labels.to_vec());
        let start_utc_ns = match self.told.get(&series) {
            Some(told) if told.sum <= sum => told.start_utc_ns,
            _ => self.last_utc_ns,
        };
        self.now.insert(series, Told { start_utc_ns, sum });
        start_utc_ns
    }

    /// Ends an export. Forgets series that were not in this export.
    pub(super) fn turn(&mut self, now_utc_ns: u64) {
        self.told = std::mem::take(&mut self.now);
        self.last_utc_ns = now_utc_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(name: &str) -> Vec<LabelPair> {
        let (name, value) = ("vm".into(), name.into());
        vec![LabelPair { name, value }]
    }

    #[test]
    fn who_comes_later_or_begins_anew_began_after_the_export_before() {
        let mut starts = Starts::new(100);
        assert_eq!(starts.of("lost", &vm("web"), 5.0), 100);
        starts.turn(200);
        assert_eq!(starts.of("lost", &vm("web"), 5.0), 100);
        assert_eq!(starts.of("lost", &vm("db"), 1.0), 200);
        // Two metrics with the same labels are different series.
        assert_eq!(starts.of("wait", &vm("db"), 1.0), 200);
        starts.turn(300);
        assert_eq!(starts.of("lost", &vm("web"), 4.0), 300);
        assert_eq!(starts.of("lost", &vm("db"), 2.0), 200);
        starts.turn(400);
        assert_eq!(starts.of("lost", &vm("web"), 4.5), 300);
        // This series was missing in the last export.
        starts.turn(500);
        assert_eq!(starts.of("lost", &vm("db"), 9.0), 500);
    }
}
