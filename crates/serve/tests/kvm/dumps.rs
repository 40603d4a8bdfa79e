//! Tests that dumps of the last minutes name the tasks that had a VM's CPU, with their times.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use vmnoise_events::{Event, Share};
use vmnoise_explain::{ExitBudget, ExitExplainer};
use vmnoise_host::Host;
use vmnoise_recording::{RecordingEnd, RecordingReader};
use vmnoise_testbed::{Disturber, Quota, VmnoiseRun, schedstat, skipped};

use crate::harness::{PROGRAM, Serve, get_as};

/// Lost time of each VM in a recording, by share and culprit, in ns.
struct Told {
    lost: BTreeMap<(String, Share, String), u64>,
    /// Time between the begin and the end of the recording, in ns.
    span_ns: u64,
}

impl Told {
    fn of(path: &Path) -> Told {
        let mut reader = RecordingReader::new(File::open(path).unwrap()).unwrap();
        let facts = reader.facts().clone();
        let mut explainer = ExitExplainer::new(&facts);
        let (mut vms, mut budgets) = (Vec::new(), Vec::<ExitBudget>::new());
        let ending = loop {
            match reader.next_event().unwrap() {
                ControlFlow::Break(ending) => break ending,
                ControlFlow::Continue(event) => {
                    if let Event::Vcpu(vcpu) = &event {
                        vms.push(vcpu.vm_name.to_string());
                    }
                    explainer.push(&event, &mut |budget| budgets.push(budget.clone()));
                }
            }
        };
        assert_eq!(ending, RecordingEnd::Complete);
        let mut lost = BTreeMap::new();
        for budget in &budgets {
            let all: u64 = budget.parts.iter().map(|part| part.ns).sum();
            assert_eq!(all, budget.exit.dur_ns());
            assert_eq!(budget.clamped_ns, 0, "no CPU did two things at a time");
            for part in &budget.parts {
                let who = part.source.map(|id| explainer.source_name(id).to_owned());
                let vm = vms[budget.vcpu.0 as usize].clone();
                *lost
                    .entry((vm, part.share, who.unwrap_or_default()))
                    .or_insert(0) += part.ns;
            }
        }
        let span_ns = facts.options.duration_ns;
        let late = explainer.finish().late_events;
        assert_eq!(late, 0, "events are in order");
        Told { lost, span_ns }
    }

    fn of_culprit(&self, vm: &str, who: &str) -> u64 {
        let key = (vm.to_owned(), Share::Preempted, who.to_owned());
        self.lost.get(&key).copied().unwrap_or(0)
    }

    /// Returns the lost time of a VM without a named culprit, in ns. The VMM's own time is not
    /// included.
    fn unnamed(&self, vm: &str) -> u64 {
        let lost = self.lost.iter();
        lost.filter(|((of, share, who), _)| of == vm && who.is_empty() && *share != Share::Vmm)
            .map(|(_, ns)| ns)
            .sum()
    }
}

fn dump(serve: &Serve, options: &[&str]) -> Output {
    let from = serve.address("");
    Command::new(PROGRAM)
        .args(["dump", "--from", &from])
        .args(options)
        .output()
        .unwrap()
}

/// Starts a VM that polls. Returns the VM and its name in the metrics.
fn vm(serve: &Serve, cpu: u32) -> (VmnoiseRun, String) {
    let run = VmnoiseRun::microvm(cpu, &["--duration", "60s"]).unwrap();
    let name = format!("vmnoise:{}", run.pid());
    serve.wait_for(&format!("vmnoise_vcpus{{vm=\"{name}\"}}"));
    (run, name)
}

/// Starts a disturber that is confined to this CPU before it starts, so that it never runs on
/// another CPU.
fn busy_from_its_start(cpu: u32) -> Disturber {
    let allowed = sched_getaffinity(None).unwrap();
    let mut here = CpuSet::new();
    here.set(cpu as usize);
    sched_setaffinity(None, &here).unwrap();
    let busy = Disturber::busy(cpu).unwrap();
    sched_setaffinity(None, &allowed).unwrap();
    busy
}

#[test]
fn who_had_the_cpu_is_in_it_with_his_time_after_he_has_gone() {
    let cpus = Host::here().allowed_cpus().unwrap();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let serve = Serve::start();
    let (run, name) = vm(&serve, last);
    let (quiet, quiet_name) = vm(&serve, first);
    let tid = run.vcpu_tid().unwrap();
    let before = schedstat::read(run.pid(), tid).unwrap();
    let busy = busy_from_its_start(last);
    sleep(Duration::from_secs(3));
    let (source, had) = (busy.source().unwrap(), busy.schedstat().unwrap());
    drop(busy);
    sleep(Duration::from_secs(1));
    let after = schedstat::read(run.pid(), tid).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.vmn");
    let said = dump(&serve, &["--output", path.to_str().unwrap()]);
    assert!(said.status.success(), "{said:?}");
    let told = Told::of(&path);
    let blamed_ns = told.of_culprit(&name, &source);
    let waited_ns = after.run_delay_ns - before.run_delay_ns;
    println!(
        "{source} had {} ns, and is named for {blamed_ns}; the vCPU waited {waited_ns} ns",
        had.on_cpu_ns
    );
    // The vCPU is always runnable, so it waits whenever the disturber runs. Waits below 20 us are
    // missing. Both sides read the clock some us apart, and there are some 1000 switches in 3 s. 50
    // ms are allowed for a slice at either end.
    assert!(blamed_ns <= had.on_cpu_ns + had.on_cpu_ns / 50 + 50_000_000);
    assert!(blamed_ns + had.on_cpu_ns / 20 + 50_000_000 >= had.on_cpu_ns);
    if first != last {
        assert_eq!(told.of_culprit(&quiet_name, &source), 0);
    }
    drop((run, quiet));
}

#[test]
fn a_vm_that_has_gone_is_in_it_and_one_alone_if_that_is_asked() {
    let cpu = Host::here().allowed_cpus().unwrap()[0];
    let serve = Serve::start();
    let (gone, name_of_gone) = vm(&serve, cpu);
    let (run, name) = vm(&serve, cpu);
    sleep(Duration::from_secs(1));
    drop(gone);
    let ended = format!("vmnoise_vcpus{{vm=\"{name_of_gone}\"}}");
    while serve.metrics().of(&ended) > 0.0 {
        sleep(Duration::from_millis(100));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.vmn");
    assert!(
        dump(&serve, &["-o", path.to_str().unwrap()])
            .status
            .success()
    );
    let told = Told::of(&path);
    let lost_of = |vm: &str| told.lost.keys().any(|(known, ..)| known == vm);
    assert!(
        lost_of(&name_of_gone) && lost_of(&name),
        "{:?}",
        told.lost.keys()
    );

    let one = folder.path().join("one.vmn");
    let one_text = one.to_str().unwrap();
    let said = dump(&serve, &["--vm", &name, "--last", "5s", "-o", one_text]);
    assert!(said.status.success(), "{said:?}");
    let told = Told::of(&one);
    assert!(told.lost.keys().all(|(vm, ..)| *vm == name));
    // The dump begins up to 5 s before the requested time, and polls are 1 s apart.
    let span = Duration::from_nanos(told.span_ns);
    assert!(
        !told.lost.is_empty() && span < Duration::from_secs(12),
        "{span:?}"
    );
    drop(run);
}

#[test]
fn what_cannot_be_had_is_said_with_what_helps() {
    let serve = Serve::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("never.vmn");
    let path = path.to_str().unwrap();
    let refused = |said: Output, word: &str| {
        assert!(!said.status.success());
        let stderr = String::from_utf8(said.stderr).unwrap();
        assert!(stderr.contains(word), "{stderr}");
    };
    refused(
        dump(&serve, &["--vm", "nobody", "-o", path]),
        "no VM is called `nobody`",
    );
    refused(
        dump(&serve, &["--last", "soon", "-o", path]),
        "write 30s or 2m, for example",
    );
    refused(
        dump(&serve, &["-o", "/nowhere/at/all.vmn"]),
        "creating /nowhere/at/all.vmn",
    );
    let nobody = Command::new(PROGRAM)
        .args(["dump", "--from", "http://127.0.0.1:1", "-o", path])
        .output();
    refused(nobody.unwrap(), "is `vmnoise serve` running?");
    assert!(!Path::new(path).exists());
}

#[test]
fn a_long_wait_is_written_down_by_itself_and_its_metric_says_where() {
    let cpu = Host::here().allowed_cpus().unwrap()[0];
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::of(
        Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--dump-over", "1ms", "--dumps"])
            .arg(folder.path()),
    );
    let (run, name) = vm(&serve, cpu);
    let busy = Disturber::busy(cpu).unwrap();
    let exemplar = loop {
        let metrics = get_as(serve.host(), "/metrics", "application/openmetrics-text").unwrap();
        let series =
            format!("vmnoise_vcpu_lost_seconds_total{{vm=\"{name}\",share=\"preempted\"}}");
        let line = metrics.lines().find(|line| line.starts_with(&series));
        if let Some((_, exemplar)) = line.and_then(|line| line.split_once(" # ")) {
            break exemplar.to_owned();
        }
        sleep(Duration::from_millis(200));
    };
    let (_, dump) = exemplar.split_once("dump=\"").unwrap();
    let (dump, _) = dump.split_once('"').unwrap();
    let path = folder.path().join(dump);
    while !path.exists() {
        sleep(Duration::from_millis(20));
    }
    let told = Told::of(&path);
    let (_, culprit) = exemplar.split_once("culprit=\"").unwrap();
    let (culprit, rest) = culprit.split_once('"').unwrap();
    let seconds: f64 = rest.split_whitespace().nth(1).unwrap().parse().unwrap();
    // The culprit had the CPU for most of the wait. On a busy machine, vmnoise may have seen no
    // task during most of the first long wait. In that case the text has one of these words.
    let had_ns = match culprit {
        "throttled" | "idle" | "unknown" => told.unnamed(&name),
        task => told.of_culprit(&name, task),
    };
    let had = Duration::from_nanos(had_ns).as_secs_f64();
    assert!(seconds > 0.001 && had > 0.0, "{exemplar}: {had} s");
    drop((busy, run));
}

#[test]
fn a_signal_writes_one_down() {
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::of(
        Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--dump-over", "1s", "--dumps"])
            .arg(folder.path()),
    );
    let pid = i32::try_from(serve.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    let written = "vmnoise_dumps_total{outcome=\"written\"}";
    while serve.metrics().of(written) == 0.0 {
        sleep(Duration::from_millis(100));
    }
    let dumps: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(dumps.len(), 1);
    Told::of(&dumps[0].as_ref().unwrap().path());
    assert!(reasons(folder.path())[0].contains("reason: a signal"));
    assert_eq!(made_for(&serve, "signal"), 1.0);
}

/// Starts a server with this limit for `--dump-on`.
fn that_minds(limit: &str, folder: &Path) -> Serve {
    Serve::of(
        Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--cost-limit", "100"])
            .args(["--dump-over", "1s", "--dump-on", limit, "--dumps"])
            .arg(folder),
    )
}

fn made_for(serve: &Serve, reason: &str) -> f64 {
    let series = format!("vmnoise_dump_reasons_total{{reason=\"{reason}\"}}");
    serve.metrics().of(&series)
}

/// Returns the reasons that the dumps in a folder state.
fn reasons(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let dumps = paths.filter(|path| path.extension().is_some_and(|it| it == "vmn"));
    let limits = dumps.map(|path| {
        let reader = RecordingReader::new(File::open(path).unwrap()).unwrap();
        let statuses = &reader.facts().probe_statuses;
        statuses.iter().map(|it| it.limit.to_string()).collect()
    });
    limits.collect()
}

/// Waits for a dump with this reason. Dumps are at least a minute apart, so an earlier dump may
/// delay this one.
fn wait_for_reason(folder: &Path, words: &str) {
    let begin = Instant::now();
    while !reasons(folder).iter().any(|it| it.contains(words)) {
        let said = reasons(folder);
        assert!(begin.elapsed() < Duration::from_secs(90), "{said:?}");
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_quota_that_holds_a_vm_back_is_written_down_and_without_one_nothing_is() {
    if let Err(why) = Quota::is_there() {
        return skipped(&format!("no quotas here: {why:#}"));
    }
    let cpus = Host::here().allowed_cpus().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let serve = that_minds("quota=2", folder.path());
    let cpu = cpus[cpus.len() - 1];
    let (run, name) = vm(&serve, cpu);
    sleep(Duration::from_secs(13));
    assert_eq!(made_for(&serve, "quota"), 0.0);
    let quota = Quota::of(run.pid(), 30).unwrap();
    let throttled = format!("vmnoise_vcpu_lost_seconds_total{{vm=\"{name}\",share=\"throttled\"}}");
    // A vCPU is throttled while its CPU idles although the vCPU could run. While other tasks have
    // the CPU, the time counts as `unsure`. So the test needs ten seconds in which the CPU idles
    // most of the time.
    let mut idlest_s: f64 = 0.0;
    let is_held_back = (0..6).any(|_| {
        let (before, idle_before_s) = (serve.metrics().of(&throttled), idle_s(cpu));
        sleep(Duration::from_secs(10));
        let seconds = serve.metrics().of(&throttled) - before;
        let idle_s = idle_s(cpu) - idle_before_s;
        println!("held back for {seconds} s of ten, in which its CPU idled for {idle_s} s");
        idlest_s = idlest_s.max(idle_s);
        seconds >= 0.5
    });
    // The quota leaves 7 s of ten seconds to the idle task. If the CPU idled for less than half of
    // that, the test cannot show anything.
    if !is_held_back && idlest_s < 3.5 {
        return skipped(&format!(
            "other tasks had CPU {cpu}: it idled for {idlest_s} s of ten at most"
        ));
    }
    assert!(is_held_back, "its CPU idled, and it was not held back");
    let words = format!("quota: it throttled the vCPUs of {name}");
    wait_for_reason(folder.path(), &words);
    assert_eq!(made_for(&serve, "quota"), 1.0);
    drop((quota, run));
}

/// Returns the idle time of a CPU since boot in s (proc_stat(5), in hundredths of a second).
fn idle_s(cpu: u32) -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    let idle = line.unwrap().split(' ').nth(3).unwrap();
    idle.parse::<f64>().unwrap() / 100.0
}

#[test]
fn pressure_is_written_down() {
    if !Path::new("/proc/pressure/cpu").exists() {
        return skipped("this kernel tells no pressure");
    }
    let cpu = Host::here().allowed_cpus().unwrap()[0];
    let folder = tempfile::tempdir().unwrap();
    let serve = that_minds("pressure=50", folder.path());
    let (run, _) = vm(&serve, cpu);
    let busy = Disturber::busy(cpu).unwrap();
    wait_for_reason(folder.path(), "pressure: tasks waited for a CPU in");
    assert_eq!(made_for(&serve, "pressure"), 1.0);
    assert_eq!(made_for(&serve, "quota"), 0.0);
    drop((busy, run));
}
