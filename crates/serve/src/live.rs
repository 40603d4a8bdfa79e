//! The live page, and its data: the sums of all VMs, sent once a second.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use tokio::sync::watch::{Receiver, Sender};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use vmnoise_events::VmIdentity;

use crate::clock::{now_ns, seconds};
use crate::ledger::VmTotals;
use crate::watch::Watch;

/// Largest number of pages that may be open at a time. Each open page gets the sums of all VMs once
/// a second.
const READERS: usize = 16;
/// Content-Security-Policy of the page: the page may load only its own parts and its data.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Sums of all VMs at one instant.
#[derive(Debug, Serialize)]
struct Snapshot<'a> {
    /// The instant, CLOCK_MONOTONIC in s.
    at_s: f64,
    /// Begin of the sums, CLOCK_MONOTONIC in s.
    began: f64,
    vms: Vec<VmSnapshot<'a>>,
}

/// Sums of one VM; times are in s.
#[derive(Debug, Serialize)]
struct VmSnapshot<'a> {
    vm: &'a str,
    identity: &'a VmIdentity,
    vcpus: usize,
    ran: f64,
    lost: serde_json::Map<String, serde_json::Value>,
    culprits: Vec<CulpritSnapshot<'a>>,
    /// Time for which the longest current wait has lasted, in s.
    waiting: f64,
}

#[derive(Debug, Serialize)]
struct CulpritSnapshot<'a> {
    culprit: &'a str,
    kind: &'static str,
    cgroup: Option<&'a str>,
    seconds: f64,
}

/// Sends data to the open pages.
#[derive(Debug)]
pub(crate) struct Live {
    began_ns: u64,
    feed: Sender<Arc<str>>,
}

impl Live {
    pub(crate) fn begin() -> Live {
        Live {
            began_ns: now_ns(),
            feed: Sender::new("".into()),
        }
    }

    /// Sends the current sums, if a page is open.
    pub(crate) fn feed(&self, watch: &Watch) {
        if self.feed.receiver_count() == 0 {
            return;
        }
        let now_ns = now_ns();
        let snapshot = Snapshot {
            at_s: seconds(now_ns),
            began: seconds(self.began_ns),
            vms: watch.present().map(|vm| of(vm, now_ns)).collect(),
        };
        if let Ok(json) = serde_json::to_string(&snapshot) {
            self.feed.send_replace(json.into());
        }
    }
}

fn of(vm: &VmTotals, now_ns: u64) -> VmSnapshot<'_> {
    let lost = vm.lost.shares().into_iter();
    let named = vm.culprits.named().map(|(who, ns)| CulpritSnapshot {
        culprit: who.name.as_str(),
        kind: who.kind.name(),
        cgroup: who.cgroup.as_deref(),
        seconds: seconds(ns),
    });
    let others = CulpritSnapshot {
        culprit: "other",
        kind: "unknown",
        cgroup: None,
        seconds: seconds(vm.culprits.others_ns()),
    };
    VmSnapshot {
        vm: vm.label.as_str(),
        identity: &vm.identity,
        vcpus: vm.vcpus(),
        ran: seconds(vm.ran_ns),
        lost: lost
            .map(|(share, ns)| (share.to_owned(), seconds(ns).into()))
            .collect(),
        culprits: named.chain([others]).collect(),
        waiting: seconds(vm.longest_wait_ns(now_ns)),
    }
}

/// Returns the routes of the page, its parts and its data.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(live: Arc<Live>) -> Router<S> {
    let script = include_str!("../page/live.js");
    // The page uses the style sheet of a report.
    let style = [vmnoise_report::STYLE, include_str!("../page/live.css")].concat();
    Router::new()
        .route("/", get(async || page()))
        .route(
            "/live.js",
            get(async move || part("text/javascript", script)),
        )
        .route(
            "/live.css",
            get(async move || part("text/css", style.clone())),
        )
        .route("/events", get(events))
        .with_state(live)
}

fn page() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, include_str!("../page/live.html")).into_response()
}

fn part(media_type: &'static str, text: impl IntoResponse) -> Response {
    let headers = [
        (CONTENT_TYPE, media_type),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}

async fn events(State(live): State<Arc<Live>>) -> Response {
    if live.feed.receiver_count() >= READERS {
        let words =
            format!("{READERS} pages are open already: close one; /metrics has the same data\n");
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    }
    let receiver: Receiver<Arc<str>> = live.feed.subscribe();
    let events = WatchStream::from_changes(receiver)
        .map(|json| Ok::<_, Infallible>(Event::default().data(json)));
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn so_many_pages_may_be_open_and_no_more() {
        let live = Arc::new(Live::begin());
        let mut open = Vec::new();
        for _ in 0..READERS {
            open.push(events(State(Arc::clone(&live))).await);
        }
        assert!(open.iter().all(|it| it.status() == StatusCode::OK));
        let refused = events(State(Arc::clone(&live))).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        // Closing a page makes room for another page.
        drop(open.pop());
        let status = events(State(Arc::clone(&live))).await.status();
        assert_eq!(status, StatusCode::OK);
    }
}
