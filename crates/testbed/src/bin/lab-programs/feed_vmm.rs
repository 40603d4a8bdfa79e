//! `lab-feed-vmm SOCKET MANNERS FILE COMMAND...` listens on a unix socket, and becomes the command,
//! which is a VMM. Another process answers the host on the socket in place of the guest. MANNERS is
//! one of:
//!
//! - `reads`: reads everything that the host sends, and writes it to FILE;
//! - `stalls`: never reads;
//! - `floods`: sends as much as the host accepts, and reads;
//! - `leaves`: closes each connection at once;
//! - `asks`: requests a dump ten times a second, and writes the answers to FILE;
//! - `begs`: requests dumps as fast as the host accepts, and reads.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, set_parent_process_death_signal};

const USAGE: &str =
    "usage: lab-feed-vmm SOCKET reads|stalls|floods|leaves|asks|begs FILE COMMAND...";

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [word, manners, file] if word == "answer" => answer(manners, file),
        [socket, manners, file, program, rest @ ..] => {
            let _ = fs::remove_file(socket);
            let listener = UnixListener::bind(socket).with_context(|| socket.clone())?;
            Command::new(std::env::current_exe()?)
                .arg0("lab-feed-vmm")
                .args(["answer", manners, file])
                .stdin(Stdio::from(OwnedFd::from(listener)))
                .spawn()
                .context("starting the answering process")?;
            let error = Command::new(program).args(rest).exec();
            Err(error).with_context(|| format!("starting `{program}`"))
        }
        _ => bail!(USAGE),
    }
}

/// Answers the host in place of the guest. Ends with the VMM that started this process.
fn answer(manners: &str, file: &str) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut kept = Vec::new();
    loop {
        let (mut guest, _) = listener.accept().context("waiting for the host")?;
        match manners {
            "reads" => {
                let mut file = File::create(file).with_context(|| file.to_owned())?;
                io::copy(&mut guest, &mut file).context("reading from the host")?;
            }
            "stalls" => kept.push(guest),
            // The bytes look like the start of a frame.
            "floods" => flood(guest, b"\xf7vmn\x01\x00garbage")?,
            "begs" => flood(guest, b"dump\n")?,
            "leaves" => drop(guest),
            "asks" => {
                let mut file = File::create(file).with_context(|| file.to_owned())?;
                let mut asking = guest.try_clone()?;
                thread::spawn(move || {
                    while asking.write_all(b"dump\n").is_ok() {
                        thread::sleep(Duration::from_millis(100));
                    }
                });
                io::copy(&mut guest, &mut file).context("reading the host's answers")?;
            }
            _ => bail!(USAGE),
        }
    }
}

fn flood(mut guest: UnixStream, words: &[u8]) -> Result<()> {
    let mut reader = guest.try_clone()?;
    thread::spawn(move || {
        let mut reported = [0; 4096];
        while matches!(reader.read(&mut reported), Ok(1..)) {}
    });
    let words = words.repeat(4096);
    while guest.write_all(&words).is_ok() {}
    Ok(())
}
