//! Tests of the metrics that a collector gets by OTLP. OpenTelemetry's own classes for Python
//! decode them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use vmnoise_testbed::{Disturber, VmnoiseRun};
use vmnoise_testkit::TestProcess;

use crate::exported::{OtlpMessage, between_scrapes};
use crate::harness::{PROGRAM, Serve};

/// A collector that prints each message and does not store it. It ends when this value is dropped.
struct Collector {
    _process: TestProcess,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Collector {
    /// Starts a collector with these answers to the first messages. It accepts all later messages.
    fn start(answers: &[&str]) -> Collector {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("python3");
        command
            .arg(root.join("tests/collector.py"))
            .args(answers)
            .env("PYTHONPATH", root.join("../../target/python"))
            .stdout(Stdio::piped());
        let mut process = TestProcess::start(&mut command);
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut address = String::new();
        stdout.read_line(&mut address).unwrap();
        Collector {
            _process: process,
            stdout,
            address: address.trim().to_owned(),
        }
    }

    /// Returns the next message that the collector gets.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Returns the next message that is made after this call.
    fn next_made(&mut self) -> OtlpMessage {
        let now_ns = utc_ns();
        loop {
            let exported = OtlpMessage::of(&self.next()["message"]);
            if exported.made_ns() >= now_ns {
                return exported;
            }
        }
    }
}

/// Returns the command of a server that sends metrics to this address every half second.
fn sends_to(address: &str) -> Command {
    let mut serve = Command::new(PROGRAM);
    serve.args(["--listen", "127.0.0.1:0", "--otlp", address]);
    serve.env("OTEL_METRIC_EXPORT_INTERVAL", "500");
    serve.stderr(Stdio::piped());
    serve
}

#[test]
fn a_collector_gets_what_a_scraper_finds_and_when_it_began() {
    let mut collector = Collector::start(&[]);
    let mut serve = sends_to(&collector.address);
    serve
        .env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20secret",
        )
        .env("OTEL_RESOURCE_ATTRIBUTES", "host.name=node%2C1");
    let begin_ns = utc_ns();
    let serve = Serve::of(&mut serve);
    let first = collector.next();
    assert_eq!(first["path"], "/v1/metrics");
    assert_eq!(first["headers"]["content-type"], "application/x-protobuf");
    assert_eq!(first["headers"]["authorization"], "Bearer secret");

    let run = VmnoiseRun::microvm(0, &["--duration", "60s"]).unwrap();
    let came_ns = utc_ns();
    let busy = Disturber::busy(0).unwrap();
    let vm = format!("vmnoise:{}", run.pid());
    serve.wait_until("a wait that is over", |metrics| {
        metrics.of(&format!("vmnoise_vcpu_wait_seconds_count{{vm=\"{vm}\"}}")) > 0.0
    });
    let exported = between_scrapes(&serve, || collector.next_made());
    exported.assert_buckets_hold_the_waits(&vm);

    let instance = exported.sender("service.instance.id");
    assert_eq!(exported.sender("service.name"), Some("vmnoise"));
    assert!(instance.is_some_and(|name| !name.is_empty()));
    assert_eq!(exported.sender("host.name"), Some("node,1"));
    let lost = exported.metric("vmnoise_vcpu_lost_seconds_total");
    assert_eq!(lost["unit"], "s");
    assert_eq!(lost["sum"]["isMonotonic"], true);
    // AGGREGATION_TEMPORALITY_CUMULATIVE of metrics.proto.
    assert_eq!(lost["sum"]["aggregationTemporality"], 2);

    // The VM's sums began after the last export before the VM came, half a second earlier.
    let (start_ns, time_ns) = exported.times_ns("vmnoise_vcpu_lost_seconds_total", &vm);
    assert!(start_ns >= begin_ns && start_ns < time_ns, "{start_ns}");
    assert!(time_ns <= utc_ns());
    println!(
        "a VM's sums began {} ms after it",
        (start_ns - came_ns) / 1_000_000
    );
    let (again_ns, _) = collector
        .next_made()
        .times_ns("vmnoise_vcpu_lost_seconds_total", &vm);
    assert_eq!(again_ns, start_ns, "each export says the same begin");
    drop((busy, run));
    let (status, said) = serve.end_and_say();
    assert!(status.success() && said.is_empty(), "{said}");
}

#[test]
fn one_that_takes_none_for_a_while_is_told_of_in_one_line_and_asked_again() {
    // After status 503, the collector requests a pause of two seconds. After status 400, the same
    // message must not be sent again.
    let mut collector = Collector::start(&["503", "503", "400"]);
    let serve = Serve::of(&mut sends_to(&collector.address));
    let mut before: Option<Instant> = None;
    for status in [503, 503, 400, 200, 200] {
        assert_eq!(collector.next()["status"], status);
        let now = Instant::now();
        if status != 200
            && let Some(before) = before
        {
            assert!(now - before >= Duration::from_secs(2), "{:?}", now - before);
        }
        before = Some(now);
    }
    let of = |outcome: &str| format!("vmnoise_otlp_exports_total{{outcome=\"{outcome}\"}}");
    serve.wait_until("exports", |metrics| metrics.of(&of("taken")) >= 2.0);
    assert_eq!(serve.metrics().of(&of("failed")), 3.0);
    let (status, said) = serve.end_and_say();
    assert!(status.success());
    let name = collector.address.replace("http://", "");
    let lines: Vec<&str> = said.lines().collect();
    let [fails, again] = lines[..] else {
        panic!("{said}")
    };
    assert!(fails.contains(&format!("{name} does not accept metrics: it answers 503")));
    assert!(again.contains(&format!("{name} accepts metrics again")));
}

#[test]
fn one_that_is_not_there_disturbs_nothing() {
    // No process listens at this address.
    let serve = Serve::of(&mut sends_to("http://localhost:1"));
    assert_eq!(serve.page("/-/ready"), "ready\n");
    let failed = "vmnoise_otlp_exports_total{outcome=\"failed\"}";
    serve.wait_until("an attempt", |metrics| metrics.of(failed) >= 1.0);
    let run = VmnoiseRun::microvm(0, &["--duration", "60s"]).unwrap();
    serve.wait_for(&format!("vmnoise_vcpus{{vm=\"vmnoise:{}\"}}", run.pid()));
    drop(run);
    let (status, said) = serve.end_and_say();
    assert!(status.success(), "{said}");
    let lines = said
        .lines()
        .filter(|line| line.contains("localhost:1 does not accept metrics"));
    assert_eq!(lines.count(), 1, "{said}");
}

#[test]
fn what_cannot_be_an_address_or_a_time_is_refused_at_the_start() {
    for (address, variable, value, word) in [
        ("here", "", "", "--otlp"),
        ("ftp://here", "", "", "neither http nor https"),
        ("http://here", "OTEL_METRIC_EXPORT_INTERVAL", "1m", "1m"),
        (
            "http://here",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "secret",
            "HEADERS",
        ),
        (
            "http://here",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "http/protobuf",
        ),
        (
            "http://here",
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "/none",
            "/none",
        ),
    ] {
        let mut serve = Command::new(PROGRAM);
        serve.args(["--listen", "127.0.0.1:0", "--otlp", address]);
        if !variable.is_empty() {
            serve.env(variable, value);
        }
        let output = serve.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(word), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

fn utc_ns() -> i64 {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_nanos().try_into().unwrap()
}
