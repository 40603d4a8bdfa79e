//! What libtest and the tests themselves print: results, times, and tests that skip themselves.

use std::time::Duration;

/// How a test says on stderr that it could not run: `skipped: NAME: REASON`.
const SKIPPED: &str = "skipped: ";

/// The name and the reason of a test that skipped itself, if a line reports one.
pub fn skipped(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix(SKIPPED)?.split_once(": ")
}

/// The counts of one test program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Result {
    pub passed: usize,
    pub failed: usize,
    pub ignored: usize,
}

impl Result {
    /// Of `test result: ok. 4 passed; 0 failed; 1 ignored; …`.
    pub fn reported(line: &str) -> Option<Result> {
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

/// How long each test took, where they run one at a time: from the end of the one before.
#[derive(Debug, Default)]
pub struct Times {
    name: Option<String>,
    begun: Duration,
    pub each: Vec<(Duration, String)>,
}

impl Times {
    /// Takes the next line of stdout, which came `at` this time.
    pub fn line(&mut self, at: Duration, line: &str) {
        if line.starts_with("running ") {
            self.begun = at;
        }
        let named = line.strip_prefix("test ");
        if let Some((name, _)) = named.and_then(|rest| rest.split_once(" ... ")) {
            self.name = Some(name.to_owned());
        }
        let is_end = |end: &str| line == end || line.ends_with(&format!(" ... {end}"));
        if ["ok", "FAILED"].into_iter().any(is_end)
            && let Some(name) = self.name.take()
        {
            self.each.push((at.saturating_sub(self.begun), name));
            self.begun = at;
        }
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
        assert_eq!(Result::reported(line), Some(result));
        assert_eq!(Result::reported("test a::result: ok ... ok"), None);
    }

    #[test]
    fn a_skip_has_a_name_and_a_reason() {
        let reported = skipped("skipped: root::a: no group: it is not mounted");
        assert_eq!(reported, Some(("root::a", "no group: it is not mounted")));
        assert_eq!(skipped("records skipped: 7: none"), None);
    }

    #[test]
    fn a_test_takes_from_the_end_of_the_one_before_to_its_own() {
        let lines = [
            (1, "running 3 tests"),
            (3, "test root::a ... ok"),
            (4, "test root::b ... said"),
            (5, "more ok"),
            (9, "ok"),
            (10, "test root::c ... FAILED"),
            (10, "test result: FAILED. 2 passed; 1 failed"),
        ];
        let mut times = Times::default();
        for (at, line) in lines {
            times.line(Duration::from_secs(at), line);
        }
        let each = |(time, name): &(Duration, String)| (time.as_secs(), name.clone());
        let each: Vec<_> = times.each.iter().map(each).collect();
        let expected = [(2, "root::a"), (6, "root::b"), (1, "root::c")];
        assert_eq!(each, expected.map(|(time, name)| (time, name.to_owned())));
    }
}
