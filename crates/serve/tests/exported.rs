//! Metrics received by OTLP, compared with scrapes before and after.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Metrics, Serve};

/// A message of OTLP as JSON, by OpenTelemetry's rules.
pub struct OtlpMessage(Value);

/// A value of one series, and the begin of its count.
struct Point {
    value: f64,
    /// True if it only grows.
    is_sum: bool,
}

impl OtlpMessage {
    pub fn of(message: &Value) -> OtlpMessage {
        OtlpMessage(message["resourceMetrics"][0].clone())
    }

    /// Returns an attribute of the sender.
    pub fn sender(&self, key: &str) -> Option<&str> {
        attribute(&self.0["resource"]["attributes"], key)
    }

    pub fn metrics(&self) -> &[Value] {
        list(&self.0["scopeMetrics"][0]["metrics"])
    }

    /// Returns the points of a metric of any kind.
    pub fn points(metric: &Value) -> &[Value] {
        let kinds = ["sum", "gauge", "exponentialHistogram"].into_iter();
        let data = kinds.filter_map(|kind| metric.get(kind)).next().unwrap();
        list(&data["dataPoints"])
    }

    pub fn metric(&self, name: &str) -> &Value {
        let mut metrics = self.metrics().iter();
        metrics.find(|metric| metric["name"] == name).unwrap()
    }

    /// Returns each series in the form of Prometheus' text, without the buckets of histograms.
    fn series(&self) -> BTreeMap<String, Point> {
        let mut all = BTreeMap::new();
        for metric in self.metrics() {
            let name = metric["name"].as_str().unwrap();
            let is_sum = metric["gauge"].is_null();
            for point in OtlpMessage::points(metric) {
                let labels = labels(&point["attributes"]);
                let mut add = |name: &str, value: f64| {
                    all.insert(format!("{name}{labels}"), Point { value, is_sum });
                };
                if metric["exponentialHistogram"].is_null() {
                    add(name, point["asDouble"].as_f64().unwrap_or(0.0));
                } else {
                    add(&format!("{name}_count"), whole(&point["count"]) as f64);
                    add(&format!("{name}_sum"), point["sum"].as_f64().unwrap());
                }
            }
        }
        all
    }

    /// Checks a message that was made between two scrapes: each sum lies between theirs, and each
    /// series of both is in it.
    pub fn assert_between(&self, before: &Metrics, after: &Metrics) {
        let series = self.series();
        let is_bucket = |name: &str| name.contains("_bucket{");
        for (name, value) in before.beginning("") {
            if is_bucket(name) || !after.has(name) {
                continue;
            }
            let Some(point) = series.get(name) else {
                panic!("{name} is scraped, and not exported: {:?}", series.keys());
            };
            // The text has fewer digits than a double of some days in seconds.
            let latest = after.of(name) + 1e-9;
            assert!(
                !point.is_sum || (value - 1e-9..=latest).contains(&point.value),
                "{name}: {value}, exported {}, {latest}",
                point.value
            );
        }
        for name in series.keys() {
            assert!(
                before.has(name) || after.has(name),
                "{name} is exported, and not scraped"
            );
        }
    }

    /// Checks that the buckets hold all waits, and that their bounds fit the sum of the waits. If
    /// each bucket were moved by one, this would fail.
    pub fn assert_buckets_hold_the_waits(&self, vm: &str) {
        let metric = self.metric("vmnoise_vcpu_wait_seconds");
        let mut points = OtlpMessage::points(metric).iter();
        let is_of_vm = |point: &&Value| attribute(&point["attributes"], "vm") == Some(vm);
        let point = points.find(is_of_vm).unwrap();
        let (scale, offset) = (whole(&point["scale"]), whole(&point["positive"]["offset"]));
        let counts = list(&point["positive"]["bucketCounts"]).iter().map(whole);
        let bound = |index: i64| (index as f64 / f64::from(1 << scale)).exp2();
        let (mut least, mut most, mut all) = (0.0, 0.0, 0);
        for (index, count) in (offset..).zip(counts) {
            // The lowest bucket, below 0.95 us, also holds shorter waits.
            let from = if index == -41 { 0.0 } else { bound(index) };
            least += from * count as f64;
            most += bound(index + 1) * count as f64;
            all += count;
        }
        let sum = point["sum"].as_f64().unwrap();
        assert_eq!(all, whole(&point["count"]), "{point}");
        assert!(
            all > 0 && (least..=most).contains(&sum),
            "{least} {most} {point}"
        );
    }

    /// Returns the time of the message, in ns of UTC. One thread serves and exports, so an earlier
    /// scrape is not younger.
    pub fn made_ns(&self) -> i64 {
        let points = self.metrics().iter().flat_map(OtlpMessage::points);
        let mut times = points.map(|point| whole(&point["timeUnixNano"]));
        times.next().unwrap()
    }

    /// Returns the begin of this series, and its time in the message, in ns of UTC.
    pub fn times_ns(&self, metric: &str, vm: &str) -> (i64, i64) {
        let mut points = OtlpMessage::points(self.metric(metric)).iter();
        let is_of_vm = |point: &&Value| attribute(&point["attributes"], "vm") == Some(vm);
        let point = points.find(is_of_vm).unwrap();
        (
            whole(&point["startTimeUnixNano"]),
            whole(&point["timeUnixNano"]),
        )
    }
}

/// Scrapes, waits for another message, and scrapes again.
pub fn between_scrapes(serve: &Serve, next: impl FnOnce() -> OtlpMessage) -> OtlpMessage {
    let before = serve.metrics();
    let exported = next();
    exported.assert_between(&before, &serve.metrics());
    exported
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Parses an integer: in this JSON, 64 bits are a string, 32 bits are a number, and 0 is absent.
fn whole(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().unwrap(),
        Value::Null => 0,
        number => number.as_i64().unwrap(),
    }
}

fn attribute<'a>(attributes: &'a Value, key: &str) -> Option<&'a str> {
    let mut attributes = list(attributes).iter();
    let found = attributes.find(|it| it["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

/// Formats labels as in Prometheus' text.
fn labels(attributes: &Value) -> String {
    let labels = list(attributes).iter().map(|it| {
        let value = it["value"]["stringValue"].as_str().unwrap();
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{}=\"{value}\"", it["key"].as_str().unwrap())
    });
    let labels: Vec<String> = labels.collect();
    if labels.is_empty() {
        return String::new();
    }
    format!("{{{}}}", labels.join(","))
}
