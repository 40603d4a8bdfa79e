//! Who comes in by a fault.

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

/// How often most of them do something.
const EVERY: Duration = Duration::from_millis(4);
/// What one writes at a time: long enough that the events around it are few beside it.
const BYTES: usize = 1_024;
/// The port that is the console: what is written there has a place to go.
const PORT: &str = "/dev/ttyS0";
const TERMINALS: &str = "/dev/pts";
/// Nobody answers there (RFC 863).
const DISCARD: u16 = 9;
/// The heap grows by such pieces, and each is touched before the next: no page of it is a huge one.
const PIECE: usize = 4 << 10;
const PIECES: usize = 8 << 10;
/// More work than the tick, which that CPU has as well.
const PACKETS: usize = 32;
/// A fifth of a lab's memory.
const PAGES: usize = 40 << 10;
/// Two are more than the one other CPU has room for.
const TASKS: usize = 2;
/// Of one that has more: 9548 of weight, where others have 1024 (sched_prio_to_weight of kernel/sched/core.c).
const NICE: i32 = -10;
/// Until one is at work.
const START: Duration = Duration::from_millis(300);

/// What is let loose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturber {
    /// Something is written to the serial port.
    Serial,
    /// Something is typed on a terminal.
    Terminal,
    /// Packets to this machine itself.
    Packets,
    /// Memory in small pages, which could be huge ones.
    SmallPages,
    /// Memory of which every second page is free.
    Holes,
    /// Memory with equal pages.
    Mergeable,
    /// Tasks that never sleep, on any CPU that they may use.
    Tasks,
    /// One that never sleeps, on the quiet CPU, and has more weight than others.
    Heavier,
}

/// Processes that end with it.
#[derive(Debug)]
pub(super) struct AtWork(Vec<Child>);

impl Disturber {
    /// Lets it loose.
    pub(super) fn start(self) -> Result<AtWork> {
        let own = |word: &str| -> Result<Command> {
            let mut command = Command::new(lab_program("lab-fault")?);
            command.args(["work", word]);
            Ok(command)
        };
        let commands = match self {
            Disturber::Serial => vec![own("serial")?],
            Disturber::Terminal => vec![own("terminal")?],
            Disturber::Packets => vec![own("packets")?],
            Disturber::SmallPages => vec![own("small-pages")?],
            Disturber::Holes => vec![own("holes")?],
            Disturber::Mergeable => {
                let mut command = Command::new("/bin/stress-ng");
                let words = "--quiet --temp-path /tmp --taskset 0 --vm 1 --vm-bytes 16m --vm-keep --vm-populate \
                             --vm-madvise mergeable --vm-method zero-one";
                command.args(words.split_whitespace());
                vec![command]
            }
            Disturber::Tasks => (0..TASKS).map(|_| own("task")).collect::<Result<_>>()?,
            Disturber::Heavier => vec![own("heavier")?],
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
    /// That all of them are at work: one that has ended disturbs nobody.
    pub(super) fn have_not_ended(&mut self) -> Result<()> {
        for child in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                bail!("what was let loose has ended: {status}");
            }
        }
        Ok(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended already, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What `lab-fault work WORD...` does until it is ended.
///
/// # Errors
/// If it cannot go on.
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

/// The kernel hands on by unbound work what is typed (`flush_to_ldisc`).
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
    // Line by line, and nothing comes back.
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
            // Nobody reads it: what does not fit is dropped.
            sends.send_to(&[0; BYTES], to)?;
        }
        sleep(EVERY);
    }
}

/// Takes memory, and lets go of it again: each time there are small pages to be made huge.
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

/// Two files in memory that take turns in taking pages: where one of them goes, every second page is free.
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
