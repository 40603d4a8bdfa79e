//! Commands for the Linux guests of a lab. A number after `lab-guest` (`lab-guest 1 boot`) selects
//! a guest; without a number, this is guest 0. All guests boot the same kernel and run the same
//! commands.
//!
//! In the lab:
//!
//! - `lab-guest boot [ARGUMENT...]` becomes the guest's QEMU with these additional arguments. QEMU
//!   uses the lab's own KVM.
//! - `lab-guest told COUNT` waits until COUNT of the guest's commands have ended.
//! - `lab-guest results` prints the results of the guest's commands, one line of JSON each. It
//!   prints the guest's console on stderr.
//! - `lab-guest load FILE...` copies files from the guest's disk to FILE..., in the order in which
//!   `save` wrote them.
//! - `lab-guest print FILE` prints a file compressed and in hexadecimal. If FILE is a folder, it
//!   prints the only file in it.
//! - `lab-guest offset` prints by how many cycles the first vCPU's TSC is ahead of the lab's TSC.
//! - `lab-guest vcpus` prints the number and the thread ID of each vCPU from KVM's debugfs.
//! - `lab-guest without-debugfs` unmounts debugfs.
//! - `lab-guest works PROGRAM` waits until PROGRAM works. PROGRAM runs in parallel with the lab's
//!   commands. `lab-guest works` fails after 5 s.
//!
//! In the guest:
//!
//! - `lab-guest save FILE...` writes files to the guest's disk. A serial port would cost one exit
//!   per byte, and a recording has many bytes.
//! - `lab-guest steal` prints the steal time that the guest's kernel has counted.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{UnmountFlags, unmount};
use vmnoise_testbed::bed::inside::{GUEST_INITRAMFS, GUEST_KERNEL};
use vmnoise_testbed::bed::{GuestFiles, guest_arguments, guest_disk};
use vmnoise_testbed::{kvm_stat, processes, stress_ng};

/// Memory of a guest in MiB.
const MEMORY_MIB: u32 = 256;

/// Returns this path if it is a file. If it is a folder, returns the only file in it.
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
            // QEMU gets the process ID of this process.
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

/// Returns the process ID of the guest's VMM.
fn vmm(of_guest: &GuestFiles) -> Result<u32> {
    Ok(fs::read_to_string(&of_guest.vmm)?.parse()?)
}

/// Waits until a program works, because a lab does not check the programs that run in parallel with
/// its commands.
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
            "`{program}` does not work: it has not started, or has ended; its output is on the console"
        );
        sleep(LOOK);
    }
}

/// Returns two hexadecimal digits per byte. With Rust's formatting, an emulated machine would need
/// more time for this than for the whole recording.
fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = Vec::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text
}

/// Returns the steal time of all CPUs since boot in nanoseconds, with a resolution of 10 ms
/// (proc(5), /proc/stat).
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
