//! A real Prometheus scrapes two servers, and answers the questions of an operator.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use vmnoise_testbed::bed::DebianProgram;
use vmnoise_testbed::{Disturber, VmnoiseRun};
use vmnoise_testkit::TestProcess;

use crate::harness::{RULES, Serve, get, get_as};

/// Time limit for an answer of Prometheus, also on a busy machine.
const BACKSTOP: Duration = Duration::from_secs(60);

/// A running Prometheus. It ends when this value is dropped.
struct Prometheus {
    _process: TestProcess,
    address: String,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes these targets once a second. It keeps its data in this
    /// folder.
    fn start(folder: &Path, targets: &[&Serve]) -> Prometheus {
        let targets = targets.iter().map(|it| it.host()).collect::<Vec<_>>();
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{RULES:?}]\n\
             scrape_configs: [{{job_name: vmnoise, static_configs: [{{targets: {targets:?}}}]}}]\n"
        );
        fs::write(&config, text).unwrap();
        // Prometheus cannot choose a free port and report it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = address.local_addr().unwrap().to_string();
        let program = DebianProgram::Prometheus
            .programs()
            .unwrap()
            .join("prometheus");
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=native-histograms")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Prometheus {
            _process: TestProcess::start(&mut command),
            address,
        }
    }

    /// Waits until this expression has a result. Returns the labels and the value of each series.
    fn answer(&self, expression: &str) -> Vec<Value> {
        let begin = Instant::now();
        loop {
            let encoded: String = expression
                .bytes()
                .map(|byte| format!("%{byte:02x}"))
                .collect();
            let answer = get(&self.address, &format!("/api/v1/query?query={encoded}"));
            let answer = answer.map(|text| serde_json::from_str::<Value>(&text).unwrap());
            if let Ok(answer) = answer {
                let series = answer["data"]["result"].as_array().unwrap();
                if !series.is_empty() {
                    return series.clone();
                }
            }
            assert!(begin.elapsed() < BACKSTOP, "{expression}: no answer");
            sleep(Duration::from_millis(200));
        }
    }
}

fn value(series: &Value) -> f64 {
    series["value"][1].as_str().unwrap().parse().unwrap()
}

#[test]
fn promql_says_which_vm_lost_most_to_whom_and_since_when() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = [Serve::start(), Serve::start()];
    let prometheus = Prometheus::start(folder.path(), &[&hosts[0], &hosts[1]]);
    let run = VmnoiseRun::microvm(1, &["--duration", "120s"]).unwrap();
    let vm = format!("vmnoise:{}", run.pid());
    // Both servers run on this machine, so each of them exports the VM.
    let seen = prometheus.answer(&format!("count(vmnoise_vcpus{{vm=\"{vm}\"}}) == 2"));
    assert_eq!(value(&seen[0]), 2.0);
    sleep(Duration::from_secs(5));
    let disturbed_from = std::time::SystemTime::now();
    let busy = Disturber::busy(1).unwrap().outranking().unwrap();
    sleep(Duration::from_secs(12));

    // Question: which VM lost most time?
    let lost = "sum by (vm) (rate(vmnoise_vcpu_lost_seconds_total{share=\"preempted\"}[5s]))";
    let most = prometheus.answer(&format!("topk(1, {lost})"));
    assert_eq!(most[0]["metric"]["vm"], vm.as_str(), "{most:?}");
    // Question: which task took this time?
    let culprits = format!("rate(vmnoise_vcpu_culprit_seconds_total{{vm=\"{vm}\"}}[5s])");
    let worst = prometheus.answer(&format!("topk(1, sum by (kind, culprit) ({culprits}))"));
    assert_eq!(worst[0]["metric"]["culprit"], "lab-disturb", "{worst:?}");
    assert_eq!(worst[0]["metric"]["kind"], "foreign", "{worst:?}");
    // Question: since when? The answer is the first time at which the neighbour is named.
    let series =
        format!("vmnoise_vcpu_culprit_seconds_total{{vm=\"{vm}\",culprit=\"lab-disturb\"}}");
    let first = format!("min(min_over_time(timestamp({series})[1m:1s]))");
    let first = value(&prometheus.answer(&first)[0]);
    let from = disturbed_from
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let later = first - from.as_secs_f64();
    println!("{vm} lost to lab-disturb, seen {later:.1} s after that began");
    // The tolerance covers the neighbour's first turn, the next scrape, and the rounding of the
    // subquery to a whole second. A busy machine may delay each of these by a second.
    assert!((-1.0..4.0).contains(&later), "{later} s");

    // Only the protobuf format contains native histograms.
    let waits = format!("histogram_count(vmnoise_vcpu_wait_seconds{{vm=\"{vm}\"}})");
    assert!(value(&prometheus.answer(&waits)[0]) > 0.0);
    let rules = prometheus.answer(&format!(
        "vmnoise:vm_culprit:rate5m{{vm=\"{vm}\",culprit=\"lab-disturb\"}}"
    ));
    assert_eq!(rules.len(), 2, "{rules:?}");
    drop((busy, run));
}

/// Returns the buckets of the first VM that has buckets, and the number of its waits.
fn buckets(text: &str) -> (Vec<(f64, f64)>, f64) {
    let series = |name: &str| {
        let start = format!("vmnoise_vcpu_wait_seconds_{name}{{");
        let lines = text.lines().filter(move |line| line.starts_with(&start));
        lines
            .map(|line| line.rsplit_once(' ').unwrap())
            .collect::<Vec<_>>()
    };
    let bound = |labels: &str| {
        let (_, rest) = labels.split_once("le=\"").unwrap();
        rest.split_once('"')
            .unwrap()
            .0
            .replace("+Inf", "inf")
            .parse()
            .unwrap()
    };
    let (count_of, count) = series("count")[0];
    let (_, vm) = count_of.split_once('{').unwrap();
    let vm = vm.trim_end_matches('}');
    let all = series("bucket");
    let of_vm = all.iter().filter(|(labels, _)| labels.contains(vm));
    let of_vm = of_vm.map(|(labels, value)| (bound(labels), value.parse().unwrap()));
    (of_vm.collect(), count.parse().unwrap())
}

#[test]
fn each_format_has_all_waits_up_to_infinity_and_no_bound_between() {
    let serve = Serve::start();
    let run = VmnoiseRun::microvm(0, &["--duration", "60s"]).unwrap();
    let busy = Disturber::busy(0).unwrap();
    serve.wait_for(&format!("vmnoise_vcpus{{vm=\"vmnoise:{}\"}}", run.pid()));
    sleep(Duration::from_secs(1));
    for media_type in ["text/plain", "application/openmetrics-text"] {
        let text = get_as(serve.host(), "/metrics", media_type).unwrap();
        let (buckets, count) = buckets(&text);
        assert!(count > 0.0, "{text}");
        assert_eq!(
            *buckets.last().unwrap(),
            (f64::INFINITY, count),
            "{media_type}"
        );
        // 1 s is the largest finite bound.
        assert_eq!(buckets[buckets.len() - 2].0, 1.0, "{media_type}");
        assert!(buckets.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1));
    }
    drop((busy, run));
}
