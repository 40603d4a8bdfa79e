//! What it may still do while it serves: what docs/security.md says, and no more.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use vmnoise_labs::Run;
use vmnoise_labs::footprint::Held;

use crate::harness::{Metrics, Serve};

/// CAP_BPF of capabilities(7).
const BPF: u64 = 1 << 39;

/// A line of /proc/PID/task/TID/status.
fn line<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
    lines.find(|(known, _)| *known == name).unwrap().1.trim()
}

#[test]
fn each_thread_has_what_the_table_says_and_serves_on() {
    let serve = Serve::start();
    // It finds a VM that comes later, and answers: nothing that it needs for that is gone.
    let run = Run::microvm(0, &["--duration", "60s"]).unwrap();
    let name = format!("vmnoise:{}", run.pid());
    serve.wait_for(&format!(
        "vmnoise_vcpu_time_seconds_total{{vm=\"{name}\",state=\"running\"}}"
    ));
    let threads = fs::read_dir(format!("/proc/{}/task", serve.pid())).unwrap();
    for thread in threads {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let bits = |name| u64::from_str_radix(line(&status, name), 16).unwrap();
        assert_eq!((bits("CapPrm"), bits("CapEff")), (BPF, BPF), "{status}");
        for none in ["CapInh", "CapBnd", "CapAmb"] {
            assert_eq!(bits(none), 0, "{none}: {status}");
        }
        assert_eq!(line(&status, "NoNewPrivs"), "1", "{status}");
        assert_eq!(line(&status, "Seccomp"), "2", "{status}");
    }
    assert_eq!(serve.page("/-/ready"), "ready\n");
    assert!(serve.end().success());
}

#[test]
fn what_costs_too_much_is_detached_and_its_time_is_unseen_until_it_is_attached_again() {
    // A scrape costs more than that, and its first pause is over after a minute.
    let serve = Serve::with(&["--cost-limit", "0.0001"]);
    let run = Run::microvm(0, &["--duration", "150s"]).unwrap();
    let vm = format!("vmnoise:{}", run.pid());
    let share = |metrics: &Metrics, family: &str, label: &str| {
        metrics.of(&format!(
            "vmnoise_vcpu_{family}_seconds_total{{vm=\"{vm}\",{label}}}"
        ))
    };
    let running = |metrics: &Metrics| share(metrics, "time", "state=\"running\"");
    let unseen = |metrics: &Metrics| share(metrics, "lost", "share=\"unseen\"");
    serve.wait_until("it pauses", |metrics| metrics.of("vmnoise_paused") == 1.0);
    // A look later nothing that it does is known.
    sleep(Duration::from_secs(3));
    let (first, at) = (serve.metrics(), Instant::now());
    let programs = Held::by(serve.pid()).unwrap().links;
    sleep(Duration::from_secs(5));
    let (last, wall) = (serve.metrics(), at.elapsed().as_secs_f64());
    assert_eq!(running(&last), running(&first));
    let passed = unseen(&last) - unseen(&first);
    println!("{passed} s of {wall} s were not seen");
    // A scrape takes a moment.
    assert!((passed - wall).abs() < 0.2 + wall * 0.05, "{passed} {wall}");
    // The walk over all tasks alone is left.
    assert_eq!(programs.len(), 1, "{programs:?}");
    // Nothing was counted twice, or given back.
    let all = |metrics: &Metrics| {
        let families = ["lost_seconds_total", "time_seconds_total"];
        let of = |family| metrics.beginning(&format!("vmnoise_vcpu_{family}{{vm=\"{vm}\""));
        let all = families.map(of).into_iter().flatten();
        all.map(|(_, seconds)| seconds).sum::<f64>()
    };
    for _ in 0..600 {
        sleep(Duration::from_millis(200));
        if serve.metrics().of("vmnoise_paused") == 0.0 {
            break;
        }
    }
    // It runs again, and is seen.
    let begin = running(&last);
    serve.wait_until("it runs", |metrics| running(metrics) > begin);
    let (end, wall) = (serve.metrics(), at.elapsed().as_secs_f64());
    let held = all(&end) - all(&first);
    println!("{held} s of {wall} s are in its sums");
    assert!((held - wall).abs() < 0.5 + wall * 0.01, "{held} {wall}");
    assert_eq!(end.of("vmnoise_pauses_total"), 1.0);
    drop(run);
}
