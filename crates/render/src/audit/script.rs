//! Shell scripts that apply and undo the changes that need no reboot.

use vmnoise_audit::{Change, Finding, ShellCommand, Write};

use super::{AuditedMachine, words};

const HEAD: &str = "#!/bin/sh
# Written by vmnoise audit. Read it, then run it as root on the machine that is named below.
set -u

# A driver may bind its interrupt to a CPU: then the interrupt stays there.
change() {
\techo \"$1\" > \"$2\" || echo \"$2 is not changed\" >&2
}

# A thread may have ended, and a new one may have its number: their start times differ.
thread() {
\ttid=$1 began=$2
\tshift 2
\tif [ \"$(sed 's/.*) //' \"/proc/$tid/stat\" 2>/dev/null | cut -d' ' -f20)\" = \"$began\" ]; then
\t\t\"$@\" || echo \"thread $tid is not changed\" >&2
\telse
\t\techo \"thread $tid has ended\" >&2
\tfi
}

# apply.sh stops a service only if it runs; undo.sh starts only services that apply.sh has stopped.
service() {
\tmark=$(dirname \"$0\")/$3.stopped
\tif [ \"$2\" = stop ]; then
\t\t# Without the mark undo.sh would not start it again.
\t\tsystemctl is-active -q \"$3\" && : > \"$mark\" && { \"$@\" || { rm \"$mark\"; false; }; }
\telif [ -e \"$mark\" ]; then
\t\t\"$@\" && rm \"$mark\"
\tfi || echo \"service $3 is not changed\" >&2
}
";

/// Returns the name and the content of both scripts. `apply.sh` makes the changes. `undo.sh` undoes
/// them, with the last finding first.
pub fn scripts(audited: &AuditedMachine) -> [(&'static str, String); 2] {
    let findings = &audited.audit.findings;
    let apply = findings
        .iter()
        .map(|finding| commands(finding, |it| &it.to, |it| &it.run));
    let undo = findings
        .iter()
        .rev()
        .map(|finding| commands(finding, |it| &it.was, |it| &it.undo));
    let head = format!("{HEAD}\n# For {}\n", words::machine(&audited.of));
    [
        ("apply.sh", head.clone() + &apply.collect::<String>()),
        ("undo.sh", head + &undo.collect::<String>()),
    ]
}

/// Returns the commands of one finding, below a heading; empty if the finding has no commands.
fn commands(
    finding: &Finding,
    value: fn(&Write) -> &String,
    run: fn(&ShellCommand) -> &String,
) -> String {
    let rule = &finding.rule;
    // A command that gives up protection is commented out. The user removes the comment sign to
    // accept this loss.
    let sign = if rule.remedy.gives_up_protection {
        "# "
    } else {
        ""
    };
    let line = |change: &Change| {
        let write = change.now.iter();
        let writes = write.map(|it| format!("{sign}change {} {}\n", value(it), it.file));
        let command = change.command.iter();
        let commands = command.map(|it| match it.thread {
            Some((tid, began)) => format!("{sign}thread {tid} {began} {}\n", run(it)),
            None => format!("{sign}service {}\n", run(it)),
        });
        writes.chain(commands).collect::<String>()
    };
    let lines: String = finding.changes.iter().map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    let note = match rule.note.is_empty() {
        true => String::new(),
        false => format!("# {}\n", rule.note),
    };
    format!("\n# {}: {}\n{note}{lines}", rule.id, rule.title)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::HEAD;

    /// Replaces systemctl by a script that logs its arguments.
    #[test]
    fn only_a_service_that_ran_and_was_stopped_is_started_again() {
        const SYSTEMCTL: &str = "#!/bin/sh\ncase $1 in is-active) [ \"$3\" = \"$RUNS\" ];; *) echo \"$@\" >> \"$0.log\";; esac\n";
        for (runs, asked) in [
            ("irqbalance", "stop irqbalance\nstart irqbalance\n"),
            ("none", ""),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = |name: &str| folder.path().join(name);
            let write = |name: &str, text: &str| {
                fs::write(file(name), text).unwrap();
                fs::set_permissions(file(name), fs::Permissions::from_mode(0o755)).unwrap();
            };
            write("systemctl", SYSTEMCTL);
            // undo.sh runs twice, but must start the service only once.
            for (script, what) in [
                ("apply.sh", "stop"),
                ("undo.sh", "start"),
                ("undo.sh", "start"),
            ] {
                write(
                    script,
                    &format!("{HEAD}service systemctl {what} irqbalance\n"),
                );
                let path = std::env::var("PATH").unwrap();
                let path = format!("{}:{path}", folder.path().display());
                let mut shell = Command::new("sh");
                shell.arg(file(script)).env("PATH", path).env("RUNS", runs);
                assert!(shell.status().unwrap().success(), "{script}");
            }
            let log = fs::read_to_string(file("systemctl.log")).unwrap_or_default();
            assert_eq!(log, asked);
        }
    }
}
