//! Sends the metrics to a collector of OpenTelemetry by OTLP over HTTP, once a minute by default.

mod collector;
mod counts;
mod delivery;
mod environment;
mod message;
mod starts;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::registry::Registry;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use vmnoise_host::Host;
use vmnoise_rights::threads;

use crate::say::say;
use collector::Collector;
use counts::Counts;
use starts::Starts;

/// Longest time for which the end of this process waits for the last message.
const AT_THE_END: Duration = Duration::from_secs(3);
/// File with the unique id of a Linux installation (machine-id(5)). Containers do not have it.
const MACHINE_ID: &str = "/etc/machine-id";

/// Collector, resource and interval, as read before sending begins.
#[derive(Debug)]
pub(crate) struct Target {
    collector: Collector,
    resource: Resource,
    interval: Duration,
}

impl Target {
    /// Reads the target from `--otlp`, or from the environment if `named` is `None`. Call this
    /// function before rights are dropped.
    ///
    /// # Errors
    /// If the URL or the environment is invalid.
    pub(crate) fn of(named: Option<&str>) -> Result<Target> {
        Ok(Target {
            collector: Collector::of(named)?,
            resource: resource()?,
            interval: environment::interval()?,
        })
    }
}

/// Sender of the metrics.
#[derive(Debug)]
pub(crate) struct Exports {
    resource: Resource,
    interval: Duration,
    starts: Starts,
    newest: watch::Sender<Vec<u8>>,
    is_over: mpsc::Receiver<()>,
    counts: Arc<Counts>,
}

impl Exports {
    /// Starts the thread that delivers messages, which has no other rights. Only this thread waits
    /// for a slow collector.
    ///
    /// # Errors
    /// If the thread or its client cannot be started.
    pub(crate) fn begin(target: Target) -> Result<Exports> {
        let Target {
            collector,
            resource,
            interval,
        } = target;
        let (newest, theirs) = watch::channel(Vec::new());
        let (over, is_over) = mpsc::channel();
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting the client of --otlp")?;
        threads::spawn("otlp", &[], move || {
            runtime.block_on(delivery::deliver(&collector, theirs, counted));
            let _ = over.send(());
        })
        .context("starting the thread that exports metrics")?;
        Ok(Exports {
            resource,
            interval,
            starts: Starts::new(now_utc_ns()),
            newest,
            is_over,
            counts,
        })
    }

    /// Registers the metrics about deliveries.
    pub(crate) fn register(&self, registry: &mut Registry) {
        counts::register(registry, Arc::clone(&self.counts));
    }

    /// Exports for ever. Exports once at the begin, so that the log shows early if the collector
    /// cannot be reached.
    pub(crate) async fn go_on(&mut self, registry: &Registry) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.export(registry);
        }
    }

    /// Sends the final sums. Waits at most [`AT_THE_END`] for their delivery.
    pub(crate) fn end(mut self, registry: &Registry) {
        self.export(registry);
        drop(self.newest);
        if self.is_over.recv_timeout(AT_THE_END).is_err() {
            say(&format!(
                "the last metrics were not accepted within {AT_THE_END:?}, and are lost"
            ));
        }
    }

    fn export(&mut self, registry: &Registry) {
        match prometheus_protobuf::encode(registry) {
            Ok(families) => {
                let now = now_utc_ns();
                let message = message::message(&self.resource, families, &mut self.starts, now);
                self.newest.send_replace(message.encode_to_vec());
            }
            Err(error) => say(&format!("metrics could not be exported: {error}")),
        }
    }
}

/// Returns the sender's attributes: this program on this host. The environment may change them.
fn resource() -> Result<Resource> {
    let mut resource = BTreeMap::from([
        ("service.name", "vmnoise".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    let facts = Host::here()
        .facts()
        .context("reading the facts about this host")?;
    if let Some(name) = facts.name {
        // A host has only one sender. The alert rules identify a host by its instance.
        resource.insert("service.instance.id", name.to_string());
        resource.insert("host.name", name.to_string());
    }
    if let Ok(id) = fs::read_to_string(Path::new(MACHINE_ID)) {
        resource.insert("host.id", id.trim().to_owned());
    }
    let ours = resource.into_iter();
    let mut all: BTreeMap<String, String> = ours.map(|(key, it)| (key.to_owned(), it)).collect();
    all.extend(environment::resource()?);
    let attributes = all.into_iter();
    Ok(Resource {
        attributes: attributes
            .map(|(key, value)| message::attribute(key, value))
            .collect(),
        ..Resource::default()
    })
}

fn now_utc_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
