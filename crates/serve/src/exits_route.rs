//! Exits of one VM over HTTP: `POST /exits` records the exits of a VM for some time. The answer
//! contains the recording.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::{Deserialize, Serialize};
use vmnoise_serve_arguments::parse_stretch_ns;

use crate::dump_route::{attached, refuse_pages, unknown};
use crate::exits::Refusal;
use crate::watch::Watch;

/// Path of this request in the URL.
pub(crate) const PATH: &str = "/exits";

/// Query of a request: name of the VM, and length of the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) vm: String,
    #[serde(rename = "for", default = "ten_seconds")]
    pub(crate) length: String,
}

fn ten_seconds() -> String {
    "10s".to_owned()
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(watch: Arc<Mutex<Watch>>) -> Router<S> {
    Router::new().route(PATH, post(exits)).with_state(watch)
}

async fn exits(
    State(watch): State<Arc<Mutex<Watch>>>,
    Query(question): Query<Question>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = refuse_pages(&headers) {
        return refused;
    }
    let length = match parse_stretch_ns(&question.length) {
        Ok(ns) => Duration::from_nanos(ns),
        Err(error) => return (StatusCode::BAD_REQUEST, format!("for: {error}\n")).into_response(),
    };
    let asked = {
        let watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.request_exits(&question.vm.as_str().into(), length)
    };
    match asked {
        // If the client hangs up, this future is dropped, which ends the recording.
        Ok(asked) => match asked.await {
            Ok(recording) => attached(recording),
            Err(_) => {
                let words = "the exits could not be recorded: see the log of `vmnoise serve`\n";
                (StatusCode::INTERNAL_SERVER_ERROR, words).into_response()
            }
        },
        Err(refusal) => refused(refusal, &question.vm),
    }
}

fn refused(refusal: Refusal, vm: &str) -> Response {
    let (status, words) = match refusal {
        Refusal::Unknown => return unknown(vm),
        Refusal::NotOffered => (
            StatusCode::NOT_FOUND,
            "exits are not recorded on request: start `vmnoise serve` with `--exits-on request`\n",
        ),
        Refusal::Busy => (
            StatusCode::CONFLICT,
            "exits of a VM are being recorded: ask again later\n",
        ),
        Refusal::Rests => (
            StatusCode::CONFLICT,
            "exits are not recorded now, because they cost more than --cost-limit allows: ask again later\n",
        ),
    };
    (status, words).into_response()
}
