//! Which tests failed and what they said, out of all that `cargo test` printed.

/// How much of a panic is repeated: its place, and lines of its message.
const LINES: usize = 5;
/// How much of a line: results in JSON are long.
const LETTERS: usize = 300;
/// What comes after a message. It may have empty lines itself, before its causes.
const ENDS: [&str; 6] = [
    "note: ",
    "stack backtrace:",
    "Stack backtrace:",
    "thread '",
    "---- ",
    "failures:",
];

/// The tests that libtest lists as failed, each with the beginning of its last panic.
pub fn repeated(stdout: &[String], stderr: &[String]) -> Vec<String> {
    let reported = |name: &str| {
        // With --nocapture panics are on stderr, else they are listed on stdout.
        let said = panic_of(name, stderr).or_else(|| panic_of(name, stdout));
        let lines = said.unwrap_or_default();
        let lines = lines.iter().map(|line| format!("\n    {line}"));
        format!("failed {name}{}", lines.collect::<String>())
    };
    failed(stdout).into_iter().map(reported).collect()
}

/// The names below a `failures:`, up to an empty line.
fn failed(stdout: &[String]) -> Vec<&str> {
    let lists = stdout.split(|line| line == "failures:").skip(1);
    let names = lists.flat_map(|list| list.iter().map_while(|line| line.strip_prefix("    ")));
    names.collect()
}

/// `thread 'NAME' (1234) panicked at FILE:LINE:COLUMN:`, and the message after it.
fn panic_of(name: &str, lines: &[String]) -> Option<Vec<String>> {
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
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_failed_test_is_repeated_with_its_last_panic() {
        let stdout = "\nrunning 2 tests\nkvm::one --- FAILED\n\nfailures:\n\nfailures:\n    kvm::one\n\n\
                      test result: FAILED. 1 passed; 1 failed;\n";
        let stderr = "thread 'kvm::one' (7) panicked at a.rs:1:1:\ncaught\n\n\
                      thread 'kvm::two' (8) panicked at b.rs:2:2:\nexpected\n\n\
                      thread 'kvm::one' (7) panicked at a.rs:3:3:\nno lab\n\nCaused by:\n    it stands\n\
                      note: run with `RUST_BACKTRACE=1`\n";
        let reported = "failed kvm::one\n    thread 'kvm::one' (7) panicked at a.rs:3:3:\n    \
                    no lab\n    Caused by:\n        it stands";
        assert_eq!(repeated(&lines(stdout), &lines(stderr)), [reported]);
    }

    #[test]
    fn what_was_captured_is_found_on_stdout() {
        let stdout = "failures:\n\n---- tests::one stdout ----\n\n\
                      thread 'tests::one' (7) panicked at a.rs:1:1:\nleft: 1\n\n\n\
                      failures:\n    tests::one\n    silent\n\ntest result: FAILED.\n";
        let reported = repeated(&lines(stdout), &[]);
        assert_eq!(reported.len(), 2);
        assert!(
            reported[0].ends_with("a.rs:1:1:\n    left: 1"),
            "{reported:?}"
        );
        assert_eq!(reported[1], "failed silent");
    }
}
