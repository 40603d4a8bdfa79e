//! Commands for the Dom0 of a lab with Xen:
//!
//! - `lab-xen serve` starts Xen's programs.
//! - `lab-xen start` starts Xen's programs and the guest that the lab carries.
//! - `lab-xen told COUNT` sleeps until COUNT of the guest's commands have ended.
//! - `lab-xen results COUNT` sleeps like `told`. Then it prints the results of the guest's
//!   commands, one line of JSON each. It prints the guest's whole console on stderr.
//! - `lab-xen waits COUNT` runs `xentrace` until COUNT of the guest's commands have ended. Then it
//!   prints each wait of the guest's vCPU for a CPU as JSON, from the report of `xenalyze`: the TSC
//!   at the wait's end, and the length of the wait.
//! - `lab-xen fifo PRIORITY` runs the QEMU of an HVM guest at SCHED_FIFO.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};
use vmnoise_testbed::bed::inside::{XEN_DOMAIN, XEN_GUEST_CONSOLE, results_on_console};
use vmnoise_testbed::bed::xl;
use vmnoise_testbed::{urgency, xen_waits};

/// Maximum time without output of the guest before the guest counts as hung. Commands usually take
/// much less.
const SILENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
/// Class of the events of Xen's scheduler (TRC_SCHED of xen/include/public/trace.h).
const SCHEDULER: &str = "0x0002f000";
/// Number of the guest's domain. It is the first domain after Dom0.
const GUEST: u32 = 1;
const TRACE: &str = "/tmp/trace";
/// Folders that Xen's programs expect.
const FOLDERS: [&str; 5] = [
    "/var/run/xen",
    "/var/run/xenstored",
    "/var/lib/xen",
    "/var/log/xen",
    "/var/lock",
];

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve"] => serve(),
        ["start"] => serve().and_then(|()| run("xl", &["create", "-e", XEN_DOMAIN])),
        ["told", count] => wait_for(count.parse()?).map(drop),
        ["results", count] => {
            let console = wait_for(count.parse()?)?;
            print!("{}", results_on_console(&console));
            eprint!("{console}");
            Ok(())
        }
        ["waits", count] => waits(count.parse()?),
        ["fifo", priority] => urgency::set_fifo(xl::device_model(GUEST)?, priority.parse()?),
        _ => {
            bail!(
                "usage: lab-xen serve | start | told COUNT | results COUNT | waits COUNT | fifo PRIORITY"
            )
        }
    }
}

fn serve() -> Result<()> {
    for folder in FOLDERS {
        fs::create_dir_all(folder).with_context(|| folder.to_owned())?;
    }
    fs::create_dir_all("/dev/pts")?;
    for (kind, place) in [("devpts", "/dev/pts"), ("xenfs", "/proc/xen")] {
        mount(kind, place, kind, MountFlags::empty(), None)
            .with_context(|| format!("mounting {kind} on {place}"))?;
    }
    run("xenstored", &[])?;
    run("xen-init-dom0", &[])?;
    let folder = Path::new(XEN_GUEST_CONSOLE).parent().context("a folder")?;
    let folder = format!("--log-dir={}", folder.display());
    File::create(XEN_GUEST_CONSOLE)?;
    run("xenconsoled", &["--log=guest", &folder])
}

/// Runs a program of Xen, and waits for its end. A daemon moves to the background by itself when it
/// works.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(format!("/bin/{program}"));
    // A daemon keeps its output open, so a reader of a pipe would wait forever. Therefore the
    // output goes to a file.
    let log = format!("/tmp/{program}.log");
    let out = File::create(&log)?;
    let status = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()
        .with_context(|| format!("starting {program}"))?;
    let said = fs::read_to_string(&log)?;
    eprint!("{said}");
    ensure!(status.success(), "{program}: {status}: {said}");
    Ok(())
}

/// Sleeps until the guest has written `count` results, and returns the guest's console. Dom0 does
/// not poll, because each check would take CPU time from the guest.
fn wait_for(count: usize) -> Result<String> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, XEN_GUEST_CONSOLE, inotify::WatchFlags::MODIFY)?;
    let mut changes = File::from(watch);
    let mut room = [0; 4096];
    loop {
        let console = fs::read(XEN_GUEST_CONSOLE)?;
        let console = String::from_utf8_lossy(&console).into_owned();
        if results_on_console(&console).lines().count() >= count {
            return Ok(console);
        }
        let mut watched = [PollFd::new(&changes, PollFlags::IN)];
        if poll(&mut watched, Some(&SILENCE))? == 0 {
            bail!("the guest has written nothing for a minute; its console: {console}");
        }
        let _ = changes.read(&mut room)?;
    }
}

/// Records Xen's scheduler until the guest has written `count` results. Then prints the waits of
/// the guest's vCPU. To print the whole trace on a serial port would take minutes.
fn waits(count: usize) -> Result<()> {
    let recorder = Command::new("/bin/xentrace")
        .args(["-D", "-S", "256", "-e", SCHEDULER, TRACE])
        .stdin(Stdio::null())
        .spawn()
        .context("starting xentrace")?;
    wait_for(count)?;
    // xentrace writes the rest of its buffers after the request to end.
    kill_process(Pid::from_child(&recorder), Signal::TERM)?;
    let ended = recorder.wait_with_output()?;
    ensure!(ended.status.success(), "xentrace: {}", ended.status);
    let reported = Command::new("/bin/xenalyze")
        .args(["--cpu-hz=1G", "--dump-all", TRACE])
        .output()
        .context("starting xenalyze")?;
    let first_tsc = first_tsc(&fs::read(TRACE)?).context("a trace without a time")?;
    let reported = String::from_utf8_lossy(&reported.stdout);
    for wait in xen_waits::reported(&reported, first_tsc)? {
        println!("{}", serde_json::to_string(&wait)?);
    }
    Ok(())
}

/// Returns the TSC of the first record that has one (`t_rec` of xen/include/public/trace.h). The
/// first word of a record has 28 bits for the event, 3 bits for the number of further words, and a
/// last bit. This bit is set if a TSC follows.
fn first_tsc(trace: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u32::from_le_bytes(trace.get(at..at + 4)?.try_into().ok()?));
    let mut at = 0;
    loop {
        let head = word(at)?;
        if head >> 31 == 1 {
            return Some(u64::from(word(at + 8)?) << 32 | u64::from(word(at + 4)?));
        }
        at += 4 * (1 + (head >> 28 & 7) as usize);
    }
}
