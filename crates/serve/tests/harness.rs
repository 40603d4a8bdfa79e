//! Starts `vmnoise serve` for a test, and reads its metrics.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use vmnoise_testkit::{TestProcess, wait_until_every};

/// The packaged rules for Prometheus.
pub const RULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/prometheus/vmnoise.rules.yml"
);

pub use vmnoise_testbed::metrics::Metrics;

/// Path of `vmnoise-serve`.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_vmnoise-serve");
/// Time between two scrapes of a test that waits.
const SCRAPE: Duration = Duration::from_millis(100);

/// A running server. It ends when this value is dropped.
pub struct Serve {
    process: TestProcess,
    address: String,
}

impl Serve {
    pub fn start() -> Serve {
        Serve::with(&[])
    }

    pub fn with(arguments: &[&str]) -> Serve {
        let mut command = Command::new(PROGRAM);
        Serve::of(command.args(["--listen", "127.0.0.1:0"]).args(arguments))
    }

    /// Starts a server by this command. The cost limit is 100 % unless the test sets it. A debug
    /// build that is scraped ten times a second would exceed the default limit, and pause.
    pub fn of(command: &mut Command) -> Serve {
        if !command.get_args().any(|word| word == "--cost-limit") {
            command.args(["--cost-limit", "100"]);
        }
        let mut process = TestProcess::start(command.stdout(Stdio::piped()));
        let mut said = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        let (_, address) = said.split_once("://").unwrap();
        let (address, _) = address.split_once('/').unwrap();
        Serve {
            address: address.to_owned(),
            process,
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the address and port of the server.
    pub fn host(&self) -> &str {
        &self.address
    }

    /// Returns the URL of a page.
    pub fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.address.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Requests the server to end, as a service manager does. Waits for its end.
    pub fn end(mut self) -> ExitStatus {
        self.ask_to_end();
        self.process.wait().unwrap()
    }

    /// Requests the server to end. Returns its exit status and its stderr, which must be piped.
    pub fn end_and_say(mut self) -> (ExitStatus, String) {
        self.ask_to_end();
        let mut said = String::new();
        let mut stderr = self.process.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap(), said)
    }

    fn ask_to_end(&self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Returns the body of a page.
    pub fn page(&self, path: &str) -> String {
        get(&self.address, path).unwrap()
    }

    pub fn metrics(&self) -> Metrics {
        Metrics::of_text(&self.page("/metrics"))
    }

    /// Waits until this series exists.
    pub fn wait_for(&self, name: &str) {
        self.wait_until(name, |metrics| metrics.has(name));
    }

    /// Waits until the metrics meet a condition.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&Metrics) -> bool) {
        wait_until_every(SCRAPE, what, || is_so(&self.metrics()));
    }
}

/// Returns the body of a page of a server.
pub fn get(host: &str, path: &str) -> io::Result<String> {
    get_as(host, path, "*/*")
}

/// Returns the body of a page of a server. `media_type` is the content of the `Accept` header.
pub fn get_as(host: &str, path: &str, media_type: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: {media_type}\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(answer)),
    }
}
