//! Tests that a neighbour with a known CPU time is the only named culprit, with this time.

use std::thread::sleep;
use std::time::{Duration, Instant};

use vmnoise_host::Host;
use vmnoise_testbed::schedstat::{self, Schedstat};
use vmnoise_testbed::urgency::set_thread_fifo;
use vmnoise_testbed::{Disturber, Group, VmnoiseRun, skipped};

use crate::harness::{Metrics, Serve};

/// Relative tolerance. The kernel and the BPF program read the clock at slightly different
/// instants, and a hypervisor below may take time in between.
const STAMPS: f64 = 0.02;

/// Returns the last CPU that this test may use.
fn cpu() -> u32 {
    *Host::here().allowed_cpus().unwrap().last().unwrap()
}

fn lost(metrics: &Metrics, vm: &str) -> f64 {
    let shares = ["preempted", "throttled", "idle", "unsure"];
    let of = |share| {
        let name = format!("vmnoise_vcpu_lost_seconds_total{{vm=\"{vm}\",share=\"{share}\"}}");
        metrics.of(&name)
    };
    shares.map(of).iter().sum()
}

fn culprit(metrics: &Metrics, vm: &str, kind: &str, name: &str) -> f64 {
    metrics.of(&format!(
        "vmnoise_vcpu_culprit_seconds_total{{vm=\"{vm}\",kind=\"{kind}\",culprit=\"{name}\"}}"
    ))
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// Starts a VM that polls all the time. Returns its name in the metrics, and its vCPU's thread id.
fn vm(serve: &Serve, cpu: u32) -> (VmnoiseRun, String, u32) {
    let run = VmnoiseRun::microvm(cpu, &["--duration", "60s"]).unwrap();
    let name = format!("vmnoise:{}", run.pid());
    serve.wait_for(&format!(
        "vmnoise_vcpu_time_seconds_total{{vm=\"{name}\",state=\"running\"}}"
    ));
    let tid = run.vcpu_tid().unwrap();
    (run, name, tid)
}

/// Scheduler counters of two threads before and after a scrape, and the scraped metrics.
struct Look {
    begin: Instant,
    before: [Schedstat; 2],
    metrics: Metrics,
    after: [Schedstat; 2],
    end: Instant,
}

impl Look {
    fn at(serve: &Serve, threads: [(u32, u32); 2]) -> Look {
        let stats = || threads.map(|(pid, tid)| schedstat::read(pid, tid).unwrap());
        Look {
            begin: Instant::now(),
            before: stats(),
            metrics: serve.metrics(),
            after: stats(),
            end: Instant::now(),
        }
    }

    /// Returns the longest time in seconds for which the first thread may have slept between `self`
    /// and `later`.
    fn slept(&self, later: &Look) -> f64 {
        let awake = |stat: &Schedstat| seconds(stat.on_cpu_ns + stat.run_delay_ns);
        let wall = later.end.duration_since(self.begin).as_secs_f64();
        (wall - (awake(&later.before[0]) - awake(&self.after[0]))).max(0.0)
    }
}

#[test]
fn a_neighbour_is_named_with_the_time_that_it_had() {
    let (serve, cpu) = (Serve::start(), cpu());
    let (run, name, tid) = vm(&serve, cpu);
    let busy = Disturber::busy(cpu).unwrap();
    let threads = [(run.pid(), tid), (busy.pid(), busy.pid())];
    sleep(Duration::from_secs(1));
    let first = Look::at(&serve, threads);
    sleep(Duration::from_secs(4));
    let last = Look::at(&serve, threads);

    let lost = lost(&last.metrics, &name) - lost(&first.metrics, &name);
    let least = seconds(last.before[0].run_delay_ns - first.after[0].run_delay_ns);
    let most = seconds(last.after[0].run_delay_ns - first.before[0].run_delay_ns);
    println!("lost {lost} s; the scheduler has {least} to {most} s");
    // Both sides count a wait when it ends. A wait in progress at either end may be missing. Its
    // length is one slice of the scheduler, here at most 2 times 2.8 ms (base_slice_ns), plus the
    // time that a hypervisor below takes.
    assert!(lost > least * (1.0 - STAMPS) - 0.05 && lost < most * (1.0 + STAMPS) + 0.05);

    let blamed = |metrics| culprit(metrics, &name, "foreign", "lab-disturb");
    let blamed = blamed(&last.metrics) - blamed(&first.metrics);
    let had = seconds(last.after[1].on_cpu_ns - first.before[1].on_cpu_ns);
    println!("blamed for {blamed} s; it had {had} s");
    // The vCPU is always runnable, so it waits whenever the neighbour runs. Exceptions are a slice
    // at either end, and the times in which its VMM's own threads have the CPU.
    assert!(blamed < had * (1.0 + STAMPS) && blamed > had * (1.0 - STAMPS) - 0.05);
    drop(run);
}

#[test]
fn a_culprit_is_told_with_its_unit() {
    let Some(group) = Group::new("lab-backup.service").unwrap() else {
        return skipped("no cgroup2 is mounted");
    };
    let (serve, cpu) = (Serve::start(), cpu());
    let (run, name, _) = vm(&serve, cpu);
    let busy = Disturber::busy(cpu).unwrap();
    group.take(busy.pid()).unwrap();
    serve.wait_for(&format!(
        "vmnoise_vcpu_culprit_seconds_total{{vm=\"{name}\",kind=\"foreign\",culprit=\"lab-disturb\",cgroup=\"lab-backup.service\"}}"
    ));
    drop((run, busy));
}

#[test]
fn who_has_another_cpu_is_not_blamed() {
    let cpus = Host::here().allowed_cpus().unwrap();
    let (other, cpu) = (cpus[0], cpu());
    if other == cpu {
        return skipped("this machine has one CPU");
    }
    let serve = Serve::start();
    let busy = Disturber::busy(other).unwrap();
    let (run, name, _) = vm(&serve, cpu);
    sleep(Duration::from_secs(2));
    let metrics = serve.metrics();
    let all = metrics.beginning("vmnoise_vcpu_culprit_seconds_total");
    assert!(
        all.iter().any(|(labels, _)| labels.contains(&name)),
        "{all:?}"
    );
    assert!(
        all.iter()
            .all(|(labels, _)| !labels.contains("lab-disturb")),
        "{all:?}"
    );
    drop((busy, run));
}

#[test]
fn two_vms_on_one_cpu_name_each_other() {
    let (serve, cpu) = (Serve::start(), cpu());
    let (one, name_of_one, _) = vm(&serve, cpu);
    let (other, name_of_other, _) = vm(&serve, cpu);
    sleep(Duration::from_secs(3));
    let metrics = serve.metrics();
    for (vm, neighbour) in [
        (&name_of_one, &name_of_other),
        (&name_of_other, &name_of_one),
    ] {
        let by_neighbour = culprit(&metrics, vm, "vm", neighbour);
        let by_itself = culprit(&metrics, vm, "vm", vm);
        let lost = lost(&metrics, vm);
        println!("{vm}: lost {lost} s, {by_neighbour} s by {neighbour}");
        // Two polling VMs share a CPU, so each gets half of it. The share of other tasks is not
        // checked here.
        assert!(by_neighbour > 0.5 && by_neighbour <= lost, "{vm}");
        assert!(by_itself == 0.0, "{vm}");
    }
    drop((one, other));
}

#[test]
fn the_last_sums_of_a_vm_are_told_after_its_end() {
    let (serve, cpu) = (Serve::start(), cpu());
    let (run, name, _) = vm(&serve, cpu);
    sleep(Duration::from_secs(1));
    let running = format!("vmnoise_vcpu_time_seconds_total{{vm=\"{name}\",state=\"running\"}}");
    let before = serve.metrics().of(&running);
    assert!(before > 0.0);
    drop(run);
    let vcpus = format!("vmnoise_vcpus{{vm=\"{name}\"}}");
    serve.wait_until(&format!("{name} has ended"), |metrics| !metrics.has(&vcpus));
    let after = serve.metrics().of(&running);
    assert!(after >= before, "{after} < {before}");
}

#[test]
fn a_place_that_is_free_again_is_given_to_the_next_vm() {
    if !Serve::start()
        .metrics()
        .beginning("vmnoise_vcpus{")
        .is_empty()
    {
        return skipped("other VMs run on this machine, and take the only place");
    }
    let serve = Serve::with(&["--vcpus", "1"]);
    for _ in 0..3 {
        let (run, name, tid) = vm(&serve, cpu());
        sleep(Duration::from_millis(500));
        let on_cpu = || seconds(schedstat::read(run.pid(), tid).unwrap().on_cpu_ns);
        let metrics = serve.metrics();
        let running = metrics.of(&format!(
            "vmnoise_vcpu_time_seconds_total{{vm=\"{name}\",state=\"running\"}}"
        ));
        // The new vCPU's series do not include the time of earlier vCPUs in the same slot.
        assert!(
            running > 0.0 && running <= on_cpu() * (1.0 + STAMPS),
            "{running}"
        );
        // While this VM runs, there is no free slot for another VM.
        let other = VmnoiseRun::microvm(cpu(), &["--duration", "60s"]).unwrap();
        serve.wait_until("a vCPU is without room", |metrics| {
            metrics.of("vmnoise_vcpus_without_room") == 1.0
        });
        drop((run, other));
        serve.wait_until("both have ended", |metrics| {
            metrics.beginning("vmnoise_vcpus{").is_empty()
                && metrics.of("vmnoise_vcpus_without_room") == 0.0
        });
    }
}

#[test]
fn whoever_the_limit_of_real_time_tasks_lets_in_is_not_blamed() {
    let (serve, cpu) = (Serve::start(), cpu());
    let (run, name, tid) = vm(&serve, cpu);
    set_thread_fifo(tid, 1).unwrap();
    let unsure = format!("vmnoise_vcpu_lost_seconds_total{{vm=\"{name}\",share=\"unsure\"}}");
    let blamed = |metrics: &Metrics| culprit(metrics, &name, "foreign", "lab-disturb");

    // Next to a real-time vCPU, an ordinary task gets only the part of the CPU that the kernel
    // reserves for ordinary tasks.
    let busy = Disturber::busy(cpu).unwrap();
    let threads = [(run.pid(), tid), (busy.pid(), busy.pid())];
    let first = Look::at(&serve, threads);
    sleep(Duration::from_secs(3));
    let last = Look::at(&serve, threads);
    let had = seconds(last.after[1].on_cpu_ns - first.before[1].on_cpu_ns);
    let (told, not_told) = (
        blamed(&last.metrics) - blamed(&first.metrics),
        last.metrics.of(&unsure) - first.metrics.of(&unsure),
    );
    println!("an ordinary task had {had} s: blamed for {told} s, unsure {not_told} s");
    drop(busy);
    // The neighbour may have got the CPU once before the vCPU became a real-time task. This lasts
    // one slice of the scheduler, plus the time that a hypervisor below takes.
    assert!(told < 0.01, "{told}");
    let waited = had - first.slept(&last);
    assert!(not_told >= waited * (1.0 - STAMPS) - 0.05, "{not_told}");
    drop(run);
}

#[test]
fn each_vcpu_is_told_by_its_number_where_that_is_asked_for() {
    let serve = Serve::with(&["--per-vcpu"]);
    let mut both = vec![Host::here().allowed_cpus().unwrap()[0], cpu()];
    both.dedup();
    let vcpus = both.len();
    let both = both
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(",");
    let run = VmnoiseRun::start(&["microvm", "--cpus", &both, "--duration", "60s"]).unwrap();
    let name = format!("vmnoise:{}", run.pid());
    let of = |metrics: &Metrics, vcpu: &str| {
        let series = format!(
            "vmnoise_vcpu_time_seconds_total{{vm=\"{name}\",vcpu=\"{vcpu}\",state=\"running\"}}"
        );
        metrics.of(&series)
    };
    serve.wait_until("both vCPUs run", |metrics| {
        (0..vcpus).all(|vcpu| of(metrics, &vcpu.to_string()) > 0.0)
    });
    drop(run);
    // The time of ended vCPUs moves to the VM's series `other`.
    serve.wait_until("the VM has ended", |metrics| of(metrics, "other") > 0.0);
    assert_eq!(of(&serve.metrics(), "0"), 0.0);
}
