//! `lab-guest boot [ARGUMENT...]` becomes the QEMU of the Linux guest that its lab
//! carries, on the lab's own KVM, with these arguments besides; `lab-guest results` prints
//! what the guest's commands said, a line of JSON each, and its console on stderr.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use vmnoise_labs::bed::inside::{GUEST_FIRMWARE, GUEST_INITRAMFS, GUEST_KERNEL};

const CONSOLE: &str = "/tmp/guest-console";
const RESULTS: &str = "/tmp/guest-results";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((word, besides)) if word == "boot" => Err(qemu(besides).exec()).context("QEMU"),
        Some((word, [])) if word == "results" => {
            print!("{}", std::fs::read_to_string(RESULTS)?);
            eprint!("{}", std::fs::read_to_string(CONSOLE)?);
            Ok(())
        }
        _ => bail!("usage: lab-guest boot [ARGUMENT...] | results"),
    }
}

fn qemu(besides: &[String]) -> Command {
    let mut qemu = Command::new("/bin/qemu-system-x86_64");
    qemu.args([
        "-nodefaults",
        "-no-reboot",
        "-display",
        "none",
        "-accel",
        "kvm",
    ])
    .args(["-cpu", "host", "-m", "256", "-L", GUEST_FIRMWARE])
    .args(["-kernel", GUEST_KERNEL, "-initrd", GUEST_INITRAMFS])
    .args(["-append", "console=ttyS0 quiet panic=-1"])
    .args(["-serial", &format!("file:{CONSOLE}")])
    .args(["-serial", &format!("file:{RESULTS}")])
    .args(besides);
    qemu
}
