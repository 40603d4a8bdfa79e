//! Disturbers that reach the quiet CPU by means of a fault.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{Builder, sleep};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::mount::{MountFlags, mount};
use rustix::process::setpriority_process;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use vmnoise_workload::thread;

use super::{OTHER, QUIET};
use crate::lab_program;
use crate::links::Links;

/// Time between two actions of most disturbers.
const EVERY: Duration = Duration::from_millis(4);
/// Number of bytes that a disturber writes at once. It is high, so that the tracing of the events
/// around each write costs little in comparison.
const BYTES: usize = 1_024;
/// Serial port of the console. QEMU receives the output of this port.
const PORT: &str = "/dev/ttyS0";
const TERMINALS: &str = "/dev/pts";
/// UDP port of the discard service (RFC 863), on which no program listens here except this
/// disturber.
const DISCARD: u16 = 9;
/// Size of one allocation in bytes. It is small, so that the heap grows in small pieces and each
/// page is written before the next is allocated. So no page becomes a huge page.
const PIECE: usize = 4 << 10;
const PIECES: usize = 8 << 10;
/// Number of packets that are sent at once. They cause more work than the tick, which also comes on
/// the other CPU.
const PACKETS: usize = 32;
/// Number of pages of each file. A file fills a fifth of a lab's memory.
const PAGES: usize = 40 << 10;
/// Number of tasks. The one other CPU cannot run all of them at the same time.
const TASKS: usize = 2;
/// Nice value for a weight of 9548. The default weight is 1024 (`sched_prio_to_weight` in
/// kernel/sched/core.c).
const NICE: i32 = -10;
/// Time that a disturber has to start its work.
const START: Duration = Duration::from_millis(300);

/// Kind of a fault's disturber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisturberKind {
    /// Writes to the serial port.
    Serial,
    /// Types on a terminal.
    Terminal,
    /// Sends packets to this machine itself.
    Packets,
    /// Takes memory in small pages that the kernel can merge into huge pages.
    SmallPages,
    /// Takes memory, and frees every second page.
    Holes,
    /// Takes memory whose pages have equal content.
    Mergeable,
    /// Runs tasks that never sleep, on any CPU that the tasks may use.
    Tasks,
    /// Runs a task on the quiet CPU that never sleeps, and has more weight than other tasks.
    Heavier,
}

/// Processes of a disturber. They end when this value is dropped.
#[derive(Debug)]
pub(super) struct AtWork(Vec<Child>);

impl DisturberKind {
    /// Starts the disturber.
    pub(super) fn start(self) -> Result<AtWork> {
        let own = |word: &str| -> Result<Command> {
            let mut command = Command::new(lab_program("lab-fault")?);
            command.args(["work", word]);
            Ok(command)
        };
        let commands = match self {
            DisturberKind::Serial => vec![own("serial")?],
            DisturberKind::Terminal => vec![own("terminal")?],
            DisturberKind::Packets => vec![own("packets")?],
            DisturberKind::SmallPages => vec![own("small-pages")?],
            DisturberKind::Holes => vec![own("holes")?],
            DisturberKind::Mergeable => {
                let mut command = Command::new("/bin/stress-ng");
                let words = "--quiet --temp-path /tmp --taskset 0 --vm 1 --vm-bytes 16m --vm-keep --vm-populate \
                             --vm-madvise mergeable --vm-method zero-one";
                command.args(words.split_whitespace());
                vec![command]
            }
            DisturberKind::Tasks => (0..TASKS).map(|_| own("task")).collect::<Result<_>>()?,
            DisturberKind::Heavier => vec![own("heavier")?],
        };
        let mut at_work = AtWork(Vec::new());
        for mut command in commands {
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
            let child = quiet.spawn();
            let child = child.with_context(|| command.get_program().display().to_string())?;
            at_work.0.push(child);
        }
        sleep(START);
        at_work.have_not_ended()?;
        Ok(at_work)
    }
}

impl AtWork {
    /// Checks that all processes still run: a process that has ended disturbs nothing.
    pub(super) fn have_not_ended(&mut self) -> Result<()> {
        for child in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                bail!("a disturber has ended: {status}");
            }
        }
        Ok(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Does the work of `lab-fault work WORD...`, and returns only on an error.
///
/// # Errors
/// If the work fails.
pub fn work(words: &[&str]) -> Result<Infallible> {
    match words {
        ["task"] => never_sleep(),
        ["heavier"] => {
            thread::pin(&[QUIET])?;
            setpriority_process(None, NICE)?;
            never_sleep()
        }
        _ => {
            thread::pin(&[OTHER])?;
            work_elsewhere(words)
        }
    }
}

fn never_sleep() -> ! {
    loop {
        std::hint::black_box(());
    }
}

fn work_elsewhere(words: &[&str]) -> Result<Infallible> {
    match words {
        ["serial"] => serial(),
        ["terminal"] => terminal(),
        ["packets"] => packets(),
        ["small-pages"] => small_pages(),
        ["holes"] => holes(),
        _ => bail!("lab-fault work serial|terminal|packets|small-pages|holes|task|heavier"),
    }
}

fn serial() -> Result<Infallible> {
    let mut port = File::options().write(true).open(PORT)?;
    loop {
        port.write_all(&[b'.'; BYTES])?;
        sleep(EVERY);
    }
}

/// Types lines on a terminal. The kernel delivers the lines in work that may run on any CPU
/// (`flush_to_ldisc`).
fn terminal() -> Result<Infallible> {
    if fs::read_dir(TERMINALS).map_or(true, |mut them| them.next().is_none()) {
        fs::create_dir_all(TERMINALS)?;
        mount("devpts", TERMINALS, "devpts", MountFlags::empty(), None).context(TERMINALS)?;
    }
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&keyboard)?;
    unlockpt(&keyboard)?;
    let path = ptsname(&keyboard, Vec::new())?.into_string()?;
    let mut screen = File::options()
        .read(true)
        .write(true)
        .open(Path::new(&path))?;
    // The terminal delivers whole lines, and has no echo.
    let mut attributes = tcgetattr(&screen)?;
    attributes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&screen, OptionalActions::Now, &attributes)?;
    Builder::new().spawn(move || {
        let mut line = [0; 4 * BYTES];
        while screen.read(&mut line).is_ok_and(|length| length > 0) {}
    })?;
    let mut keyboard = File::from(keyboard);
    let mut typed = [b'x'; BYTES];
    typed[BYTES - 1] = b'\n';
    loop {
        keyboard.write_all(&typed)?;
        sleep(EVERY);
    }
}

fn packets() -> Result<Infallible> {
    Links::here()?.set_up("lo", None)?;
    let sends = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let receives = UdpSocket::bind((Ipv4Addr::LOCALHOST, DISCARD))?;
    let to = receives.local_addr()?;
    loop {
        for _ in 0..PACKETS {
            // No program reads the packets. The kernel drops packets that do not fit into the
            // buffer.
            sends.send_to(&[0; BYTES], to)?;
        }
        sleep(EVERY);
    }
}

/// Takes and frees memory again and again, so that the kernel can always merge small pages into
/// huge pages.
fn small_pages() -> Result<Infallible> {
    loop {
        let mut taken = Vec::with_capacity(PIECES);
        for _ in 0..PIECES {
            taken.push(Box::new([1_u8; PIECE]));
        }
        sleep(EVERY * 50);
        std::hint::black_box(&taken);
    }
}

/// Writes two files in memory, one page to each in turn. Removing the first file frees every second
/// page.
fn holes() -> Result<Infallible> {
    let page = [1; 4 << 10];
    loop {
        let paths = ["/tmp/holes", "/tmp/between"];
        let [mut holes, mut between] = [File::create(paths[0])?, File::create(paths[1])?];
        for _ in 0..PAGES {
            holes.write_all(&page)?;
            between.write_all(&page)?;
        }
        drop(holes);
        fs::remove_file(paths[0])?;
        sleep(EVERY * 100);
        fs::remove_file(paths[1])?;
    }
}
