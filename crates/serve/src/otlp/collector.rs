//! Whoever collects: one message sent, and what is answered.

use std::fmt::Write;
use std::fs;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, StatusCode, Url};

use super::environment;
use crate::tls;

/// More of an answer is not read.
const ANSWER: usize = 64 << 10;
/// More of what it says is not told.
const WORDS: usize = 200;

#[derive(Debug)]
pub(super) struct Collector {
    client: Client,
    address: Url,
}

/// Why a message was not taken.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) why: String,
    /// Whether, and after what time, the same may be sent again.
    pub(super) again: Option<Duration>,
}

/// `google.rpc.Status`, as far as it is read: what is wrong, for a developer.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

impl Collector {
    /// The one that is named, or that variables of the environment name. Needs rights that this process has only at
    /// first.
    ///
    /// # Errors
    /// If this names none, or what is said of it cannot be used.
    pub(super) fn of(named: Option<&str>) -> Result<Collector> {
        environment::check_protocol()?;
        let address = environment::address(named);
        let url = Url::parse(&address).with_context(|| format!("--otlp: {address} is no URL"))?;
        ensure!(
            ["http", "https"].contains(&url.scheme()),
            "--otlp: {address} is not of http or https: http://localhost:4318 is"
        );
        tls::choose_provider();
        let mut client = Client::builder()
            .default_headers(headers()?)
            .timeout(environment::timeout()?)
            // What is sent elsewhere by 301 is no longer a POST.
            .redirect(Policy::none());
        if let Some(file) = environment::certificate() {
            let context = || format!("OTEL_EXPORTER_OTLP_CERTIFICATE={file}");
            let pem = fs::read(&file).with_context(context)?;
            let certificates = Certificate::from_pem_bundle(&pem).with_context(context)?;
            client = client.tls_certs_only(certificates);
        }
        let client = client.build();
        Ok(Collector {
            client: client.context("--otlp: starting its client")?,
            address: url,
        })
    }

    /// Its host and port, which are no secret as a query may be.
    pub(super) fn name(&self) -> String {
        self.address
            .authority()
            .rsplit('@')
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Whether it takes all of this.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) async fn take(&self, message: Vec<u8>) -> Result<(), Refusal> {
        let sent = self.client.post(self.address.clone()).body(message).send();
        match sent.await {
            Ok(response) => judge(response).await,
            Err(error) => Err(Refusal {
                why: format!("{:#}", anyhow::Error::from(error.without_url())),
                again: Some(Duration::ZERO),
            }),
        }
    }
}

fn headers() -> Result<HeaderMap> {
    let mut headers = HeaderMap::from_iter([
        (
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-protobuf"),
        ),
        (
            USER_AGENT,
            HeaderValue::from_static(concat!("vmnoise/", env!("CARGO_PKG_VERSION"))),
        ),
    ]);
    for (name, value) in environment::headers()? {
        let context = || format!("OTEL_EXPORTER_OTLP_HEADERS: {name} cannot be a header of HTTP");
        let key = HeaderName::from_str(&name).with_context(context)?;
        let mut value = HeaderValue::from_str(&value).with_context(context)?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// By "OTLP/HTTP Response" of the specification.
async fn judge(response: Response) -> Result<(), Refusal> {
    use StatusCode as Code;
    let status = response.status();
    let after = response.headers().get(RETRY_AFTER).and_then(time_after);
    let answer = body(response).await;
    if status.is_success() {
        return judge_part(&answer);
    }
    let again = [
        Code::TOO_MANY_REQUESTS,
        Code::BAD_GATEWAY,
        Code::SERVICE_UNAVAILABLE,
        Code::GATEWAY_TIMEOUT,
    ];
    let mut why = format!("it answers {status}");
    let said = Status::decode(&*answer).map(|status| status.message);
    let said = said.unwrap_or_else(|_| String::from_utf8_lossy(&answer).into_owned());
    if !said.trim().is_empty() {
        let said: String = said.trim().chars().take(WORDS).collect();
        let _ = write!(why, ": {said}");
    }
    Err(Refusal {
        why,
        again: again
            .contains(&status)
            .then(|| after.unwrap_or(Duration::ZERO)),
    })
}

/// It may take a part, and the rest is not to be sent again.
fn judge_part(answer: &[u8]) -> Result<(), Refusal> {
    let said = ExportMetricsServiceResponse::decode(answer).unwrap_or_default();
    match said.partial_success {
        Some(part) if part.rejected_data_points > 0 => Err(Refusal {
            why: format!(
                "it refuses {} values: {}",
                part.rejected_data_points, part.error_message
            ),
            again: None,
        }),
        _ => Ok(()),
    }
}

async fn body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER {
            break;
        }
    }
    body
}

/// `Retry-After`, which is a number of seconds or a date.
fn time_after(header: &HeaderValue) -> Option<Duration> {
    let said = header.to_str().ok()?;
    match said.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let date = httpdate::parse_http_date(said).ok()?;
            date.duration_since(SystemTime::now()).ok()
        }
    }
}
