//! Finds the panic of a failed test in the output of its process.

use crate::supervised::{Ending, Ran};

/// Number of lines that are shown of a panic: its location, and the start of its message.
const LINES: usize = 5;
/// Number of characters that are shown of a line, because results in JSON are long.
const LETTERS: usize = 300;
/// Beginnings of the lines that may follow a panic's message. The message itself may contain empty
/// lines.
const ENDS: [&str; 6] = [
    "note: ",
    "stack backtrace:",
    "Stack backtrace:",
    "thread '",
    "---- ",
    "failures:",
];

/// Returns the name of a failed test, and the start of its last panic. For a killed or crashed
/// process, adds the way in which the process ended.
pub fn repeated(ran: &Ran) -> String {
    let lines = match &ran.ending {
        Ending::TooLong(limit) => vec![format!("was ended after {} s", limit.as_secs())],
        Ending::Died(status) => vec![format!("ended without a result: {status}")],
        _ => Vec::new(),
    };
    // With --nocapture, panics are on stderr.
    let panic = last_panic(&ran.name, &ran.stderr).unwrap_or_default();
    let lines = lines.into_iter().chain(panic);
    let lines: String = lines.map(|line| format!("\n    {line}")).collect();
    format!("failed {}{lines}", ran.name)
}

/// Returns the line `thread 'NAME' (1234) panicked at FILE:LINE:COLUMN:` and the message after it;
/// `None` without a panic.
fn last_panic(name: &str, lines: &[String]) -> Option<Vec<String>> {
    let begin = format!("thread '{name}' ");
    let at = lines
        .iter()
        .rposition(|line| line.starts_with(&begin) && line.contains(" panicked at "))?;
    let ends = |line: &str| ENDS.iter().any(|end| line.starts_with(end));
    let message = lines[at + 1..].iter().take_while(|line| !ends(line));
    let all = lines[at..=at].iter().chain(message);
    let all = all.filter(|line| !line.is_empty());
    let shortened = |line: &String| line.chars().take(LETTERS).collect();
    Some(all.take(LINES).map(shortened).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(name: &str, stderr: &str) -> Ran {
        Ran {
            name: name.into(),
            took: Duration::ZERO,
            ending: Ending::Failed,
            stdout: Vec::new(),
            stderr: stderr.lines().map(str::to_owned).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_failed_test_is_repeated_with_its_last_panic() {
        let stderr = "thread 'kvm::one' (7) panicked at a.rs:1:1:\ncaught\n\n\
                      thread 'helper' (8) panicked at b.rs:2:2:\nexpected\n\n\
                      thread 'kvm::one' (7) panicked at a.rs:3:3:\nno lab\n\nCaused by:\n    it stands\n\
                      note: run with `RUST_BACKTRACE=1`\n";
        let reported = "failed kvm::one\n    thread 'kvm::one' (7) panicked at a.rs:3:3:\n    \
                    no lab\n    Caused by:\n        it stands";
        assert_eq!(repeated(&failed("kvm::one", stderr)), reported);
    }

    #[test]
    fn a_test_without_a_panic_is_named() {
        assert_eq!(repeated(&failed("silent", "")), "failed silent");
        let mut ended = failed("slow", "");
        ended.ending = Ending::TooLong(Duration::from_secs(7));
        assert_eq!(repeated(&ended), "failed slow\n    was ended after 7 s");
    }
}
