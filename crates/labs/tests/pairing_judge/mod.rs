//! Judges what the built binary takes for a guest and its host, where the truth is known.

use std::path::{Path, PathBuf};

use serde_json::Value;
use vmnoise_labs::run_to_end;

use crate::altered;

/// Every tick of a kernel of Debian.
const TICK_NS: u64 = 4_000_000;

/// What `vmnoise explain GUEST HOST` said of one pair.
#[derive(Debug)]
pub struct Said {
    /// Which pair, and what was done to it.
    pair: String,
    pub status: Option<i32>,
    pub json: Value,
    /// What stands on stdout where the format is text and the pair is not accepted.
    text: String,
    stderr: String,
}

impl Said {
    fn of(pair: &Pair, options: &[&str]) -> Said {
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
        let said = Said {
            pair: [&[&*pair.name], options].concat().join(" "),
            status: output.status.code(),
            json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            text: String::from_utf8(text).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        println!("{}", said.line());
        said
    }

    /// What a table of pairs shows of it: of each candidate its odds, and how many of its tests
    /// agree.
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

    /// Of a pair that is taken for one it is a part of the result, else all of it.
    fn pairing(&self) -> &Value {
        self.json.get("pairing").unwrap_or(&self.json)
    }

    fn candidates(&self) -> impl Iterator<Item = &Value> {
        list(&self.pairing()["candidates"])
    }

    pub fn verdict(&self) -> &str {
        self.pairing()["verdict"].as_str().unwrap_or("untested")
    }

    /// How many tests there are, of all candidates.
    pub fn tests(&self) -> u64 {
        let pairs = self.candidates().flat_map(|vm| list(&vm["pairs"]));
        pairs.filter_map(|pair| pair["exits_tested"].as_u64()).sum()
    }

    /// The widest of its pairs; `None` where it is not accepted.
    fn bound_ns(&self) -> Option<u64> {
        let bounds_ns = list(&self.json["pairs"]).filter_map(|it| it["bound_ns"].as_u64());
        bounds_ns.max()
    }

    /// Nobody is blamed.
    pub fn assert_not_accepted(&self) {
        assert_eq!(self.status, Some(1), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert_eq!(self.text, "", "{self:?}");
        for of_both in ["culprits", "trees", "cpus", "joined"] {
            assert_eq!(self.json[of_both], Value::Null, "{self:?}");
        }
    }
}

/// A guest's recording and a host's.
#[derive(Debug, Clone)]
pub struct Pair {
    /// In what is printed of it.
    pub name: String,
    pub guest: PathBuf,
    pub host: PathBuf,
}

impl Pair {
    pub fn explain(&self, options: &[&str]) -> Said {
        Said::of(self, options)
    }

    /// As `explain`, but for the host, and what is said of that.
    pub fn with_host(&self, host: &Path, how: &str) -> Pair {
        Pair {
            name: format!("{} {how}", self.name),
            guest: self.guest.clone(),
            host: host.to_owned(),
        }
    }

    /// A true pair by a clock that is off by more than the bound that was printed: by little,
    /// by whole ticks, by much. It is none. The nearest alone may print a bound that covers by how
    /// much it is off: the slack is how far the recorded clock could be moved, and moves with it.
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
                    println!("off by {by_ns} ns, told {reported_ns:?} ns");
                }
            }
        }
    }
}

pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
