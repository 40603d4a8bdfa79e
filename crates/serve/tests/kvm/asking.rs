//! Tests guests that request a dump over the socket of their VMM. Each guest gets only the dump of
//! its own VM.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use vmnoise_events::Event;
use vmnoise_host::Host;
use vmnoise_recording::RecordingReader;
use vmnoise_testbed::{FeedVmm, VmnoiseRun};
use vmnoise_testkit::wait_until;

use crate::harness::{PROGRAM, Serve};

/// Starts a microVM on this CPU, whose guest asks for dumps as `manners` says.
fn microvm(manners: &str, cpu: u32) -> FeedVmm {
    FeedVmm::microvm(manners, cpu, &["--no-trace"]).unwrap()
}

/// Returns the name of the VM in a dump.
fn name(vmm: &FeedVmm) -> String {
    format!("vmnoise:{}", vmm.pid())
}

/// Returns the answers that the guest received, line by line.
fn answers(vmm: &FeedVmm) -> Vec<String> {
    let said = String::from_utf8(vmm.received()).unwrap();
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(str::to_owned).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns the VMs in a recording, and the number of vCPUs whose clocks are in the recording.
fn told_of(recording: &Path) -> (BTreeSet<String>, usize) {
    let mut reader = RecordingReader::open(recording).unwrap();
    let (mut vms, mut clocks) = (BTreeSet::new(), BTreeSet::new());
    while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
        match event {
            Event::Vcpu(vcpu) => _ = vms.insert(vcpu.vm_name.to_string()),
            Event::VcpuClock(clock) => _ = clocks.insert(clock.vcpu.0),
            _ => {}
        }
    }
    (vms, clocks.len())
}

/// Starts a server that makes dumps for the guests at these sockets.
fn serve(folder: &Path, vmms: &[&FeedVmm]) -> Serve {
    let mut command = Command::new(PROGRAM);
    command.args(["--listen", "127.0.0.1:0", "--dump-over", "1s", "--dumps"]);
    command.arg(folder);
    for vmm in vmms {
        command.args(["--dumps-for", &vmm.address("unix")]);
    }
    Serve::of(command.stderr(Stdio::piped()))
}

#[test]
fn a_guest_has_a_dump_of_its_own_vm_and_one_a_minute() {
    let cpus = Host::here().allowed_cpus().unwrap();
    let other = VmnoiseRun::microvm(cpus[0], &["--duration", "60s"]).unwrap();
    let web = microvm("asks", cpus[cpus.len() - 1]);
    let folder = tempfile::tempdir().unwrap();
    let serve = serve(folder.path(), &[&web]);
    serve.wait_for(&format!("vmnoise_vcpus{{vm=\"vmnoise:{}\"}}", other.pid()));
    wait_until("the second answer", || answers(&web).len() >= 2);
    let written = "vmnoise_dumps_total{outcome=\"written\"}";
    serve.wait_until("dump", |it| it.of(written) > 0.0);
    let answers = answers(&web);
    println!("{answers:?}");
    let files = files(folder.path());
    assert_eq!(files, [folder.path().join(&answers[0])]);
    // The guest sends ten requests a second, so all but the first are refused.
    assert!(
        answers[1..].iter().all(|answer| answer.starts_with("no: ")),
        "{answers:?}"
    );
    assert_eq!(told_of(&files[0]), (BTreeSet::from([name(&web)]), 1));
    assert_eq!(serve.metrics().of(written), 1.0);
}

#[test]
fn who_has_no_vm_has_no_dump_and_who_begs_has_no_more_than_the_others() {
    let cpus = Host::here().allowed_cpus().unwrap();
    let none = FeedVmm::start("asks", &["/usr/bin/sleep", "60"]).unwrap();
    let beggar = microvm("begs", cpus[0]);
    let web = microvm("asks", cpus[cpus.len() - 1]);
    let folder = tempfile::tempdir().unwrap();
    let serve = serve(folder.path(), &[&none, &beggar, &web]);
    let written = "vmnoise_dumps_total{outcome=\"written\"}";
    serve.wait_until("dump of each", |it| it.of(written) == 2.0);
    let before = serve.metrics().of("vmnoise_self_cpu_seconds_total");
    sleep(Duration::from_secs(2));
    let metrics = serve.metrics();
    let cost = metrics.of("vmnoise_self_cpu_seconds_total") - before;
    println!("beside one that begs: {cost} s of CPU time in 2 s");
    assert_eq!(metrics.of(written), 2.0);
    assert_eq!(
        metrics.of("vmnoise_dump_reasons_total{reason=\"guest\"}"),
        2.0
    );
    let told: Vec<_> = files(folder.path())
        .iter()
        .map(|it| told_of(it).0)
        .collect();
    for vm in [&beggar, &web] {
        assert!(told.contains(&BTreeSet::from([name(vm)])), "{told:?}");
    }
    assert_eq!(answers(&none), [""; 0]);
    let (_, said) = serve.end_and_say();
    println!("{said}");
    let pid = none.pid();
    assert!(
        said.contains(&format!("process {pid}, which listens there, runs no vCPU")),
        "{said}"
    );
}
