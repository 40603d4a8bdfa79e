//! Reads the figures of a cell's repetition from the repetition's recordings.

mod cyclictest;
mod exercise;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vmnoise_explain::{Explainer, Interval};
use vmnoise_recording::RecordingReader;
use vmnoise_testbed::binary;

use crate::scenario::{CellWorkload, Statistic};

/// Largest number of culprits that are kept for the longest sample.
const NAMED: usize = 6;
/// Number of significant digits of a stored length.
const DIGITS: u8 = 3;
/// Shares without a culprit: residual time, and steal time that no probe of the host explains.
const UNEXPLAINED: [&str; 4] = ["hw", "hv_or_hw", "unexplained", "steal"];
/// Beginnings of the names of the loads' threads.
const LOADS: [&str; 3] = ["lab-disturb", "lab-network", "stress-ng"];
/// Beginning of the name of the softirq for received packets.
const NET_RX: &str = "NET_RX:";
/// Longest latency that a task with a period of 50 us can tolerate, according to the papers, in
/// nanoseconds.
const SHORT_NS: u64 = 50_000;
/// Longest gap that a tuned machine causes for a polling task, according to the paper on osnoise,
/// in nanoseconds.
const TUNED_NS: u64 = 5_000;

/// Figures of one repetition of a cell. A sample is a wake-up, a gap or an exit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepetitionFigures {
    /// Lengths of the samples, ascending: pairs of a length in nanoseconds (three digits) and the
    /// number of samples with this length.
    pub lengths: Vec<(u64, u64)>,
    /// Number of further samples. They are longer than all others, but the measuring program does
    /// not report their lengths.
    #[serde(default)]
    pub uncounted: u64,
    /// Length of the longest sample, in nanoseconds.
    pub worst_ns: u64,
    /// Parts of the longest sample, the largest first.
    pub who: Vec<Who>,
    /// Time that each share took in the whole measurement, in nanoseconds; empty unless gaps were
    /// measured.
    pub shares_ns: BTreeMap<String, u64>,
    /// Measured time, in nanoseconds; only for gaps.
    pub runtime_ns: u64,
    /// Release of the measured kernel (`uname -r`).
    pub kernel: String,
    /// Unexplained part of the longest sample, in nanoseconds.
    #[serde(default)]
    pub unexplained_ns: u64,
    /// Part of the longest sample that the load took, in nanoseconds.
    #[serde(default)]
    pub load_ns: u64,
    /// Part of the longest sample that the softirq for received packets took, in nanoseconds.
    #[serde(default)]
    pub net_rx_ns: u64,
    /// Number of exits that KVM handled alone; `None` if unknown.
    pub light: Option<u64>,
    /// Number of exits that the VMM handled; `None` if unknown.
    pub heavy: Option<u64>,
    /// Mean time that KVM and the VMM took for an exit, in nanoseconds; `None` if it was not
    /// measured.
    pub overhead_ns: Option<u64>,
    /// Median length of the exits by the guest's clock, in nanoseconds; `None` if it was not
    /// measured.
    pub in_guest_ns: Option<u64>,
    /// Number of wake-ups that did not happen, because the one before ended too late.
    pub missed: u64,
    /// Whether the recording was joined with that of the host.
    pub is_joined: bool,
    /// Limitations of these figures, one sentence each.
    pub caveats: Vec<String>,
}

/// Part of the longest sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// Name of the share, as vmnoise prints it: `irq`, `preempted`, `kvm`.
    pub share: String,
    /// Name of the culprit: `comm:tid`, an interrupt vector, or the reason of an exit. `None` if
    /// unknown.
    pub name: Option<String>,
    /// Length of the part, in nanoseconds.
    pub ns: u64,
}

impl RepetitionFigures {
    /// Reads the figures from the recording of a repetition. If there is a recording of the host,
    /// joins the two.
    ///
    /// # Errors
    /// If a recording cannot be read, or has no samples.
    pub fn of(
        measured: &Path,
        host: Option<&Path>,
        workload: CellWorkload,
    ) -> Result<RepetitionFigures> {
        match workload {
            CellWorkload::Exercise => return exercise::figures(measured),
            CellWorkload::Cyclictest => return cyclictest::figures(measured),
            CellWorkload::Timerlat | CellWorkload::Osnoise => {}
        }
        let Lengths {
            all,
            worst_ns,
            kernel,
        } = lengths(measured)?;
        // A run of a polling task may have no gaps, but a run of a periodic task always has
        // wake-ups.
        ensure!(
            !all.is_empty() || workload == CellWorkload::Osnoise,
            "{} has no sample",
            measured.display()
        );
        let alone = explained(&[measured])?;
        let Explained::Result(alone) = alone else {
            bail!("one recording cannot be joined with itself");
        };
        ensure!(
            alone["complete"] == true,
            "{} was cut off",
            measured.display()
        );
        let mut caveats = lost(&alone, "of the measured machine")
            .into_iter()
            .collect::<Vec<_>>();
        let joined = match host.map(|host| explained(&[measured, host])).transpose()? {
            Some(Explained::Result(joined)) => {
                caveats.extend(lost(&joined["host"], "of the host"));
                if joined["trees"][0]["witnessed"] != true {
                    caveats.push("the host did not record the worst".to_owned());
                }
                Some(joined)
            }
            // The guest's own figures stay valid, but the culprits on the host are unknown.
            Some(Explained::Unpaired(why)) => {
                caveats.push(format!("not joined with its host: {why}"));
                None
            }
            None => None,
        };
        let cpu = &alone["cpus"][0];
        let worst = match (workload, &joined) {
            (CellWorkload::Osnoise, Some(joined)) => &joined["trees"][0]["gap"],
            (CellWorkload::Osnoise, None) => &alone["worst"][0],
            (_, Some(joined)) => &joined["trees"][0]["wakeup"],
            (_, None) => &cpu["worst"][0],
        };
        let explained_ns = worst["latency_ns"].as_u64().or(worst["dur_ns"].as_u64());
        ensure!(
            explained_ns.unwrap_or(0) == worst_ns,
            "vmnoise explains a worst of {explained_ns:?} ns, but the recording has {worst_ns} ns"
        );
        let shares = joined.as_ref().map_or(cpu, |joined| &joined["cpus"][0]);
        let exits = |kind: &str| shares["guest_columns"][kind].as_u64();
        let Makers {
            who,
            unexplained_ns,
            load_ns,
            net_rx_ns,
        } = Makers::of(parts(worst));
        Ok(RepetitionFigures {
            worst_ns,
            lengths: lengths_of(&all),
            uncounted: 0,
            who,
            unexplained_ns,
            load_ns,
            net_rx_ns,
            light: exits("light_exits"),
            heavy: exits("heavy_exits"),
            overhead_ns: None,
            in_guest_ns: None,
            shares_ns: numbers(&shares["shares_ns"]),
            runtime_ns: cpu["runtime_ns"].as_u64().unwrap_or(0),
            kernel,
            missed: cpu["missed"].as_u64().unwrap_or(0),
            is_joined: joined.is_some(),
            caveats,
        })
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        let counted: u64 = self.lengths.iter().map(|(_, count)| count).sum();
        counted + self.uncounted
    }

    /// Returns the length that `part` (0 to 1) of all samples does not exceed, in nanoseconds.
    /// `None` if the measuring program did not report the length of that sample.
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        let enough = (self.count() as f64 * part).ceil() as u64;
        let mut seen = 0;
        let mut lengths = self.lengths.iter();
        let found = lengths.find(|(_, count)| {
            seen += count;
            seen >= enough
        });
        match found {
            Some((ns, _)) => Some((*ns).min(self.worst_ns)),
            None => (enough == self.count()).then_some(self.worst_ns),
        }
    }

    /// Returns the part (0 to 1) of all samples whose length is at most `limit_ns`. Missed wake-ups
    /// count as longer. Returns 1 without samples.
    pub fn part_within(&self, limit_ns: u64) -> f64 {
        let all = self.count() + self.missed;
        if all == 0 {
            return 1.0;
        }
        let within = self.lengths.iter().filter(|(ns, _)| *ns <= limit_ns);
        let within: u64 = within.map(|(_, count)| count).sum();
        within as f64 / all as f64
    }

    /// Returns one figure; `None` if the repetition does not have this figure.
    pub fn statistic(&self, statistic: Statistic) -> Option<f64> {
        let share = |names: &[&str]| {
            let all = names.iter().filter_map(|name| self.shares_ns.get(*name));
            let part = all.sum::<u64>() as f64 / self.runtime_ns as f64;
            (self.runtime_ns > 0).then_some(part)
        };
        let of_worst = |ns: u64| ns as f64 / self.worst_ns as f64;
        match statistic {
            Statistic::Worst => Some(self.worst_ns as f64),
            Statistic::Least => self.lengths.first().map(|(ns, _)| *ns as f64),
            Statistic::Median => self.quantile_ns(0.5).map(|ns| ns as f64),
            Statistic::Under50us => Some(self.part_within(SHORT_NS)),
            Statistic::Under5us => Some(self.part_within(TUNED_NS)),
            Statistic::Noise => {
                let taken: u64 = self.shares_ns.values().sum();
                (self.runtime_ns > 0).then(|| taken as f64 / self.runtime_ns as f64)
            }
            Statistic::Steal => share(&["steal", "preempted", "blocked", "throttled"]),
            Statistic::Hardware => share(&["hw", "hv_or_hw"]),
            Statistic::HeavyExits => {
                let (light, heavy) = (self.light?, self.heavy?);
                (light + heavy > 0).then(|| heavy as f64 / (light + heavy) as f64)
            }
            Statistic::Overhead => self.overhead_ns.map(|ns| ns as f64),
            Statistic::InGuest => self.in_guest_ns.map(|ns| ns as f64),
            Statistic::Explained => Some(1.0 - of_worst(self.unexplained_ns)),
            Statistic::Load => Some(of_worst(self.load_ns)),
            Statistic::NetRx => Some(of_worst(self.net_rx_ns)),
        }
    }
}

/// Lengths of the samples in one recording.
struct Lengths {
    all: Histogram<u64>,
    worst_ns: u64,
    kernel: String,
}

/// Reads the latencies of wake-ups or the lengths of gaps, whichever the recording has.
fn lengths(recording: &Path) -> Result<Lengths> {
    let mut reader = RecordingReader::open(recording)?;
    let kernel = reader.facts().host.kernel.to_string();
    let mut explainer = Explainer::new(reader.facts());
    let (mut all, mut worst_ns, mut recorded) = (Histogram::new(DIGITS)?, 0, Ok(()));
    let mut add = |interval: &Interval| {
        worst_ns = worst_ns.max(interval.dur_ns);
        if recorded.is_ok() {
            recorded = all.record(interval.dur_ns);
        }
    };
    reader.for_each(&mut |event| explainer.push(event, &mut add))?;
    explainer.run_out(&mut add);
    recorded?;
    Ok(Lengths {
        all,
        worst_ns,
        kernel,
    })
}

/// Result of `vmnoise explain`.
enum Explained {
    /// Result as JSON.
    Result(Value),
    /// Message with the reason why guest and host could not be joined.
    Unpaired(String),
}

/// Runs `vmnoise explain` for these recordings.
fn explained(recordings: &[&Path]) -> Result<Explained> {
    let mut explain = Command::new(binary());
    explain.args(["explain", "--format", "json"]);
    if recordings.len() > 1 {
        explain.args(["--top", "1"]);
    }
    let output = explain.args(recordings).output().context("vmnoise")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(Explained::Result(serde_json::from_slice(&output.stdout)?));
    }
    // If a join is refused, vmnoise also prints a JSON result. For any other error it prints none.
    let is_refusal = serde_json::from_slice::<Value>(&output.stdout).is_ok();
    ensure!(is_refusal, "vmnoise explain: {}: {said}", output.status);
    Ok(Explained::Unpaired(said.trim().to_owned()))
}

/// Returns a sentence about the number of lost events; `None` if no events were lost. `side` says
/// where they were lost.
fn lost(document: &Value, side: &str) -> Option<String> {
    let lost = document["lost_events"].as_u64().filter(|lost| *lost > 0)?;
    Some(format!("{lost} events {side} were lost"))
}

fn numbers(shares: &Value) -> BTreeMap<String, u64> {
    let shares = shares.as_object().into_iter().flatten();
    let known = shares.filter_map(|(name, ns)| Some((name.clone(), ns.as_u64()?)));
    known.filter(|(_, ns)| *ns > 0).collect()
}

/// Returns each recorded length, and the number of samples with this length.
fn lengths_of(all: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = all.iter_recorded();
    recorded
        .map(|it| (it.value_iterated_to(), it.count_at_value()))
        .collect()
}

/// Returns the parts of a wake-up or gap, over all phases.
fn parts(worst: &Value) -> impl Iterator<Item = Who> {
    let parts = worst["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| {
        let word = |key: &str| part[key].as_str().map(str::to_owned);
        Some(Who {
            share: word("share")?,
            name: word("source"),
            ns: part["ns"].as_u64()?,
        })
    })
}

/// Parts of the longest sample, added up by culprit.
struct Makers {
    who: Vec<Who>,
    unexplained_ns: u64,
    load_ns: u64,
    net_rx_ns: u64,
}

impl Makers {
    fn of(parts: impl Iterator<Item = Who>) -> Makers {
        let mut sums = BTreeMap::<(String, Option<String>), u64>::new();
        for Who { share, name, ns } in parts {
            *sums.entry((share, name)).or_default() += ns;
        }
        let all = sums.into_iter();
        let mut who: Vec<Who> = all
            .map(|((share, name), ns)| Who { share, name, ns })
            .collect();
        let sum = |is_one: fn(&&Who) -> bool| who.iter().filter(is_one).map(|it| it.ns).sum();
        let unexplained_ns = sum(|it| UNEXPLAINED.contains(&&*it.share));
        let load_ns = sum(|it| {
            let name = it.name.as_ref();
            name.is_some_and(|it| LOADS.iter().any(|load| it.starts_with(load)))
        });
        let net_rx_ns = sum(|it| {
            let name = it.name.as_ref();
            name.is_some_and(|it| it.starts_with(NET_RX))
        });
        who.sort_by_key(|it| std::cmp::Reverse(it.ns));
        who.truncate(NAMED);
        Makers {
            who,
            unexplained_ns,
            load_ns,
            net_rx_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    fn part(share: &str, name: Option<&str>, ns: u64) -> Who {
        Who {
            share: share.to_owned(),
            name: name.map(str::to_owned),
            ns,
        }
    }

    #[test]
    fn what_the_load_had_counts_though_it_is_not_among_those_named() {
        let mut parts: Vec<Who> = (10..20)
            .map(|ns| part("irq", Some(&ns.to_string()), ns))
            .collect();
        for load in ["lab-disturb:95", "lab-network:96", "stress-ng-switch:97"] {
            parts.extend([2, 1].map(|ns| part("preempted", Some(load), ns)));
        }
        parts.push(part("hv_or_hw", None, 3));
        parts.push(part("steal", None, 2));
        parts.push(part("kvm", None, 1));
        parts.extend([8, 7].map(|ns| part("softirq", Some("NET_RX:3"), ns)));
        parts.push(part("softirq", Some("NET_TX:2"), 6));
        let makers = Makers::of(parts.into_iter());
        assert_eq!(makers.who.len(), NAMED);
        assert_eq!(makers.who[0].ns, 19);
        assert_eq!((makers.load_ns, makers.unexplained_ns), (9, 5));
        assert_eq!(makers.net_rx_ns, 15);
    }

    #[test]
    fn a_figure_that_was_not_measured_is_none() {
        let figures = RepetitionFigures::default();
        for statistic in [
            Statistic::Least,
            Statistic::Overhead,
            Statistic::Hardware,
            Statistic::HeavyExits,
            Statistic::InGuest,
        ] {
            assert_eq!(figures.statistic(statistic), None, "{statistic}");
        }
        let exits = RepetitionFigures {
            light: Some(3),
            heavy: Some(1),
            lengths: vec![(10, 3), (50, 1)],
            worst_ns: 50,
            load_ns: 10,
            unexplained_ns: 5,
            ..figures
        };
        for (statistic, figure) in [
            (Statistic::Least, 10.0),
            (Statistic::HeavyExits, 0.25),
            (Statistic::Load, 0.2),
            (Statistic::Explained, 0.9),
        ] {
            assert_eq!(exits.statistic(statistic), Some(figure), "{statistic}");
        }
    }
}
