//! The HTTP server, and the main loop of the program.

use std::future::pending;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::{prometheus_protobuf, prometheus_text, text};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use vmnoise_feed::FeedAddress;

use crate::asking;
use crate::connections::Limited;
use crate::dump_route;
use crate::exits_route;
use crate::guards::Guards;
use crate::live::{self, Live};
use crate::metrics;
use crate::otlp::Exports;
use crate::say::say;
use crate::service_manager::ServiceManager;
use crate::summaries::Summaries;
use crate::tls::TlsListener;
use crate::token;
use crate::watch::Watch;

/// Interval of polls of the vCPUs.
const LOOK: Duration = Duration::from_secs(1);

/// Format of the metrics in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Protobuf,
    OpenMetrics,
    Text,
}

impl Format {
    /// Returns the best format that the scraper accepts. Only protobuf supports native histograms.
    fn of(headers: &HeaderMap) -> Format {
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let accept = accept.unwrap_or_default();
        if accept.contains("application/vnd.google.protobuf") {
            Format::Protobuf
        } else if accept.contains("application/openmetrics-text") {
            Format::OpenMetrics
        } else {
            Format::Text
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    fn encode(self, registry: &Registry) -> Result<Vec<u8>> {
        let mut said = String::new();
        match self {
            Format::Protobuf => return Ok(prometheus_protobuf::encode_to_vec(registry)?),
            Format::OpenMetrics => text::encode(&mut said, registry)?,
            Format::Text => prometheus_text::encode(&mut said, registry)?,
        }
        Ok(said.into_bytes())
    }
}

/// Serves until a signal ends the program. `listener` must not block.
///
/// # Errors
/// If accepting connections fails.
pub(crate) async fn serve(
    listener: TcpListener,
    guards: Guards,
    watch: Arc<Mutex<Watch>>,
    mut summaries: Option<Summaries>,
    mut otlp: Option<Exports>,
    guests: &[FeedAddress],
    manager: &ServiceManager,
) -> Result<()> {
    let mut registry = metrics::registry(Arc::clone(&watch));
    if let Some(summaries) = &summaries {
        summaries.register(&mut registry);
    }
    if let Some(otlp) = &otlp {
        otlp.register(&mut registry);
    }
    let registry = Arc::new(registry);
    let address = listener.local_addr()?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let live = Arc::new(Live::begin());
    let token = Arc::new(guards.token);
    let pages = Router::new()
        .merge(exits_route::routes(Arc::clone(&watch)))
        .merge(live::routes(Arc::clone(&live)))
        .merge(dump_route::routes(Arc::clone(&watch)))
        .route("/metrics", get(scraped))
        .with_state(Arc::clone(&registry))
        .layer(from_fn_with_state(token, token::check))
        // These routes need no token, because they reveal only that the server runs.
        .route("/-/healthy", get(async || "up\n"))
        .route("/-/ready", get(async || "ready\n"));
    asking::hear_all(guests, &watch);
    let mut dump = signal(SignalKind::user_defined1())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let scheme = if guards.tls.is_some() {
        "https"
    } else {
        "http"
    };
    println!("serving {scheme}://{address}/ and its /metrics");
    manager.ready();
    let serving: Pin<Box<dyn Future<Output = io::Result<()>>>> = match guards.tls {
        Some(acceptor) => {
            let listener = Limited::new(TlsListener::new(listener, acceptor));
            Box::pin(axum::serve(listener, pages).into_future())
        }
        None => Box::pin(axum::serve(Limited::new(listener), pages).into_future()),
    };
    // Requests in progress at the end are dropped. The scraper sends the next request anyway.
    tokio::select! {
        served = serving => served.context("serving")?,
        () = look(&watch, &live, &mut summaries, manager) => {}
        () = dump_when_told(&watch, &mut dump) => {}
        () = export(otlp.as_mut(), &registry) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    manager.stopping();
    let locked = || watch.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(exits) = locked().exits() {
        exits.end();
    }
    if let Some(otlp) = otlp {
        otlp.end(&registry);
    }
    if let Some(summaries) = summaries {
        let mut watch = locked();
        watch.take_in_now();
        summaries.end(&watch);
    }
    Ok(())
}

/// Polls for ever. If a poll hangs, the service manager gets no more sign of life. If a poll fails,
/// for lack of memory or of files, the next poll tries again.
async fn look(
    watch: &Mutex<Watch>,
    live: &Live,
    summaries: &mut Option<Summaries>,
    manager: &ServiceManager,
) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fails = false;
    loop {
        ticks.tick().await;
        let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = watch.look();
        live.feed(&watch);
        if let Some(summaries) = summaries {
            summaries.look(&watch);
        }
        drop(watch);
        match looked {
            Err(error) if !fails => {
                say(&format!(
                    "new vCPUs cannot be found now: {error}; the next attempt is in a second"
                ));
                fails = true;
            }
            Err(_) => {}
            Ok(()) => fails = false,
        }
        manager.alive();
    }
}

/// Exports metrics to the collector for ever. Without a collector, waits for ever.
async fn export(otlp: Option<&mut Exports>, registry: &Registry) {
    match otlp {
        Some(otlp) => otlp.go_on(registry).await,
        None => pending().await,
    }
}

/// Writes a dump for each SIGUSR1, for ever.
async fn dump_when_told(watch: &Mutex<Watch>, told: &mut Signal) {
    while told.recv().await.is_some() {
        let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = watch.dump() {
            say(&format!("SIGUSR1 asks for a dump, but {why}"));
        }
    }
}

async fn scraped(State(registry): State<Arc<Registry>>, headers: HeaderMap) -> Response {
    let format = Format::of(&headers);
    match format.encode(&registry) {
        Ok(metrics) => ([(CONTENT_TYPE, format.media_type())], metrics).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")).into_response(),
    }
}
