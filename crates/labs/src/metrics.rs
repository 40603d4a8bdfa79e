//! What a server says under `/metrics`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

/// The text that a server at this address and port has there.
///
/// # Errors
/// If nobody is there, or it answers something else.
pub fn scrape(host: &str) -> Result<String> {
    let mut stream = TcpStream::connect(host).with_context(|| host.to_owned())?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{host}: {head}");
    Ok(body.to_owned())
}

/// The value of each series, under its name with its labels.
#[derive(Debug, Clone)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Of Prometheus' text format, without its comments.
    ///
    /// # Panics
    /// If it is none.
    pub fn of_text(text: &str) -> Metrics {
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let series = series.map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        });
        Metrics(series.collect())
    }

    /// Whether there is this series.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What one series says; 0 if it is not there.
    pub fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Those that begin so, with what follows.
    pub fn beginning(&self, with: &str) -> Vec<(&str, f64)> {
        let all = self.0.iter();
        all.filter_map(|(name, value)| Some((name.strip_prefix(with)?, *value)))
            .collect()
    }
}
