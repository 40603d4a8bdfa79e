//! Tests of recording exits of one VM: after a long wait, in a turn, or on request.

mod bpftrace;
mod told;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use vmnoise_events::{LossKind, Share};
use vmnoise_host::Host;
use vmnoise_testbed::footprint::OpenDescriptors;
use vmnoise_testbed::installed::is_here;
use vmnoise_testbed::{Disturber, VmnoiseRun, skipped};
use vmnoise_testkit::{wait_until, wait_until_every};

use self::bpftrace::Bpftrace;
use self::told::RecordedExits;
use crate::harness::{PROGRAM, Serve};

/// Time between two scrapes.
const SCRAPE: Duration = Duration::from_millis(100);

/// Starts a VM that exits all the time. Returns the VM and its name in the metrics.
fn exiting(cpu: u32) -> (VmnoiseRun, String) {
    let cpu = cpu.to_string();
    let line = ["microvm", "--exercise", "io", "-d", "120s", "-c", &cpu];
    let run = VmnoiseRun::start(&line).unwrap();
    let name = format!("vmnoise:{}", run.pid());
    (run, name)
}

fn two_cpus() -> (u32, u32) {
    let cpus = Host::here().allowed_cpus().unwrap();
    (cpus[0], cpus[cpus.len() - 1])
}

fn links(serve: &Serve) -> BTreeSet<u32> {
    OpenDescriptors::by(serve.pid()).unwrap().links
}

/// Returns the ids of the permanent BPF links. When a VM is new, a scan of its files has a link for
/// a short time.
fn lasting_links(serve: &Serve) -> BTreeSet<u32> {
    let mut before = links(serve);
    loop {
        sleep(Duration::from_millis(300));
        let now = links(serve);
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Starts a task that takes a CPU for 150 ms once a second. This exceeds the limit of 100 ms. The
/// task runs at SCHED_FIFO, so that a vCPU has one long wait. Ordinary tasks take the CPU in slices
/// of some ms, which could exceed the limit too early.
fn late(cpu: u32, folder: &Path) -> Disturber {
    let (burst, every) = (Duration::from_millis(150), Duration::from_millis(850));
    Disturber::turns(cpu, burst, every, &folder.join("turns")).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "vmn"));
    files.sort();
    files
}

#[test]
fn a_long_wait_is_followed_by_all_exits_of_its_vm_and_of_no_other() {
    if !is_here("bpftrace") {
        return skipped("no bpftrace, which counts exits beside it");
    }
    let (first, last) = two_cpus();
    let (one, one_name) = exiting(last);
    let (two, two_name) = exiting(first);
    let pids = [one.pid(), two.pid()];
    let bpftrace = Bpftrace::of(pids);
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::of(
        Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--cost-limit", "100"])
            .args(["--dump-over", "100ms", "--exits-on", "canary", "--dumps"])
            .arg(folder.path()),
    );
    let quiet = lasting_links(&serve);
    let late = late(last, folder.path());
    wait_until("the program", || links(&serve).len() > quiet.len());
    let at_work = links(&serve);
    // All other programs stayed attached.
    assert!(at_work.is_superset(&quiet));
    let is_done = |path: &PathBuf| path.to_string_lossy().ends_with("-exits.vmn");
    wait_until("the file", || files(folder.path()).iter().any(is_done));
    // The programs were detached before the file appeared.
    assert!(links(&serve).is_disjoint(&(&at_work - &quiet)));
    drop(late);

    let files = files(folder.path());
    let exits = files.iter().find(|path| is_done(path)).unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let history_name = name(exits).replace("-exits", "");
    let history = RecordedExits::of(&folder.path().join(&history_name));
    let told = RecordedExits::of(exits);
    assert!(told.names_file(&history_name) && history.names_file(&name(exits)));

    // Other tasks of this machine may delay VMs too. The recording contains only the VM with the
    // longest wait.
    let which = usize::from(told.processes.contains(&pids[1]));
    assert_eq!(told.processes, BTreeSet::from([pids[which]]));
    let vm = [one_name, two_name].into_iter().nth(which).unwrap();
    assert_eq!(told.names, BTreeSet::from([vm.clone()]));
    assert!(told.interrupts > 0);
    assert_eq!(told.totals.len(), 1);
    let totals = &told.totals[0];
    // If the ring is full, records are lost but counts are not. An exit whose begin was missed may
    // be missing in the counts.
    let (unpaired, unrecorded) = (
        told.lost[&LossKind::Unpaired],
        told.lost[&LossKind::RingFull],
    );
    // An exit in progress at either end may be counted only by vmnoise or only by bpftrace.
    let (least, most) = bpftrace.between(which, totals.first_mono_ns, totals.last_mono_ns);
    println!(
        "{} exits told, {} counted, {least} to {most} by bpftrace, {} unpaired",
        told.exits, totals.exits, unpaired
    );
    assert!((told.exits..=told.exits + unrecorded).contains(&totals.exits));
    assert!(totals.exits <= most + 1 && totals.exits + unpaired + 1 >= least);
    // The exits are recorded for ten seconds, or until the file is full. A task of the machine may
    // delay the begin or the end.
    let is_full = fs::metadata(exits).unwrap().len() >= 64 << 20;
    let span = Duration::from_nanos(totals.last_mono_ns - totals.first_mono_ns);
    assert!(
        is_full || span > Duration::from_secs(5) && span < Duration::from_secs(11),
        "{span:?}"
    );

    // The recording has the shares that only programs for exits can observe. In the dump before it,
    // these shares are unknown.
    let shares = |told: &RecordedExits| {
        let vms = &told.summary.exits.vms;
        let its = vms.iter().find(|it| it.name == *vm).unwrap();
        its.vcpus[0].time_ns.taken
    };
    for share in [Share::Vmm, Share::HostIrq, Share::HostSoftirq] {
        assert!(shares(&told)[share].is_some(), "{share:?}");
        assert_eq!(shares(&history)[share], None, "{share:?}");
    }
    for share in [Share::Preempted, Share::Blocked] {
        assert!(shares(&told)[share].is_some() && shares(&history)[share].is_some());
    }
    let metrics = serve.metrics();
    let counted = metrics.beginning(&format!("vmnoise_exits_sampled_total{{vm=\"{vm}\""));
    let counted: f64 = counted.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, totals.exits as f64);
    let seconds = metrics.of(&format!(
        "vmnoise_exits_sampled_seconds_total{{vm=\"{vm}\"}}"
    ));
    assert!(is_full || (10.0..11.0).contains(&seconds), "{seconds}");
    assert_eq!(
        metrics
            .beginning("vmnoise_exits_sampled_seconds_total")
            .len(),
        1
    );
    assert!(metrics.of("vmnoise_exits_probe_seconds_total") > 0.0);
    drop((one, two));
}

#[test]
fn the_end_of_it_all_is_the_end_of_a_stretch_and_its_file_is_there() {
    let (first, _) = two_cpus();
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::of(
        Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--cost-limit", "100"])
            .args(["--dump-over", "100ms", "--exits-on", "canary", "--dumps"])
            .arg(folder.path()),
    );
    let quiet = lasting_links(&serve);
    let (run, _) = exiting(first);
    let turns = tempfile::tempdir().unwrap();
    let late = late(first, turns.path());
    wait_until("the program", || links(&serve).len() > quiet.len());
    sleep(Duration::from_secs(1));
    assert!(serve.end().success());
    let files = files(folder.path());
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!((files.len(), names.len()), (2, 2), "{names:?}");
    // The recording is complete, and states that it ended early.
    let told = RecordedExits::of(&files[0]);
    assert!(told.exits > 0 && told.is_cut_short);
    drop((late, run));
}

#[test]
fn a_vm_that_never_waits_for_long_is_not_looked_at() {
    let (first, _) = two_cpus();
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::of(
        Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--dump-over", "1s"])
            .args(["--exits-on", "canary", "--dumps"])
            .arg(folder.path()),
    );
    let quiet = lasting_links(&serve);
    let (run, name) = exiting(first);
    serve.wait_for(&format!("vmnoise_vcpus{{vm=\"{name}\"}}"));
    for _ in 0..50 {
        sleep(Duration::from_millis(100));
        if links(&serve) != quiet {
            break;
        }
    }
    let waits = |bound: &str| {
        let series = format!("vmnoise_vcpu_wait_seconds_bucket{{vm=\"{name}\",le=\"{bound}\"}}");
        let metrics = serve.metrics();
        assert!(metrics.has(&series), "{series}");
        metrics.of(&series)
    };
    // If a wait exceeded the limit, this machine was not quiet. In that case there must be a dump.
    if waits("+Inf") > waits("1") {
        return wait_until("the dump", || !files(folder.path()).is_empty());
    }
    assert_eq!(links(&serve), quiet);
    assert!(files(folder.path()).is_empty());
    assert!(
        !serve
            .page("/metrics")
            .contains("vmnoise_exits_sampled_total{")
    );
    drop(run);
}

#[test]
fn each_vm_is_looked_at_when_it_is_its_turn() {
    let (first, last) = two_cpus();
    let serve = Serve::with(&["--exits-on", "1/2", "--cost-limit", "100"]);
    let (quiet, begin) = (lasting_links(&serve), Instant::now());
    let vms = [exiting(first), exiting(last)];
    let series = |name: &str, vm: &str| format!("vmnoise_exits_sampled_{name}{{vm=\"{vm}\"");
    let sum = |name: &str, vm: &str| {
        let metrics = serve.metrics();
        let its = metrics.beginning(&series(name, vm));
        its.iter().map(|(_, count)| count).sum::<f64>()
    };
    for (_, vm) in &vms {
        wait_until_every(SCRAPE, "the second turn", || {
            sum("seconds_total", vm) >= 2.0
        });
        // Each IO instruction of the VM is one exit, and the VM does nothing else.
        let rate = sum("total", vm) / sum("seconds_total", vm);
        println!("{vm}: {rate} exits a second");
        assert!(rate > 10.0, "{rate}");
    }
    let wall = begin.elapsed().as_secs_f64();
    let looked: f64 = vms.iter().map(|(_, vm)| sum("seconds_total", vm)).sum();
    println!("looked at for {looked} s of {wall} s");
    // Exits are recorded during one second in two. Each turn may last up to a tenth longer.
    assert!(looked <= (wall / 2.0 + 1.0) * 1.1, "{looked} {wall}");
    // No program for exits is attached between two turns.
    wait_until("the rest", || links(&serve) == quiet);
    drop(vms);
}

#[test]
fn exits_are_what_goes_first_where_all_of_it_costs_too_much() {
    let mut command = Command::new(PROGRAM);
    command
        .args(["--listen", "127.0.0.1:0", "--exits-on", "1/2"])
        .args(["--cost-limit", "0.0001"])
        .stderr(Stdio::piped());
    let serve = Serve::of(&mut command);
    let (first, _) = two_cpus();
    let (run, _) = exiting(first);
    wait_until_every(SCRAPE, "the pause", || {
        serve.metrics().of("vmnoise_paused") == 1.0
    });
    let looked = |serve: &Serve| {
        let metrics = serve.metrics();
        let all = metrics.beginning("vmnoise_exits_sampled_seconds_total");
        all.iter().map(|(_, seconds)| seconds).sum::<f64>()
    };
    let before = looked(&serve);
    sleep(Duration::from_secs(5));
    assert_eq!(looked(&serve), before);
    drop(run);
    let (_, said) = serve.end_and_say();
    let at = |words| {
        said.find(words)
            .unwrap_or_else(|| panic!("{words}: {said}"))
    };
    assert!(at("no exits are recorded for 60s") < at("vCPUs are not watched for"));
}

/// Starts `vmnoise dump --exits` for a VM. Returns the running process.
fn asking(serve: &Serve, vm: &str, length: &str, path: &Path) -> Child {
    Command::new(PROGRAM)
        .args(["dump", "--from", &serve.address("")])
        .args(["--vm", vm, "--exits", length, "-o"])
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the text with the reason of a refusal.
fn refused(asked: Child) -> String {
    let said = asked.wait_with_output().unwrap();
    assert!(!said.status.success());
    String::from_utf8(said.stderr).unwrap()
}

#[test]
fn who_asks_gets_the_exits_of_that_vm_alone_and_no_other_meanwhile() {
    let serve = Serve::with(&["--exits-on", "request", "--cost-limit", "100"]);
    let quiet = lasting_links(&serve);
    let (first, last) = two_cpus();
    let (one, name) = exiting(last);
    let (two, other) = exiting(first);
    for vm in [&name, &other] {
        serve.wait_for(&format!("vmnoise_vcpus{{vm=\"{vm}\"}}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.vmn");
    let mut asked = asking(&serve, &name, "3s", &path);
    wait_until("the program", || links(&serve).len() > quiet.len());
    let never = folder.path().join("never.vmn");
    let why = refused(asking(&serve, &other, "3s", &never));
    assert!(
        why.contains("409") && why.contains("being recorded"),
        "{why}"
    );
    // The server still answers other requests.
    assert!(serve.metrics().has("vmnoise_paused"));
    assert!(asked.wait().unwrap().success());
    assert_eq!(links(&serve), quiet);
    let told = RecordedExits::of(&path);
    assert_eq!(told.processes, BTreeSet::from([one.pid()]));
    assert_eq!(told.names, BTreeSet::from([name.clone()]));
    assert!(told.exits > 0 && told.totals.len() == 1 && !told.is_cut_short);
    let totals = &told.totals[0];
    let span = Duration::from_nanos(totals.last_mono_ns - totals.first_mono_ns);
    println!("{} exits in {span:?}", totals.exits);
    assert!(span < Duration::from_secs(4), "{span:?}");

    let why = refused(asking(&serve, "nobody", "3s", &never));
    assert!(why.contains("no VM is called `nobody`"), "{why}");

    // No program stays attached after the client hangs up.
    let mut asked = asking(&serve, &name, "60s", &never);
    wait_until("the program", || links(&serve).len() > quiet.len());
    asked.kill().unwrap();
    asked.wait().unwrap();
    let begin = Instant::now();
    wait_until("the rest", || links(&serve) == quiet);
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(!never.exists());
    drop((one, two));
}

#[test]
fn nobody_gets_exits_where_that_was_not_allowed() {
    let serve = Serve::start();
    let folder = tempfile::tempdir().unwrap();
    let why = refused(asking(
        &serve,
        "web",
        "3s",
        &folder.path().join("never.vmn"),
    ));
    assert!(why.contains("--exits-on request"), "{why}");
}
