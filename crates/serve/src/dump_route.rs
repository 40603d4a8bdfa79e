//! The flight recorder over HTTP: the answer to `POST /dump` is a recording.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::{Deserialize, Serialize};
use vmnoise_serve_arguments::parse_length_ns;

use crate::flight::Wanted;
use crate::watch::Watch;

/// Path of this request in the URL.
pub(crate) const PATH: &str = "/dump";

/// Query of a request. Its names are the option names of `vmnoise dump`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vm: Option<String>,
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(watch: Arc<Mutex<Watch>>) -> Router<S> {
    Router::new().route(PATH, post(dump)).with_state(watch)
}

async fn dump(
    State(watch): State<Arc<Mutex<Watch>>>,
    Query(question): Query<Question>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = refuse_pages(&headers) {
        return refused;
    }
    let last_ns = question.last.as_deref().map(parse_length_ns).transpose();
    let wanted = match last_ns {
        Ok(last_ns) => Wanted {
            last_ns,
            vm: question.vm.as_deref().map(Into::into),
            vmm_pid: None,
        },
        Err(error) => return (StatusCode::BAD_REQUEST, format!("last: {error}\n")).into_response(),
    };
    let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(vm) = &wanted.vm
        && !watch.vms().any(|known| known.label == *vm)
    {
        return unknown(vm);
    }
    match watch.recording(&wanted) {
        Ok(recording) => attached(recording),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")).into_response(),
    }
}

/// Refuses requests from web pages. A browser sends the `Origin` header with such requests. The
/// pages of this server never request dumps.
pub(crate) fn refuse_pages(headers: &HeaderMap) -> Option<Response> {
    let words = "web pages may not request dumps: use `vmnoise dump`\n";
    let is_of_page = headers.contains_key(ORIGIN);
    is_of_page.then(|| (StatusCode::FORBIDDEN, words).into_response())
}

/// Returns the answer for a name that no VM has.
pub(crate) fn unknown(vm: &str) -> Response {
    let words = format!("no VM is called `{vm}`; /metrics has the names of all VMs\n");
    (StatusCode::NOT_FOUND, words).into_response()
}

/// Returns an answer with a recording as a file.
pub(crate) fn attached(recording: Vec<u8>) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/vnd.apache.arrow.stream"),
        (CONTENT_DISPOSITION, "attachment; filename=\"dump.vmn\""),
    ];
    (headers, recording).into_response()
}
