//! Builds Go programs with the installed `go`. Debian 12 has no packages of these programs, and its
//! own Go is too old to build them.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::run_command;

/// Folder in which the programs are kept between runs.
const PROGRAMS: &str = "target/go";
/// Names of the programs, and the modules with their versions. `go` verifies the checksums of the
/// modules.
const MODULES: [(&str, &str); 2] = [
    ("helm", "helm.sh/helm/v3/cmd/helm@v3.22.0"),
    ("kustomize", "sigs.k8s.io/kustomize/kustomize/v5@v5.8.0"),
];

/// Builds Helm and Kustomize if they are missing. Each build takes some minutes.
pub fn install() -> Result<()> {
    let folder = env::current_dir()?.join(PROGRAMS);
    for (program, module) in MODULES {
        if !folder.join(program).is_file() {
            let mut go = Command::new("go");
            run_command(go.args(["install", module]).env("GOBIN", &folder))?;
        }
    }
    Ok(())
}
