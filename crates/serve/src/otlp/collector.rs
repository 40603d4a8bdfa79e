//! The collector of OpenTelemetry: sends one message, and reads the answer.

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

/// Largest number of bytes that are read of an answer.
const ANSWER: usize = 64 << 10;
/// Largest number of characters of an answer that are logged.
const WORDS: usize = 200;

#[derive(Debug)]
pub(super) struct Collector {
    client: Client,
    address: Url,
}

/// Reason why the collector refused a message.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) why: String,
    /// Shortest time until the same message may be sent again; `None` if it must not be sent again.
    pub(super) again: Option<Duration>,
}

/// The field of `google.rpc.Status` that is read: an error message for developers.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

impl Collector {
    /// Returns the collector with the URL `named`. If `named` is `None`, the environment names the
    /// collector. Call this function before rights are dropped.
    ///
    /// # Errors
    /// If the URL or the environment is invalid.
    pub(super) fn of(named: Option<&str>) -> Result<Collector> {
        environment::check_protocol()?;
        let address = environment::address(named);
        let url =
            Url::parse(&address).with_context(|| format!("--otlp: {address} is not a URL"))?;
        ensure!(
            ["http", "https"].contains(&url.scheme()),
            "--otlp: {address} is neither http nor https: write http://localhost:4318, for example"
        );
        tls::choose_provider();
        let mut client = Client::builder()
            .default_headers(headers()?)
            .timeout(environment::timeout()?)
            // A redirect with status 301 would turn the POST into a GET.
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

    /// Returns host and port of the collector, for log messages. The rest of the URL may contain a
    /// secret.
    pub(super) fn name(&self) -> String {
        self.address
            .authority()
            .rsplit('@')
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the collector does not accept the whole message.
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
        let context = || format!("OTEL_EXPORTER_OTLP_HEADERS: {name} cannot be an HTTP header");
        let key = HeaderName::from_str(&name).with_context(context)?;
        let mut value = HeaderValue::from_str(&value).with_context(context)?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Evaluates an answer as "OTLP/HTTP Response" of the specification requires.
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

/// Evaluates the answer of a success. The collector may have refused a part, which must not be sent
/// again.
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

/// Returns the waiting time in a `Retry-After` header, which is a number of seconds or a date.
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
