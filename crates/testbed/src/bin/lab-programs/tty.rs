//! `lab-tty COLUMNS LINES SECONDS COMMAND...` works inside a lab only. It runs the command in a
//! terminal of this size. After SECONDS, it prints everything that the command has written to the
//! terminal, including escape sequences. Then it presses `q`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::mount::{MountFlags, mount};
use rustix::process::setsid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Mount point of pseudo terminals. A lab does not mount them by itself.
const TERMINALS: &str = "/dev/pts";

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["on", terminal, program, ref words @ ..] => become_it(terminal, program, words),
        [columns, lines, seconds, ref command @ ..] if !command.is_empty() => {
            let size = Winsize {
                ws_row: lines.parse()?,
                ws_col: columns.parse()?,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            show(size, Duration::from_secs(seconds.parse()?), command)
        }
        _ => bail!("usage: lab-tty COLUMNS LINES SECONDS COMMAND..."),
    }
}

fn show(size: Winsize, time: Duration, command: &[&str]) -> Result<()> {
    if fs::read_dir(TERMINALS).map_or(true, |mut them| them.next().is_none()) {
        fs::create_dir_all(TERMINALS)?;
        mount("devpts", TERMINALS, "devpts", MountFlags::empty(), None).context(TERMINALS)?;
    }
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("a terminal")?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    tcsetwinsize(&ours, size)?;
    let theirs = ptsname(&ours, Vec::new())?.into_string()?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg0("lab-tty")
        .args(["on", &theirs])
        .args(command)
        .env("TERM", "screen")
        .env("LC_ALL", "C.UTF-8")
        .spawn()?;
    let mut ours = File::from(ours);
    let reported = reported(ours.try_clone()?);
    let until = Instant::now() + time;
    let mut out = std::io::stdout();
    while let Ok(bytes) = reported.recv_timeout(until.saturating_duration_since(Instant::now())) {
        out.write_all(&bytes)?;
    }
    out.flush()?;
    ours.write_all(b"q")?;
    child.wait()?;
    Ok(())
}

/// Returns a receiver for the output of the terminal. A thread reads it until no process has the
/// terminal open.
fn reported(mut terminal: File) -> Receiver<Vec<u8>> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            // After SECONDS nobody receives the output, but the terminal must still be read.
            let _ = to.send(bytes[..count].to_vec());
        }
    });
    from
}

/// Becomes the command, with this terminal as the controlling terminal. The first terminal that a
/// session leader opens controls the session.
fn become_it(terminal: &str, program: &str, words: &[&str]) -> Result<()> {
    setsid()?;
    let file = File::options().read(true).write(true).open(terminal)?;
    let mut command = Command::new(program);
    command.args(words).stdin(file.try_clone()?);
    command.stdout(file.try_clone()?).stderr(file);
    Err(command.exec()).with_context(|| program.to_owned())
}
