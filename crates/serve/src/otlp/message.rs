//! Converts Prometheus metrics to an OTLP message. It follows OpenTelemetry's rules (OpenTelemetry
//! specification, "Prometheus and OpenMetrics Compatibility"). Names and labels stay the same.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{
    self as prometheus, BucketSpan, LabelPair, MetricFamily, MetricType,
};

use super::starts::Starts;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// Returns a message with all metrics at `now_utc_ns`.
pub(super) fn message(
    resource: &Resource,
    families: Vec<MetricFamily>,
    starts: &mut Starts,
    now_utc_ns: u64,
) -> ExportMetricsServiceRequest {
    let metrics = families
        .into_iter()
        .filter(|family| !family.metric.is_empty())
        .filter_map(|family| metric(family, starts, now_utc_ns))
        .collect();
    starts.turn(now_utc_ns);
    let scope = InstrumentationScope {
        name: "vmnoise".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource.clone()),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope),
                metrics,
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    }
}

/// Converts one family of metrics; returns `None` for types that do not occur in this program.
fn metric(family: MetricFamily, starts: &mut Starts, now_utc_ns: u64) -> Option<Metric> {
    let (name, kind) = (&family.name, family.r#type());
    let data = match kind {
        MetricType::Counter => {
            let points = family.metric.into_iter().filter_map(|series| {
                let counter = series.counter?;
                let start = starts.of(name, &series.label, counter.value);
                Some(NumberDataPoint {
                    start_time_unix_nano: start.min(now_utc_ns),
                    exemplars: counter.exemplar.into_iter().map(exemplar).collect(),
                    ..number(series.label, counter.value, now_utc_ns)
                })
            });
            metric::Data::Sum(Sum {
                data_points: points.collect(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            })
        }
        MetricType::Gauge => {
            let points = family.metric.into_iter().filter_map(|series| {
                let value = series.gauge?.value;
                Some(number(series.label, value, now_utc_ns))
            });
            metric::Data::Gauge(Gauge {
                data_points: points.collect(),
            })
        }
        MetricType::Histogram => {
            let points = family.metric.into_iter().filter_map(|series| {
                let histogram = series.histogram?;
                let start = starts.of(name, &series.label, histogram.sample_sum);
                let start = start.min(now_utc_ns);
                Some(waits(series.label, &histogram, start, now_utc_ns))
            });
            metric::Data::ExponentialHistogram(ExponentialHistogram {
                data_points: points.collect(),
                aggregation_temporality: CUMULATIVE,
            })
        }
        _ => return None,
    };
    Some(Metric {
        name: family.name,
        description: family.help,
        unit: unit(family.unit),
        data: Some(data),
        ..Metric::default()
    })
}

/// Converts a unit to UCUM.
fn unit(word: String) -> String {
    match word.as_str() {
        "seconds" => "s".into(),
        _ => word,
    }
}

fn number(labels: Vec<LabelPair>, value: f64, now_utc_ns: u64) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        time_unix_nano: now_utc_ns,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn exemplar(exemplar: prometheus::Exemplar) -> Exemplar {
    Exemplar {
        filtered_attributes: attributes(exemplar.label),
        time_unix_nano: exemplar.timestamp.map_or(0, |time| {
            let seconds = u64::try_from(time.seconds).unwrap_or(0);
            seconds * 1_000_000_000 + u64::try_from(time.nanos).unwrap_or(0)
        }),
        value: Some(
            opentelemetry_proto::tonic::metrics::v1::exemplar::Value::AsDouble(exemplar.value),
        ),
        ..Exemplar::default()
    }
}

/// Converts a histogram. Its buckets are the same in both formats if the scale equals the schema.
/// Prometheus numbers a bucket by its upper edge, OpenTelemetry by its lower edge.
fn waits(
    labels: Vec<LabelPair>,
    histogram: &prometheus::Histogram,
    start_utc_ns: u64,
    now_utc_ns: u64,
) -> ExponentialHistogramDataPoint {
    let (offset, bucket_counts) = buckets(&histogram.positive_span, &histogram.positive_delta);
    ExponentialHistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: start_utc_ns,
        time_unix_nano: now_utc_ns,
        count: histogram.sample_count,
        sum: Some(histogram.sample_sum),
        scale: histogram.schema,
        zero_count: histogram.zero_count,
        zero_threshold: histogram.zero_threshold,
        positive: Some(Buckets {
            offset: offset - 1,
            bucket_counts,
        }),
        ..ExponentialHistogramDataPoint::default()
    }
}

/// Returns the index of the first bucket, and the counts of all buckets from there on. Buckets
/// between two spans have the count 0.
fn buckets(spans: &[BucketSpan], deltas: &[i64]) -> (i32, Vec<u64>) {
    let (mut counts, mut deltas) = (Vec::new(), deltas.iter());
    let mut count = 0;
    for (index, span) in spans.iter().enumerate() {
        if index > 0 {
            let hole = usize::try_from(span.offset).unwrap_or(0);
            counts.resize(counts.len() + hole, 0);
        }
        for delta in deltas.by_ref().take(span.length as usize) {
            count += delta;
            counts.push(count.unsigned_abs());
        }
    }
    (spans.first().map_or(0, |span| span.offset), counts)
}

fn attributes(labels: Vec<LabelPair>) -> Vec<KeyValue> {
    let labels = labels.into_iter();
    labels
        .map(|label| attribute(label.name, label.value))
        .collect()
}

pub(super) fn attribute(key: String, value: String) -> KeyValue {
    let value = AnyValue {
        value: Some(any_value::Value::StringValue(value)),
    };
    KeyValue {
        key,
        value: Some(value),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_stand_side_by_side_without_a_hole() {
        let span = |offset, length| BucketSpan { offset, length };
        // Counts by bucket: 5 in bucket -3, 7 in bucket -2, 0 in buckets -1 and 0, and 1 in bucket
        // 1.
        let spans = [span(-3, 2), span(2, 1)];
        assert_eq!(buckets(&spans, &[5, 2, -6]), (-3, vec![5, 7, 0, 0, 1]));
        // Prometheus represents an empty histogram in this form.
        assert_eq!(buckets(&[span(0, 0)], &[]), (0, vec![]));
    }
}
