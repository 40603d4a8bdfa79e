//! When the sum of each series began, which the books do not know: a cumulative sum of OTLP has to say it.

use std::collections::HashMap;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::LabelPair;

/// The name of a metric and its labels.
type Series = (String, Vec<LabelPair>);

/// A series that was not there at the last export, or is lower than it was, began anew since then.
#[derive(Debug)]
pub(super) struct Starts {
    /// The last export, or the begin of it all.
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
    /// What is counted is counted from now on.
    pub(super) fn new(now_utc_ns: u64) -> Starts {
        Starts {
            last_utc_ns: now_utc_ns,
            told: HashMap::new(),
            now: HashMap::new(),
        }
    }

    /// When the series began that says this now.
    pub(super) fn of(&mut self, name: &str, labels: &[LabelPair], sum: f64) -> u64 {
        let series = (name.to_owned(), labels.to_vec());
        let start_utc_ns = match self.told.get(&series) {
            Some(told) if told.sum <= sum => told.start_utc_ns,
            _ => self.last_utc_ns,
        };
        self.now.insert(series, Told { start_utc_ns, sum });
        start_utc_ns
    }

    /// All series of an export were asked for. Those that were not are forgotten.
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
        // Another metric of the same labels is another series.
        assert_eq!(starts.of("wait", &vm("db"), 1.0), 200);
        starts.turn(300);
        assert_eq!(starts.of("lost", &vm("web"), 4.0), 300);
        assert_eq!(starts.of("lost", &vm("db"), 2.0), 200);
        starts.turn(400);
        assert_eq!(starts.of("lost", &vm("web"), 4.5), 300);
        // This one was away for a while.
        starts.turn(500);
        assert_eq!(starts.of("lost", &vm("db"), 9.0), 500);
    }
}
