//! Compares metrics that were received by OTLP with scrapes before and after.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Metrics, Serve};

/// An OTLP message, converted to JSON by OpenTelemetry's rules.
pub struct OtlpMessage(Value);

/// Value of one series.
struct Point {
    value: f64,
    /// Whether the value never decreases.
    is_sum: bool,
}

impl OtlpMessage {
    pub fn of(message: &Value) -> OtlpMessage {
        OtlpMessage(message["resourceMetrics"][0].clone())
    }

    /// Returns an attribute of the message's sender.
    pub fn sender(&self, key: &str) -> Option<&str> {
        attribute(&self.0["resource"]["attributes"], key)
    }

    pub fn metrics(&self) -> &[Value] {
        list(&self.0["scopeMetrics"][0]["metrics"])
    }

    /// Returns the data points of a metric of any type.
    pub fn points(metric: &Value) -> &[Value] {
        let kinds = ["sum", "gauge", "exponentialHistogram"].into_iter();
        let data = kinds.filter_map(|kind| metric.get(kind)).next().unwrap();
        list(&data["dataPoints"])
    }

    pub fn metric(&self, name: &str) -> &Value {
        let mut metrics = self.metrics().iter();
        metrics.find(|metric| metric["name"] == name).unwrap()
    }

    /// Returns each series with its name in Prometheus' text format. Buckets of histograms are left
    /// out.
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

    /// Checks a message that was made between two scrapes. Each sum must lie between the sums of
    /// the scrapes. Each series that is in both scrapes must be in the message.
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
            // The text format has fewer digits than a double that holds some days in seconds.
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

    /// Checks that the buckets contain all waits, and that the bounds of the buckets fit the sum of
    /// the waits. The check fails if all buckets are shifted by one.
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
            // The lowest bucket, below 0.95 us, also contains all shorter waits.
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
    /// scrape is never later than this time.
    pub fn made_ns(&self) -> i64 {
        let points = self.metrics().iter().flat_map(OtlpMessage::points);
        let mut times = points.map(|point| whole(&point["timeUnixNano"]));
        times.next().unwrap()
    }

    /// Returns the begin of the sum of this series, and the time of its point in the message. Both
    /// are in ns of UTC.
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

/// Scrapes, waits for the message `next`, scrapes again, and compares the message with both
/// scrapes.
pub fn between_scrapes(serve: &Serve, next: impl FnOnce() -> OtlpMessage) -> OtlpMessage {
    let before = serve.metrics();
    let exported = next();
    exported.assert_between(&before, &serve.metrics());
    exported
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Parses an integer. In this JSON, a 64-bit integer is a string, a 32-bit integer is a number, and
/// 0 is missing.
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
