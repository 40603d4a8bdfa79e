//! Metric that counts exports.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

const NO_EXEMPLAR: Option<&Exemplar<[(&str, &str); 0], f64>> = None;

#[derive(Debug, Default)]
pub(super) struct Counts {
    taken: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    pub(super) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn register(registry: &mut Registry, counts: Arc<Counts>) {
    registry.register_collector(Box::new(Fares(counts)));
}

#[derive(Debug)]
struct Fares(Arc<Counts>);

impl Collector for Fares {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "otlp_exports",
            "Attempts to send the metrics to --otlp, by outcome",
            None,
            MetricType::Counter,
        )?;
        for (outcome, count) in [("taken", &self.0.taken), ("failed", &self.0.failed)] {
            family
                .encode_family(&[("outcome", outcome)])?
                .encode_counter(&count.load(Ordering::Relaxed), NO_EXEMPLAR)?;
        }
        Ok(())
    }
}
