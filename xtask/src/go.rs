//! Programs that are Go modules, built by the `go` that is here: Debian 12 has neither them nor one that is new enough.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::run_command;

/// Where they are kept between runs.
const PROGRAMS: &str = "target/go";
/// The module proxy's checksums are verified by `go` itself.
const MODULES: [(&str, &str); 2] = [
    ("helm", "helm.sh/helm/v3/cmd/helm@v3.22.0"),
    ("kustomize", "sigs.k8s.io/kustomize/kustomize/v5@v5.8.0"),
];

/// Builds Helm and Kustomize if they are not there: some minutes each.
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
