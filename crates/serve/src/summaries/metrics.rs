//! Metrics about the summaries.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::queue::Queue;

const NO_EXEMPLAR: Option<&Exemplar<[(&str, &str); 0], f64>> = None;

pub(super) fn register(registry: &mut Registry, queue: Arc<Queue>) {
    registry.register_collector(Box::new(Fares(queue)));
}

#[derive(Debug)]
struct Fares(Arc<Queue>);

impl Collector for Fares {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.counts();
        let mut counter = |name, help, count: u64| {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter(&count, NO_EXEMPLAR)
        };
        counter(
            "summaries_delivered",
            "Hourly summaries that were delivered to --summaries",
            counts.delivered,
        )?;
        counter(
            "summaries_dropped",
            "Hourly summaries that were lost because too many waited",
            counts.dropped,
        )?;
        encoder
            .encode_descriptor(
                "summaries_waiting",
                "Hourly summaries that wait for delivery",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&i64::try_from(counts.waiting).unwrap_or(i64::MAX))
    }
}
