//! Tests a pause because of the cost, from its begin to its end.

use std::thread::sleep;
use std::time::{Duration, Instant};

use vmnoise_testbed::VmnoiseRun;
use vmnoise_testbed::footprint::OpenDescriptors;

use crate::harness::{Metrics, Serve};

pub fn assert_time_is_unseen_in_a_pause() {
    // The cost of a scrape exceeds this limit. The first pause ends after a minute.
    let serve = Serve::with(&["--cost-limit", "0.0001"]);
    let run = VmnoiseRun::microvm(0, &["--duration", "150s"]).unwrap();
    let vm = format!("vmnoise:{}", run.pid());
    let share = |metrics: &Metrics, family: &str, label: &str| {
        metrics.of(&format!(
            "vmnoise_vcpu_{family}_seconds_total{{vm=\"{vm}\",{label}}}"
        ))
    };
    let running = |metrics: &Metrics| share(metrics, "time", "state=\"running\"");
    let unseen = |metrics: &Metrics| share(metrics, "lost", "share=\"unseen\"");
    serve.wait_until("it pauses", |metrics| metrics.of("vmnoise_paused") == 1.0);
    // From the next poll on, the state of the VM is unknown.
    sleep(Duration::from_secs(3));
    let (first, at) = (serve.metrics(), Instant::now());
    let programs = OpenDescriptors::by(serve.pid()).unwrap().links;
    sleep(Duration::from_secs(5));
    let (last, wall) = (serve.metrics(), at.elapsed().as_secs_f64());
    assert_eq!(running(&last), running(&first));
    let passed = unseen(&last) - unseen(&first);
    println!("{passed} s of {wall} s were not seen");
    // The tolerance covers the time that a scrape takes.
    assert!((passed - wall).abs() < 0.2 + wall * 0.05, "{passed} {wall}");
    // Only two programs are left, which walk over all tasks: one finds vCPUs, and one confirms
    // their times.
    assert_eq!(programs.len(), 2, "{programs:?}");
    // No time was counted twice, and no sum decreased.
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
    // The VM is observed again.
    let begin = running(&last);
    serve.wait_until("it runs", |metrics| running(metrics) > begin);
    let (end, wall) = (serve.metrics(), at.elapsed().as_secs_f64());
    let held = all(&end) - all(&first);
    println!("{held} s of {wall} s are in its sums");
    assert!((held - wall).abs() < 0.5 + wall * 0.01, "{held} {wall}");
    assert_eq!(end.of("vmnoise_pauses_total"), 1.0);
    // The same applies to this machine's own CPUs, if it is a guest.
    let waits = "vmnoise_wakeup_wait_seconds_count";
    if end.has(waits) {
        serve.wait_until("waits of tasks", |it| it.of(waits) > last.of(waits));
    }
    drop(run);
}
