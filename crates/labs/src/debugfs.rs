//! debugfs for one command, on a machine that has it not mounted.

use std::path::Path;
use std::process::Command;

/// A program that finds debugfs where it looks for it; for nobody else is it mounted.
pub fn with_debugfs(program: &Path) -> Command {
    let mount = "mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug \
                 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", mount, "sh"])
        .arg(program);
    command
}
