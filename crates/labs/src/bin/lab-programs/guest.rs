//! `lab-guest boot [ARGUMENT...]` becomes the QEMU of the Linux guest that its lab
//! carries, on the lab's own KVM, with these arguments besides; `lab-guest told COUNT`
//! waits until so many of the guest's commands have ended; `lab-guest results` prints what
//! they said, a line of JSON each, and the guest's console on stderr. A number behind
//! `lab-guest` (`lab-guest 1 boot`) means another guest than the first, which is 0: it boots
//! the same kernel with the same commands.
//!
//! `lab-guest save FILE...`, in the guest, puts files on the guest's disk, and `lab-guest
//! load FILE...`, in its lab, takes them from there in the same order: a byte on a serial
//! port is an exit, and a recording has many. `lab-guest print FILE` prints one
//! compressed and in hexadecimal, and of a folder the only one in it; `lab-guest steal`, in the guest, what its kernel has booked as steal;
//! `lab-guest offset`, in its lab, what its first vCPU's TSC is ahead of that of the lab. `lab-guest vcpus`
//! prints the numbers and threads of its vCPUs as KVM's debugfs has them, and `lab-guest without-debugfs` takes that away.
//! `lab-guest works PROGRAM` waits until this program, which runs beside the commands of a lab, is at work, and fails if it is not soon.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{UnmountFlags, unmount};
use vmnoise_labs::bed::inside::{GUEST_INITRAMFS, GUEST_KERNEL};
use vmnoise_labs::bed::{GuestFiles, guest_arguments, guest_disk};
use vmnoise_labs::{kvm_stat, processes, stress_ng};

/// Of a guest.
const MEMORY_MIB: u32 = 256;

/// The only file in this folder, or this one.
fn only(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let files = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
    let files = files.collect::<std::io::Result<Vec<PathBuf>>>()?;
    match <[PathBuf; 1]>::try_from(files) {
        Ok([file]) => Ok(file),
        Err(files) => bail!("{} has not one file: {files:?}", path.display()),
    }
}

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (guest, words) = match arguments[..] {
        [number, ref words @ ..] if number.parse::<u32>().is_ok() => (number.parse()?, words),
        ref words => (0, words),
    };
    let of_guest = GuestFiles::of(guest);
    match *words {
        ["boot", ref besides @ ..] => {
            guest_disk::create(&of_guest.disk)?;
            // It stays this process.
            fs::write(&of_guest.vmm, std::process::id().to_string())?;
            let [kernel, initramfs] = [GUEST_KERNEL, GUEST_INITRAMFS].map(Path::new);
            let mut qemu = Command::new("/usr/bin/qemu-system-x86_64");
            qemu.args(guest_arguments(MEMORY_MIB, kernel, initramfs, &of_guest));
            Err(qemu.args(besides).exec()).context("QEMU")
        }
        ["told", count] => of_guest.wait(count.parse()?),
        ["results"] => {
            print!("{}", fs::read_to_string(&of_guest.results)?);
            eprint!("{}", fs::read_to_string(&of_guest.console)?);
            Ok(())
        }
        ["save", ref files @ ..] => guest_disk::save(files),
        ["load", ref files @ ..] => {
            for (file, content) in files
                .iter()
                .zip(guest_disk::load(&of_guest.disk, files.len())?)
            {
                fs::write(file, content).with_context(|| (*file).to_owned())?;
            }
            Ok(())
        }
        ["print", file] => {
            let bytes = fs::read(only(Path::new(file))?).with_context(|| file.to_owned())?;
            let compressed = snap::raw::Encoder::new().compress_vec(&bytes)?;
            Ok(std::io::stdout().write_all(&hexadecimal(&compressed))?)
        }
        ["offset"] => {
            println!("{}", kvm_stat::tsc_offset(vmm(&of_guest)?, 0)?);
            Ok(())
        }
        ["vcpus"] => {
            println!(
                "{}",
                serde_json::to_string(&kvm_stat::vcpus(vmm(&of_guest)?)?)?
            );
            Ok(())
        }
        ["without-debugfs"] => Ok(unmount("/sys/kernel/debug", UnmountFlags::DETACH)?),
        ["works", program] => works(program),
        ["steal"] => {
            println!("{}", stolen_ns()?);
            Ok(())
        }
        _ => bail!(
            "usage: lab-guest [GUEST] boot [ARGUMENT...] | told COUNT | results | save FILE... | \
             load FILE... | print FILE | steal | offset | vcpus | \
             without-debugfs | works PROGRAM"
        ),
    }
}

/// The process that became its VMM.
fn vmm(of_guest: &GuestFiles) -> Result<u32> {
    Ok(fs::read_to_string(&of_guest.vmm)?.parse()?)
}

/// A lab forgets what it starts beside its commands: whether that goes on has to be asked.
fn works(program: &str) -> Result<()> {
    const SOON: Duration = Duration::from_secs(5);
    const LOOK: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    loop {
        let processes = processes::all();
        let mut named = processes.iter().filter(|it| it.name == program);
        if named.any(|it| program != stress_ng::PROGRAM || stress_ng::is_at_work(it.pid)) {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < SOON,
            "`{program}` is not at work: it has not begun, or has ended; what it said is on the console"
        );
        sleep(LOOK);
    }
}

/// Two digits for each byte, and no formatting, which takes an emulated machine longer than all
/// that was recorded.
fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = Vec::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text
}

/// Of all its CPUs since boot, nanoseconds, in steps of 10 ms (proc(5), /proc/stat).
fn stolen_ns() -> Result<u64> {
    const USER_HZ: u64 = 100;
    let text = fs::read_to_string("/proc/stat")?;
    let all = text.lines().next().context("/proc/stat is empty")?;
    let steal = all
        .split_whitespace()
        .nth(8)
        .context("/proc/stat without steal")?;
    Ok(steal.parse::<u64>()? * (1_000_000_000 / USER_HZ))
}
