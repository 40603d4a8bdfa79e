//! Hourly summaries for queries over many hosts. They are small files of the data set that
//! docs/data.md describes.

mod delivery;
mod destination;
mod hour;
mod metrics;
mod period;
mod queue;
mod sums;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use vmnoise_host::Host;
use vmnoise_rights::threads;

use crate::clock::{now_ns, own_cpu};
use crate::say::say;
use crate::watch::Watch;

pub(crate) use destination::Destination;
use period::{Instant, Itself, Period};
use queue::{Parcel, Queue};

/// Longest time for which the end of this process waits for the last summaries.
const AT_THE_END: Duration = Duration::from_secs(10);

/// The current period, and the queue of summaries for delivery.
#[derive(Debug)]
pub(crate) struct Summaries {
    host: String,
    period: Period,
    queue: Arc<Queue>,
}

impl Summaries {
    /// Begins the first period. Starts the thread that delivers summaries, which has no other
    /// rights. Only this thread waits for a slow destination.
    ///
    /// # Errors
    /// If this machine has no name, or the thread cannot be started.
    pub(crate) fn begin(destination: Destination, watch: &Watch) -> Result<Summaries> {
        let facts = Host::here()
            .facts()
            .context("reading the facts about this host")?;
        let name = facts.name.map(|name| name.to_string());
        let host = name.filter(|name| !name.is_empty()).context(
            "this machine has no host name, by which --summaries distinguishes hosts: set one (hostname(1))",
        )?;
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        threads::spawn("summaries", &[], move || {
            delivery::deliver(&destination, &theirs);
        })
        .context("starting the thread that delivers summaries")?;
        Ok(Summaries {
            host,
            period: Period::begin(now(), itself(watch), watch.present()),
            queue,
        })
    }

    /// Registers the metrics about deliveries.
    pub(crate) fn register(&self, registry: &mut Registry) {
        metrics::register(registry, Arc::clone(&self.queue));
    }

    /// Takes the sums of ended VMs, and starts a new period when an hour ends. Call this function
    /// after each poll.
    pub(crate) fn look(&mut self, watch: &Watch) {
        for vm in watch.left() {
            self.period.vm_ended(vm);
        }
        if self.period.is_over(now().utc) {
            self.turn(watch);
        }
    }

    /// Queues the summary of the incomplete hour. Waits at most [`AT_THE_END`] for the delivery.
    pub(crate) fn end(mut self, watch: &Watch) {
        self.turn(watch);
        let left = self.queue.close(AT_THE_END);
        if left > 0 {
            say(&format!(
                "{left} summaries were not delivered within {AT_THE_END:?}, and are lost"
            ));
        }
    }

    /// Ends the period, and begins the next period at the same instant.
    fn turn(&mut self, watch: &Watch) {
        let (now, itself) = (now(), itself(watch));
        let next = Period::begin(now, itself, watch.present());
        let over = std::mem::replace(&mut self.period, next);
        let hour = over.end(now, itself, watch.present());
        let place = hour.place(&self.host);
        match hour.parquet() {
            Ok(bytes) => self.queue.push(Parcel { place, bytes }),
            Err(error) => say(&format!("a summary is lost: {error}")),
        }
    }
}

fn now() -> Instant {
    Instant {
        utc: Timestamp::now(),
        mono_ns: now_ns(),
    }
}

fn itself(watch: &Watch) -> Itself {
    Itself {
        missed_events: watch.missed(),
        vcpus_without_room: watch.without_room(),
        self_cpu_ns: u64::try_from(own_cpu().as_nanos()).unwrap_or(u64::MAX),
        probe_ns: watch.probe_ns(),
    }
}
