//! What all tiers came to: counts, times, what failed, and what was skipped that may not be.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::libtest;

/// How many of the tests that took longest are named.
const SLOWEST: usize = 30;

/// A test that did not run.
#[derive(Debug)]
pub struct Skip {
    pub tier: String,
    pub test: String,
    pub reason: String,
}

#[derive(Debug, Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    skips: Vec<Skip>,
    /// Machines that the emulator's own fault stopped, and that were given another chance
    /// (`crates/labs/src/bed/mod.rs`).
    pub booted_again: usize,
    /// Each failed test with what it said: the output of a long run is long gone by its end.
    pub failures: Vec<String>,
    tiers: Vec<(String, Duration)>,
    tests: Vec<(Duration, String)>,
}

impl Tally {
    /// Adds what one test program came to.
    pub fn add(&mut self, result: &libtest::Result) {
        self.passed += result.passed;
        self.failed += result.failed;
        self.ignored += result.ignored;
    }

    /// A test that libtest counts as passed has not run.
    pub fn skipped_itself(&mut self, skip: Skip) {
        self.passed = self.passed.saturating_sub(1);
        self.skips.push(skip);
    }

    /// A test whose tier did not run.
    pub fn skipped(&mut self, skip: Skip) {
        self.skips.push(skip);
    }

    pub fn took(&mut self, tier: &str, time: Duration, tests: Vec<(Duration, String)>) {
        self.tiers.push((tier.to_owned(), time));
        self.tests.extend(tests);
    }

    /// How many tests have run.
    pub fn ran(&self) -> usize {
        self.passed + self.failed
    }

    pub fn failed(&self) -> usize {
        self.failed
    }

    /// Times, the failures once more, the closing line, and whether all is well. In CI
    /// nothing is skipped that `must_run` here.
    pub fn close(mut self, in_ci: bool, must_run: impl Fn(&Skip) -> bool) -> Result<()> {
        self.print_times();
        for failure in &self.failures {
            println!("{failure}");
        }
        let skipped = self.skips.len() + self.ignored;
        println!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed, self.failed
        );
        if self.booted_again > 0 {
            println!(
                "{} labs were stopped by the emulator and booted once more",
                self.booted_again
            );
        }
        if self.failed > 0 {
            bail!("{} tests failed", self.failed);
        }
        if in_ci {
            self.refuse_skips(must_run)?;
        }
        Ok(())
    }

    fn print_times(&mut self) {
        for (tier, time) in &self.tiers {
            println!("{:7.1} s tier {tier}", time.as_secs_f64());
        }
        self.tests.sort_by(|a, b| b.cmp(a));
        for (time, test) in self.tests.iter().take(SLOWEST) {
            println!("{:7.1} s {test}", time.as_secs_f64());
        }
    }

    fn refuse_skips(&self, must_run: impl Fn(&Skip) -> bool) -> Result<()> {
        let refused: Vec<&Skip> = self.skips.iter().filter(|it| must_run(it)).collect();
        for skip in &refused {
            println!("must run here: {}: {}", skip.test, skip.reason);
        }
        if !refused.is_empty() {
            let number = refused.len();
            bail!("{number} tests were skipped that this machine can run (xtask/src/machine.rs)");
        }
        if self.ignored > 0 {
            bail!(
                "{} tests are marked #[ignore]: nothing is in CI",
                self.ignored
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_skipped() -> Tally {
        let mut tally = Tally::default();
        tally.add(&libtest::Result {
            passed: 2,
            ..libtest::Result::default()
        });
        tally.skipped_itself(Skip {
            tier: "root".into(),
            test: "root::a".into(),
            reason: "none".into(),
        });
        tally
    }

    #[test]
    fn a_test_that_skipped_itself_has_not_passed() {
        let tally = one_skipped();
        assert_eq!((tally.passed, tally.skips.len()), (1, 1));
    }

    #[test]
    fn in_ci_a_skip_fails_where_the_machine_can() {
        assert!(one_skipped().close(false, |_| true).is_ok());
        assert!(one_skipped().close(true, |_| false).is_ok());
        let error = one_skipped().close(true, |_| true).unwrap_err();
        assert!(error.to_string().starts_with("1 tests were skipped"));
    }
}
