//! Environment variables of OpenTelemetry exporters (OpenTelemetry specification, "Environment
//! Variables").

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use percent_encoding::percent_decode_str;

/// Address of a local collector for OTLP over HTTP.
const HERE: &str = "http://localhost:4318";

/// Returns the value of an exporter's variable. The variable for metrics takes precedence over the
/// variable for all signals. An empty variable counts as unset.
fn of_exporter(what: &str) -> Option<String> {
    set(&format!("OTEL_EXPORTER_OTLP_METRICS_{what}"))
        .or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{what}")))
}

fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the URL for metrics. It is below the URL `named`, or comes from the environment if
/// `named` is `None`.
pub(super) fn address(named: Option<&str>) -> String {
    let below = |base: String| format!("{}/v1/metrics", base.trim_end_matches('/'));
    if let Some(named) = named {
        return below(named.to_owned());
    }
    // The variable for metrics contains the complete URL.
    set("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        .unwrap_or_else(|| below(set("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or(HERE.into())))
}

/// Checks that the protocol in the environment is supported.
///
/// # Errors
/// If it is not supported.
pub(super) fn check_protocol() -> Result<()> {
    let protocol = of_exporter("PROTOCOL");
    let is_ours = protocol
        .as_deref()
        .is_none_or(|named| named == "http/protobuf");
    ensure!(
        is_ours,
        "OTEL_EXPORTER_OTLP_PROTOCOL={} is not supported: set it to http/protobuf, and name the port of OTLP over HTTP (4318 by default)",
        protocol.unwrap_or_default()
    );
    Ok(())
}

/// Returns the HTTP headers of each message.
///
/// # Errors
/// If the variable is not a list of pairs.
pub(super) fn headers() -> Result<BTreeMap<String, String>> {
    let pairs = pairs(&of_exporter("HEADERS").unwrap_or_default());
    // The error quotes no value, since a value may be a secret.
    pairs.context("OTEL_EXPORTER_OTLP_HEADERS does not have the form name=value,name=value")
}

/// Returns the file with the certificates that verify the collector's certificate.
pub(super) fn certificate() -> Option<String> {
    of_exporter("CERTIFICATE")
}

/// Returns the time limit of one attempt to send.
///
/// # Errors
/// If the variable is not a valid time.
pub(super) fn timeout() -> Result<Duration> {
    milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", of_exporter("TIMEOUT"), 10_000)
}

/// Returns the time between two exports.
///
/// # Errors
/// If the variable is not a valid time.
pub(super) fn interval() -> Result<Duration> {
    const NAME: &str = "OTEL_METRIC_EXPORT_INTERVAL";
    milliseconds(NAME, set(NAME), 60_000)
}

/// Returns attributes of the sender from the environment. They complement the facts about this
/// host.
///
/// # Errors
/// If the variable is not a list of attributes.
pub(super) fn resource() -> Result<BTreeMap<String, String>> {
    let said = set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let mut resource = pairs(&said).with_context(|| {
        format!("OTEL_RESOURCE_ATTRIBUTES={said} does not have the form name=value,name=value")
    })?;
    if let Some(name) = set("OTEL_SERVICE_NAME") {
        resource.insert("service.name".into(), name);
    }
    Ok(resource)
}

fn milliseconds(name: &str, said: Option<String>, otherwise: u64) -> Result<Duration> {
    let Some(said) = said else {
        return Ok(Duration::from_millis(otherwise));
    };
    match said.parse() {
        Ok(ms @ 1..) => Ok(Duration::from_millis(ms)),
        _ => bail!("{name}={said} is not a number of milliseconds: write 10000 for ten seconds"),
    }
}

/// Parses a list of names and values. Values are percent-encoded (W3C Baggage without properties).
fn pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let pairs = text.split(',').map(str::trim);
    let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_as_opentelemetry_writes_them() {
        // Examples of the specification's pages "Protocol Exporter" and "Resource SDK", and a token
        // in base64.
        for (text, known) in [
            ("", &[][..]),
            (
                "api-key=key,other-config-value=value",
                &[("api-key", "key"), ("other-config-value", "value")],
            ),
            (
                "authorization=Basic%20YTpi+w==",
                &[("authorization", "Basic YTpi+w==")],
            ),
            (" a = 1%2C2 , b= ,", &[("a", "1,2"), ("b", "")]),
        ] {
            let pairs = pairs(text).expect(text);
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(a, b)| (a.as_str(), b.as_str()))
                .collect();
            assert_eq!(pairs, known, "{text}");
        }
        assert_eq!(pairs("key"), None);
        assert_eq!(pairs("key=%ff"), None);
    }

    #[test]
    fn what_is_named_is_the_base_of_the_address() {
        for named in ["http://h:4318", "http://h:4318/"] {
            assert_eq!(address(Some(named)), "http://h:4318/v1/metrics");
        }
        assert_eq!(address(Some("https://h/otlp")), "https://h/otlp/v1/metrics");
    }

    #[test]
    fn times_are_whole_milliseconds() {
        let read = |said: Option<&str>| milliseconds("NAME", said.map(str::to_owned), 7);
        assert_eq!(read(None).expect("the default"), Duration::from_millis(7));
        assert_eq!(
            read(Some("500")).expect("a time"),
            Duration::from_millis(500)
        );
        for wrong in ["0", "-1", "10s", ""] {
            let said = read(Some(wrong)).expect_err(wrong).to_string();
            assert!(said.starts_with(&format!("NAME={wrong} ")), "{said}");
        }
    }
}
