//! Paths inside a lab, and the format of results. Both sides of a lab use them: the machine and the
//! program that boots it.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// File with the paths of the kernel modules to load, one per line, in loading order.
pub const MODULES: &str = "/lab/modules";
/// File with the commands to run, one per line.
pub const COMMANDS: &str = "/lab/commands";
/// Symbolic link to the device to which results are written.
pub const RESULTS: &str = "/lab/results";
/// Serial port for results. The kernel's messages go to the console, which is another port.
pub(super) const SERIAL_PORT: &str = "/dev/ttyS1";
/// Device for results in a guest of Xen. Such a guest has no port except its console.
pub(super) const XEN_CONSOLE: &str = "/dev/hvc0";
/// Serial port whose lines are commands to QEMU's monitor. These commands act on the machine from
/// outside, for instance `nmi`.
pub const MONITOR: &str = "/dev/ttyS2";
/// Kernel of the guest that a lab carries.
pub const GUEST_KERNEL: &str = "/lab/guest/kernel";
/// Initramfs of the guest that a lab carries.
pub const GUEST_INITRAMFS: &str = "/lab/guest/initramfs";
/// Folder in which a program of a lab finds kernels for guests that the program boots.
pub(super) const KEPT: &str = "/bin/target/lab";
/// Disk of the guest, to which the guest writes the files that it hands out.
pub(super) const GUEST_DISK: &str = "/dev/vda";
/// `xl` configuration of the guest that a lab of Xen carries.
pub const XEN_DOMAIN: &str = "/lab/guest/domain";
/// Log of everything that a guest of Xen writes to its console, including its results.
pub const XEN_GUEST_CONSOLE: &str = "/tmp/guest-lab.log";
/// Start of a line that contains a result.
const RESULT: &str = "{\"status\":";
/// Prefix of a command that runs in parallel with the commands after it. Its output is dropped.
const BESIDE: &str = "& ";

/// Exit status and output of a command inside a lab. The lab prints this as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// Exit status; `None` if a signal ended the command.
    pub status: Option<i32>,
    /// All of the command's stdout.
    pub stdout: String,
    /// All of the command's stderr.
    pub stderr: String,
}

impl CommandOutput {
    /// Returns the command's stdout.
    ///
    /// # Errors
    /// If the command failed.
    pub fn text(&self) -> Result<&str> {
        let (status, said) = (self.status, &self.stderr);
        ensure!(status == Some(0), "it ended with {status:?}: {said}");
        Ok(&self.stdout)
    }

    /// Returns the JSON that the command printed.
    ///
    /// # Errors
    /// If the command failed, or printed no JSON.
    pub fn json(&self) -> Result<Value> {
        let text = self.text()?;
        serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))
    }

    /// Returns the file that the command `lab-guest print` printed as hexadecimal digits of its
    /// compressed content.
    ///
    /// # Errors
    /// If the command failed, or printed no such file.
    pub fn file(&self) -> Result<Vec<u8>> {
        let text = self.text()?.trim();
        ensure!(
            text.is_ascii() && text.len().is_multiple_of(2),
            "not a file in hexadecimal digits"
        );
        let digits = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
        let bytes = digits.map(|digits| u8::from_str_radix(digits, 16));
        let bytes = bytes.collect::<Result<Vec<u8>, _>>()?;
        Ok(snap::raw::Decoder::new().decompress_vec(&bytes)?)
    }
}

/// Prefix of a command that runs in parallel with the commands after it. The lab waits for its end
/// after the last command, and prints its output after that.
const TO_THE_END: &str = "&& ";

/// Returns whether this command runs in parallel with the commands after it, and its output is
/// dropped.
pub fn is_beside(command: &str) -> bool {
    command.starts_with(BESIDE)
}

/// Returns whether this command runs in parallel with the commands after it, and the lab waits for
/// its end after the last command.
pub fn runs_to_the_end(command: &str) -> bool {
    command.starts_with(TO_THE_END)
}

/// Returns the words of a command without prefix: its program and its arguments.
pub fn words(command: &str) -> impl Iterator<Item = &str> {
    let plain = [BESIDE, TO_THE_END]
        .iter()
        .find_map(|prefix| command.strip_prefix(prefix));
    plain.unwrap_or(command).split(' ')
}

/// Returns the commands whose results the lab prints, in the order of these results.
pub(super) fn in_order_of_results<'a>(commands: &[&'a str]) -> Vec<&'a str> {
    let waited_for = commands.iter().filter(|command| !is_beside(command));
    let mut waited_for: Vec<&str> = waited_for.copied().collect();
    waited_for.sort_by_key(|command| runs_to_the_end(command));
    waited_for
}

/// Describes how many commands of a machine have ended, for an error about a machine that did not
/// power off. The last line of `results` may be incomplete.
pub(super) fn progress(results: &[u8], commands: &[&str]) -> String {
    let text = String::from_utf8_lossy(results);
    let ended = text
        .lines()
        .map_while(|line| serde_json::from_str(line).ok());
    let ended: Vec<CommandOutput> = ended.collect();
    let expected = in_order_of_results(commands);
    let of = format!("{} of {} commands ended", ended.len(), expected.len());
    let last = match (ended.last(), ended.len().checked_sub(1)) {
        (Some(last), Some(at)) => {
            let CommandOutput { status, stderr, .. } = last;
            format!(
                ", the last with {status:?}: `{}`: {stderr}",
                expected.get(at).unwrap_or(&"")
            )
        }
        _ => String::new(),
    };
    let next = expected.get(ended.len());
    let next = next
        .map(|next| format!("; `{next}` did not"))
        .unwrap_or_default();
    format!("{of}{last}{next}")
}

/// Returns the complete lines of a Xen guest's console that are results.
pub fn results_on_console(console: &str) -> String {
    let lines = console
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    lines.filter(|line| line.starts_with(RESULT)).collect()
}

/// Parses the results of a machine.
///
/// # Errors
/// If the results are incomplete or not text.
pub fn outputs(results: &[u8]) -> Result<Vec<CommandOutput>> {
    let text = str::from_utf8(results).context("the results are not text")?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("no result: {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_makes_of_line_ends_does_not_matter() {
        let output = CommandOutput {
            status: Some(3),
            stdout: "two\nlines\n".into(),
            stderr: String::new(),
        };
        let line = serde_json::to_string(&output).unwrap();
        let sent = format!("{line}\r\n{line}\r\n");
        assert_eq!(outputs(sent.as_bytes()).unwrap(), [output.clone(), output]);
    }

    #[test]
    fn a_file_comes_in_hexadecimal_digits() {
        let printed = |stdout: &str| CommandOutput {
            status: Some(0),
            stdout: stdout.into(),
            stderr: String::new(),
        };
        // Snappy stores these three bytes uncompressed.
        assert_eq!(printed("030800fF10\n").file().unwrap(), [0, 255, 16]);
        for broken in ["0", "zz", "µ", "030800ff"] {
            assert!(printed(broken).file().is_err(), "{broken}");
        }
    }

    #[test]
    fn a_result_cut_short_is_an_error() {
        assert!(outputs(b"{\"status\":0,\"stdo").is_err());
    }

    #[test]
    fn results_stand_between_other_lines() {
        let output = CommandOutput {
            status: Some(0),
            stdout: String::new(),
            stderr: String::new(),
        };
        let line = serde_json::to_string(&output).unwrap();
        let console = format!("[    0.1] Linux\r\n{line}\r\nlab-init: no\n{line}\n{line}");
        let results = results_on_console(&console);
        assert_eq!(
            outputs(results.as_bytes()).unwrap(),
            [output.clone(), output]
        );
    }

    #[test]
    fn a_command_is_its_words() {
        assert!(is_beside("& lab-disturb busy 1") && !is_beside("vmnoise doctor"));
        assert!(runs_to_the_end("&& vmnoise doctor") && !is_beside("&& vmnoise doctor"));
        assert!(words("&& vmnoise doctor").eq(["vmnoise", "doctor"]));
        assert!(words("& lab-disturb busy 1").eq(["lab-disturb", "busy", "1"]));
    }
}
