//! Go programs, built by the installed `go`. Debian 12 lacks the programs, and its Go is too old to
//! build them.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::run_command;

/// Folder that keeps them between runs.
const PROGRAMS: &str = "target/go";
/// Names and versions; `go` itself verifies the checksums of the module proxy.
const MODULES: [(&str, &str); 2] = [
    ("helm", "helm.sh/helm/v3/cmd/helm@v3.22.0"),
    ("kustomize", "sigs.k8s.io/kustomize/kustomize/v5@v5.8.0"),
];

/// Builds Helm and Kustomize if they are missing, which takes some minutes each.
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
