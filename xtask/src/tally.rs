//! Collects the results of a whole run: counts, times of steps and tests, failures, and skipped
//! tests. In CI, a test must not be skipped if the machine can run it.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::clock::Spent;
use crate::panics;
use crate::supervised::{Ending, Ran};

/// Number of the slowest tests that are listed.
const SLOWEST: usize = 10;

/// A test that was not run.
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
    /// Number of machines that were booted again after a fault of the emulator itself
    /// (`crates/testbed/src/bed/mod.rs`).
    booted_again: usize,
    /// Name of each failed test, and the start of its panic. They are printed again at the end of a
    /// long run.
    failures: Vec<String>,
    steps: Vec<(String, Spent)>,
    tests: Vec<(Duration, String)>,
}

impl Tally {
    /// Counts a passed check that is not a libtest test.
    pub fn passed(&mut self) {
        self.passed += 1;
    }

    /// Adds the result of a test that has run.
    pub fn add(&mut self, tier: &str, ran: &Ran) {
        let again = ran.stdout.iter().chain(&ran.stderr);
        let again = again.filter(|line| line.contains("lab booted once more"));
        self.booted_again += again.count();
        self.tests.push((ran.took, ran.name.clone()));
        match &ran.ending {
            Ending::Passed => self.passed += 1,
            Ending::Ignored => self.ignored += 1,
            Ending::Skipped(reason) => self.skipped(Skip {
                tier: tier.to_owned(),
                test: ran.name.clone(),
                reason: reason.clone(),
            }),
            Ending::Failed | Ending::TooLong(_) | Ending::Died(_) => {
                self.failed += 1;
                self.failures.push(panics::repeated(ran));
            }
        }
    }

    /// Adds a test that was not run.
    pub fn skipped(&mut self, skip: Skip) {
        self.skips.push(skip);
    }

    pub fn took(&mut self, step: &str, spent: Spent) {
        self.steps.push((step.to_owned(), spent));
    }

    /// Prints the times, all failures again, and the summary line.
    ///
    /// # Errors
    /// If a test failed. In CI, also if a test was skipped although `must_run` returns true for it.
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
        println!("{:>9} {:>9}  step", "seconds", "CPU s");
        let mut all = Spent::default();
        for (step, spent) in &self.steps {
            all += *spent;
            print_step(step, spent);
        }
        print_step("all", &all);
        self.tests.sort_by(|a, b| b.cmp(a));
        println!("{:>9}  test, the {SLOWEST} slowest", "seconds");
        for (time, test) in self.tests.iter().take(SLOWEST) {
            println!("{:9.1}  {test}", time.as_secs_f64());
        }
    }

    fn refuse_skips(&self, must_run: impl Fn(&Skip) -> bool) -> Result<()> {
        let refused: Vec<&Skip> = self.skips.iter().filter(|skip| must_run(skip)).collect();
        for skip in &refused {
            println!("must run here: {}: {}", skip.test, skip.reason);
        }
        if !refused.is_empty() {
            let number = refused.len();
            bail!("{number} tests were skipped that this machine can run (xtask/src/machine.rs)");
        }
        if self.ignored > 0 {
            bail!(
                "{} tests are marked #[ignore], which CI does not allow",
                self.ignored
            );
        }
        Ok(())
    }
}

fn print_step(step: &str, spent: &Spent) {
    let (wall, cpu) = (spent.wall.as_secs_f64(), spent.cpu.as_secs_f64());
    println!("{wall:9.1} {cpu:9.1}  {step}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &str, ending: Ending) -> Ran {
        Ran {
            name: name.into(),
            took: Duration::from_secs(1),
            ending,
            stdout: Vec::new(),
            stderr: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn one_skipped() -> Tally {
        let mut tally = Tally::default();
        tally.add("root", &ran("root::b", Ending::Passed));
        tally.add("root", &ran("root::a", Ending::Skipped("none".into())));
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

    #[test]
    fn a_test_that_was_ended_or_died_has_failed() {
        for ending in [
            Ending::TooLong(Duration::from_secs(1)),
            Ending::Died("signal: 11".into()),
        ] {
            let mut tally = Tally::default();
            tally.add("kvm", &ran("kvm::a", ending));
            assert!(tally.close(false, |_| true).is_err());
        }
    }
}
