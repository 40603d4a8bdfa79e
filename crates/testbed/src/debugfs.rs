//! Mounts debugfs for one command, on a machine where debugfs is not mounted.

use std::path::Path;
use std::process::Command;

/// Returns a command that runs `program` with debugfs mounted. Other processes do not see the
/// mount.
pub fn with_debugfs(program: &Path) -> Command {
    let mount = "mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug \
                 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", mount, "sh"])
        .arg(program);
    command
}
