//! Mounts debugfs for one command, on a machine without it.

use std::path::Path;
use std::process::Command;

/// Returns a command that finds debugfs mounted; it stays unmounted for all other processes.
pub fn with_debugfs(program: &Path) -> Command {
    let mount = "mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug \
                 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", mount, "sh"])
        .arg(program);
    command
}
