//! The metrics, sent to a collector by OTLP over HTTP (OpenTelemetry), each minute or so.

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

/// How long the end of this process waits for the last one.
const AT_THE_END: Duration = Duration::from_secs(3);
/// What identifies a Linux that is no container (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// What is sent, to whom and how often, before it begins.
#[derive(Debug)]
pub(crate) struct Target {
    collector: Collector,
    resource: Resource,
    interval: Duration,
}

impl Target {
    /// What `--otlp` names, or the environment where it names nothing. Needs rights that this process has only at
    /// first.
    ///
    /// # Errors
    /// If it names no collector, or the environment has nonsense for it.
    pub(crate) fn of(named: Option<&str>) -> Result<Target> {
        Ok(Target {
            collector: Collector::of(named)?,
            resource: resource()?,
            interval: environment::interval()?,
        })
    }
}

/// Exports that go on.
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
    /// Begins a thread that has no right but to deliver: whatever it waits for, nobody waits for it.
    ///
    /// # Errors
    /// If that cannot be had.
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

    /// Has a metric of how they fare.
    pub(crate) fn register(&self, registry: &mut Registry) {
        counts::register(registry, Arc::clone(&self.counts));
    }

    /// For ever: the first at once, so that the log says early who does not take it.
    pub(crate) async fn go_on(&mut self, registry: &Registry) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.export(registry);
        }
    }

    /// Sends what there is at the end, and waits a little for it.
    pub(crate) fn end(mut self, registry: &Registry) {
        self.export(registry);
        drop(self.newest);
        if self.is_over.recv_timeout(AT_THE_END).is_err() {
            say(&format!(
                "the last metrics were not taken in {AT_THE_END:?}, and are not sent"
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

/// Who sends: this program on this host, if the environment does not know better.
fn resource() -> Result<Resource> {
    let mut resource = BTreeMap::from([
        ("service.name", "vmnoise".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    let facts = Host::here().facts().context("reading what this host is")?;
    if let Some(name) = facts.name {
        // One of it runs on a host, and the rules for alerts call a host by its instance.
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
