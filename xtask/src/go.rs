//! Programs that are Go modules, built by the `go` that is here: Debian 12 has neither them nor one that is new enough.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::run_command;

/// Where they are kept between runs.
const PROGRAMS: &str = "target/go";
/// The module proxy's checksums are verified by `go` itself.
const KUSTOMIZE: &str = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.0";

/// Builds Kustomize if it is not there: some minutes.
pub fn install_kustomize() -> Result<()> {
    let folder = env::current_dir()?.join(PROGRAMS);
    if folder.join("kustomize").is_file() {
        return Ok(());
    }
    let mut go = Command::new("go");
    run_command(go.args(["install", KUSTOMIZE]).env("GOBIN", folder))
}
