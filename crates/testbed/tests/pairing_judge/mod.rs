//! Checks which guests and hosts the built binary joins. The right pairs are known.

use std::path::{Path, PathBuf};

use serde_json::Value;
use vmnoise_testbed::run_to_end;

use crate::altered;

/// Time between two ticks of Debian's kernels, nanoseconds.
const TICK_NS: u64 = 4_000_000;

/// Result of `vmnoise explain GUEST HOST` for one pair of recordings.
#[derive(Debug)]
pub struct ExplainAnswer {
    /// Name of the pair, and of the change that the test made to it.
    pair: String,
    pub status: Option<i32>,
    pub json: Value,
    /// Stdout in text format; only set if the pair is not accepted.
    text: String,
    stderr: String,
}

impl ExplainAnswer {
    fn of(pair: &PairFiles, options: &[&str]) -> ExplainAnswer {
        let files = [&pair.guest, &pair.host].map(|path| path.to_str().unwrap());
        let said = |format: &str| {
            let arguments = [&["explain"], &files[..], options, &["--format", format]].concat();
            run_to_end(&arguments).unwrap()
        };
        let output = said("json");
        let text = match output.status.success() {
            true => Vec::new(),
            false => said("text").stdout,
        };
        let said = ExplainAnswer {
            pair: [&[&*pair.name], options].concat().join(" "),
            status: output.status.code(),
            json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            text: String::from_utf8(text).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        println!("{}", said.line());
        said
    }

    /// Returns a row for a table of pairs. It contains the odds of each candidate, and how many of
    /// the candidate's tests agree.
    fn line(&self) -> String {
        let of_pair =
            |pair: &Value| format!("{} of {}", pair["exits_inside"], pair["exits_tested"]);
        let of_vm = |vm: &Value| {
            let pairs: Vec<String> = list(&vm["pairs"]).map(of_pair).collect();
            let odds = vm["log10_odds"].as_f64().unwrap_or_default();
            let name = vm["vm"].as_str().unwrap_or_default();
            format!("{name} 10^{odds:.1}: {}", pairs.join(", "))
        };
        let vms: Vec<String> = self.candidates().map(of_vm).collect();
        let (pair, status) = (&self.pair, self.status.unwrap_or(-1));
        let (verdict, vms) = (self.verdict(), vms.join("; "));
        format!(
            "{pair:<40} {status} {verdict:<10} {vms} {}",
            self.stderr.trim_end()
        )
    }

    /// Returns the pairing. If the pair is accepted, the pairing is a part of the result. Otherwise
    /// it is the whole result.
    fn pairing(&self) -> &Value {
        self.json.get("pairing").unwrap_or(&self.json)
    }

    fn candidates(&self) -> impl Iterator<Item = &Value> {
        list(&self.pairing()["candidates"])
    }

    pub fn verdict(&self) -> &str {
        self.pairing()["verdict"].as_str().unwrap_or("untested")
    }

    /// Returns the number of tests of all candidates together.
    pub fn tests(&self) -> u64 {
        let pairs = self.candidates().flat_map(|vm| list(&vm["pairs"]));
        pairs.filter_map(|pair| pair["exits_tested"].as_u64()).sum()
    }

    /// Returns the largest clock error of the pairs of CPUs in nanoseconds; `None` if the pair is
    /// not accepted.
    fn bound_ns(&self) -> Option<u64> {
        let bounds_ns = list(&self.json["pairs"]).filter_map(|it| it["bound_ns"].as_u64());
        bounds_ns.max()
    }

    /// Asserts that the pair is not accepted, and that the result names no culprit.
    pub fn assert_not_accepted(&self) {
        assert_eq!(self.status, Some(1), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert_eq!(self.text, "", "{self:?}");
        for of_both in ["culprits", "trees", "cpus", "joined"] {
            assert_eq!(self.json[of_both], Value::Null, "{self:?}");
        }
    }
}

/// A guest's recording, and a host's recording.
#[derive(Debug, Clone)]
pub struct PairFiles {
    /// Name of the pair in the output.
    pub name: String,
    pub guest: PathBuf,
    pub host: PathBuf,
}

impl PairFiles {
    pub fn explain(&self, options: &[&str]) -> ExplainAnswer {
        ExplainAnswer::of(self, options)
    }

    /// Returns this pair with the recording of another host. Appends `how` to the name of the pair.
    pub fn with_host(&self, host: &Path, how: &str) -> PairFiles {
        PairFiles {
            name: format!("{} {how}", self.name),
            guest: self.guest.clone(),
            host: host.to_owned(),
        }
    }

    /// Asserts that a true pair is not accepted if its clock is wrong by more than the printed
    /// bound. This is tested with small errors, with whole ticks, and with large errors. Only the
    /// smallest error may be smaller than the bound that is printed for the wrong clock. The bound
    /// says how far the recorded clock could be moved, and it moves with the clock.
    pub fn assert_other_clocks_are_refused(&self) {
        let bound_ns = self.explain(&[]).bound_ns();
        let [near_ns, bounds_ns] = [3, 20].map(|halves| bound_ns.unwrap_or(0) * halves / 2);
        let wrong_ns = [
            near_ns,
            bounds_ns,
            1_000_000,
            TICK_NS,
            25 * TICK_NS,
            1_000_000_000,
        ];
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("ahead.rec");
        let is_off = |by_ns: &u64| Some(*by_ns) > bound_ns.or(Some(0));
        for by_ns in wrong_ns.into_iter().filter(is_off) {
            let by_tsc = altered::cycles(&self.guest, by_ns);
            for by_tsc in [by_tsc, -by_tsc] {
                altered::clocks_ahead(&self.host, &copy, by_tsc);
                let wrong = self.with_host(&copy, &format!("{by_tsc:+} cycles"));
                let said = wrong.explain(&[]);
                let reported_ns = said.bound_ns();
                if by_ns > near_ns || reported_ns < Some(by_ns) {
                    said.assert_not_accepted();
                } else {
                    println!("off by {by_ns} ns, reported {reported_ns:?} ns");
                }
            }
        }
    }
}

pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
