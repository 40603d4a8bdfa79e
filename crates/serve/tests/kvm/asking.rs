//! Tests guests that request a dump over the socket of their VMM. Each guest gets only the dump of
//! its own VM.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use vmnoise_events::Event;
use vmnoise_host::Host;
use vmnoise_labs::{VmnoiseRun, binary, lab_program};
use vmnoise_recording::RecordingReader;

use crate::harness::{PROGRAM, Serve};

/// Time limit for operations that usually take one or two seconds.
const BACKSTOP: Duration = Duration::from_secs(20);

/// A process that plays the VMM: it has a VM and a socket for requests of its guest. It ends when
/// this value is dropped.
struct Vmm {
    child: Child,
    folder: tempfile::TempDir,
}

impl Vmm {
    fn start(manners: &str, command: &[&str]) -> Vmm {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(lab_program("lab-feed-vmm").unwrap())
            .arg(folder.path().join("socket"))
            .arg(manners)
            .arg(folder.path().join("told"))
            .args(command)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let vmm = Vmm { child, folder };
        let socket = vmm.folder.path().join("socket");
        wait_for("socket", || socket.exists());
        vmm
    }

    fn microvm(manners: &str, cpu: u32) -> Vmm {
        let (program, cpu) = (binary(), cpu.to_string());
        let program = program.to_str().unwrap();
        Vmm::start(
            manners,
            &[program, "microvm", "-c", &cpu, "-d", "60s", "--no-trace"],
        )
    }

    fn address(&self) -> String {
        format!("unix:{}", self.folder.path().join("socket").display())
    }

    fn name(&self) -> String {
        format!("vmnoise:{}", self.child.id())
    }

    /// Returns the answers that the guest received, line by line.
    fn answers(&self) -> Vec<String> {
        let said = fs::read_to_string(self.folder.path().join("told")).unwrap_or_default();
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(str::to_owned).collect()
    }
}

impl Drop for Vmm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < BACKSTOP, "no {what}");
        sleep(Duration::from_millis(20));
    }
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
fn serve(folder: &Path, vmms: &[&Vmm]) -> Serve {
    let mut command = Command::new(PROGRAM);
    command.args(["--listen", "127.0.0.1:0", "--dump-over", "1s", "--dumps"]);
    command.arg(folder);
    for vmm in vmms {
        command.args(["--dumps-for", &vmm.address()]);
    }
    Serve::of(command.stderr(Stdio::piped()))
}

#[test]
fn a_guest_has_a_dump_of_its_own_vm_and_one_a_minute() {
    let cpus = Host::here().allowed_cpus().unwrap();
    let other = VmnoiseRun::microvm(cpus[0], &["--duration", "60s"]).unwrap();
    let web = Vmm::microvm("asks", cpus[cpus.len() - 1]);
    let folder = tempfile::tempdir().unwrap();
    let serve = serve(folder.path(), &[&web]);
    serve.wait_for(&format!("vmnoise_vcpus{{vm=\"vmnoise:{}\"}}", other.pid()));
    wait_for("second answer", || web.answers().len() >= 2);
    let written = "vmnoise_dumps_total{outcome=\"written\"}";
    serve.wait_until("dump", |it| it.of(written) > 0.0);
    let answers = web.answers();
    println!("{answers:?}");
    let files = files(folder.path());
    assert_eq!(files, [folder.path().join(&answers[0])]);
    // The guest sends ten requests a second, so all but the first are refused.
    assert!(
        answers[1..].iter().all(|answer| answer.starts_with("no: ")),
        "{answers:?}"
    );
    assert_eq!(told_of(&files[0]), (BTreeSet::from([web.name()]), 1));
    assert_eq!(serve.metrics().of(written), 1.0);
}

#[test]
fn who_has_no_vm_has_no_dump_and_who_begs_has_no_more_than_the_others() {
    let cpus = Host::here().allowed_cpus().unwrap();
    let none = Vmm::start("asks", &["/usr/bin/sleep", "60"]);
    let beggar = Vmm::microvm("begs", cpus[0]);
    let web = Vmm::microvm("asks", cpus[cpus.len() - 1]);
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
        assert!(told.contains(&BTreeSet::from([vm.name()])), "{told:?}");
    }
    assert_eq!(none.answers(), [""; 0]);
    let (_, said) = serve.end_and_say();
    println!("{said}");
    let pid = none.child.id();
    assert!(
        said.contains(&format!("process {pid}, which listens there, runs no vCPU")),
        "{said}"
    );
}
