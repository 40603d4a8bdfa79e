//! Parses lines that libtest and the tests print: results, and tests that skip themselves.

/// Prefix of a stderr line with which a test reports that it cannot run here: `skipped: NAME:
/// REASON`.
const SKIPPED: &str = "skipped: ";

/// Returns the test's name and the reason if the line reports a skipped test; otherwise `None`.
pub fn skipped(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix(SKIPPED)?.split_once(": ")
}

/// Result of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Failed,
    Ignored,
}

impl Outcome {
    /// Parses a line such as `test NAME ... ok`. Returns the name and the outcome. Output of a test
    /// without a line end may come before it.
    pub fn parse(line: &str) -> Option<(&str, Outcome)> {
        let (before, result) = line.rsplit_once(" ... ")?;
        let outcome = match result.split(',').next()? {
            "ok" => Outcome::Ok,
            "FAILED" => Outcome::Failed,
            "ignored" => Outcome::Ignored,
            _ => return None,
        };
        let before = before.strip_suffix(" - should panic").unwrap_or(before);
        let (_, name) = before.rsplit_once("test ")?;
        Some((name, outcome))
    }
}

/// Number of passed, failed and ignored tests of one test program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Result {
    pub passed: usize,
    pub failed: usize,
    pub ignored: usize,
}

impl Result {
    /// Parses a line such as `test result: ok. 4 passed; 0 failed; 1 ignored; …`.
    pub fn parse(line: &str) -> Option<Result> {
        let result = line.strip_prefix("test result: ")?;
        let number_before = |word: &str| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word))
                .and_then(|number| number.trim().parse::<usize>().ok())
                .unwrap_or(0)
        };
        Some(Result {
            passed: number_before("passed"),
            failed: number_before("failed"),
            ignored: number_before("ignored"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_line_of_libtest() {
        let line = "test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s";
        let (passed, failed, ignored) = (4, 2, 1);
        let result = Result {
            passed,
            failed,
            ignored,
        };
        assert_eq!(Result::parse(line), Some(result));
        assert_eq!(Result::parse("test a::result: ok ... ok"), None);
    }

    #[test]
    fn each_test_has_its_own_line() {
        for (line, outcome) in [
            ("test a::b ... ok", Outcome::Ok),
            ("a dot.test a::b ... FAILED", Outcome::Failed),
            ("test a::b - should panic ... ok", Outcome::Ok),
            ("test a::b ... ignored, it is slow", Outcome::Ignored),
        ] {
            assert_eq!(Outcome::parse(line), Some(("a::b", outcome)), "{line}");
        }
        for line in [
            "test a::b has been running for over 60 seconds",
            "a test ... passes",
        ] {
            assert_eq!(Outcome::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_skip_has_a_name_and_a_reason() {
        let reported = skipped("skipped: root::a: no group: it is not mounted");
        assert_eq!(reported, Some(("root::a", "no group: it is not mounted")));
        assert_eq!(skipped("records skipped: 7: none"), None);
    }
}
