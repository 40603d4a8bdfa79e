//! Begin of each series' sum. OTLP requires it for cumulative sums, and the counters do not contain
//! it.

use std::collections::HashMap;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::LabelPair;

/// Name of a metric and its labels.
type Series = (String, Vec<LabelPair>);

/// Begins of the series. A series has restarted if it was missing at the last export, or is lower
/// than then.
#[derive(Debug)]
pub(super) struct Starts {
    /// Last export, or the start of this process.
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
    /// Starts to count at `now_utc_ns`.
    pub(super) fn new(now_utc_ns: u64) -> Starts {
        Starts {
            last_utc_ns: now_utc_ns,
            told: HashMap::new(),
            now: HashMap::new(),
        }
    }

    /// Returns the begin of this series, which has this sum now.
    pub(super) fn of(&mut self, name: &str, labels: &[LabelPair], sum: f64) -> u64 {
        let series = (name.to_owned(), labels.to_vec());
        let start_utc_ns = match self.told.get(&series) {
            Some(told) if told.sum <= sum => told.start_utc_ns,
            _ => self.last_utc_ns,
        };
        self.now.insert(series, Told { start_utc_ns, sum });
        start_utc_ns
    }

    /// Ends an export. Series that were not in it are forgotten.
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
        // Another metric with the same labels is another series.
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
