//! Reads the metrics that a server exports under `/metrics`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

/// Returns the text of the metrics that the server at `host` (address and port) exports.
///
/// # Errors
/// If no server answers, or its answer is not 200.
pub fn scrape(host: &str) -> Result<String> {
    let mut stream = TcpStream::connect(host).with_context(|| host.to_owned())?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{host}: {head}");
    Ok(body.to_owned())
}

/// Values of Prometheus series, by the name of the series with its labels.
#[derive(Debug, Clone)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Parses Prometheus' text format, and leaves out the comments.
    ///
    /// # Panics
    /// If the text has another format.
    pub fn of_text(text: &str) -> Metrics {
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let series = series.map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        });
        Metrics(series.collect())
    }

    /// Returns whether a series of this name and labels exists.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the value of a series; 0 if it is missing.
    pub fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Returns the series whose names begin with `with`: for each, the rest of the name and the
    /// value.
    pub fn beginning(&self, with: &str) -> Vec<(&str, f64)> {
        let all = self.0.iter();
        all.filter_map(|(name, value)| Some((name.strip_prefix(with)?, *value)))
            .collect()
    }
}
