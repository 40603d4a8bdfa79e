//! A run of `vmnoise` that records, and the fate that it must meet.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::verdict::{assert_adds_up, json};
use crate::vmm::wait_for;
use crate::{binary, schedstat};

/// Duration of a run. No test needs a run for this long.
const FOR_EVER: &str = "24h";

/// Fate that a run must meet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// The run continues.
    GoesOn,
    /// The run continues, and reports lost records of this kind.
    Loses(&'static str),
    /// The run continues, and reports the time of the stop as not measured.
    Stopped(Stop),
    /// The run ends by itself with this message.
    Ends(&'static str),
    /// The run prints this message, and continues without its recording.
    StopsRecording(&'static str),
    /// Someone killed the run.
    Killed,
}

impl Fate {
    /// Returns whether the run must be restarted after this fate.
    pub(super) fn is_the_end(self) -> bool {
        !matches!(self, Fate::GoesOn | Fate::Loses(_) | Fate::Stopped(_))
    }
}

/// Times of a stop of a run, CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    /// Time before SIGSTOP was sent.
    asked_ns: u64,
    /// Time when all threads had left their CPUs.
    begun_ns: u64,
    /// Time before SIGCONT was sent.
    over_ns: u64,
    /// Duration that the run had reported as not measured before the stop, nanoseconds.
    reported_before_ns: u64,
}

/// A run of `vmnoise`.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) command: &'static str,
    pub(super) fate: Fate,
    process: Child,
    recording: PathBuf,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Subject {
    /// Starts a run that writes its recording to `recording` and its result to a file in `folder`.
    pub(super) fn start(
        command: &'static str,
        recording: PathBuf,
        folder: &Path,
    ) -> Result<Subject> {
        // The previous run of this command may have left a longer recording.
        let _ = fs::remove_file(&recording);
        let [stdout, stderr] =
            ["json", "stderr"].map(|kind| folder.join(format!("{command}.{kind}")));
        let process = Command::new(binary())
            .args(command.split(' '))
            .args(["--format", "json", "-d", FOR_EVER, "-o"])
            .arg(&recording)
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .context("starting vmnoise")?;
        Ok(Subject {
            command,
            fate: Fate::GoesOn,
            process,
            recording,
            stdout,
            stderr,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid().cast_signed()).context("its process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Stops the run for `length`. A run that measures a CPU must report this stop.
    pub(super) fn stop(&mut self, length: Duration) -> Result<()> {
        let mut reported_before_ns = 0;
        if self.measures_a_cpu() {
            // A run that just started may have recorded only its header.
            wait_for("it to measure", || {
                let reported = not_measured_ns(&self.explained()?);
                reported_before_ns = *reported.as_ref().unwrap_or(&0);
                Ok(reported.is_ok())
            })?;
        }
        let asked_ns = mono_ns();
        self.signal(Signal::STOP)?;
        let pid = self.pid();
        wait_for("it to stop", || {
            let threads = schedstat::threads(pid)?;
            Ok(threads.iter().all(|(tid, _)| schedstat::stands(pid, *tid)))
        })?;
        let begun_ns = mono_ns();
        sleep(length);
        let over_ns = mono_ns();
        self.signal(Signal::CONT)?;
        if self.measures_a_cpu() {
            self.fate = Fate::Stopped(Stop {
                asked_ns,
                begun_ns,
                over_ns,
                reported_before_ns,
            });
        }
        Ok(())
    }

    fn measures_a_cpu(&self) -> bool {
        self.command.contains("-c ")
    }

    /// Waits until the recording has grown. This shows that the run drains, explains and writes
    /// records.
    pub(super) fn wait_until_it_records(&mut self) -> Result<()> {
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let before = size(&self.recording);
        wait_for("it to record", || {
            if let Some(status) = self.process.try_wait()? {
                bail!("it ended ({status}): {}", self.said());
            }
            Ok(size(&self.recording) > before)
        })
        .with_context(|| self.standing())
    }

    /// Describes the state of the run for an error: its threads, the kernel stack of each, and its
    /// stderr.
    fn standing(&self) -> String {
        let pid = self.pid();
        let threads = schedstat::threads(pid).unwrap_or_default();
        let at = |(tid, name): &(u32, String)| {
            let stack = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stack"));
            let state = schedstat::state(pid, *tid);
            format!("{name}:{tid} {state:?} {}", stack.unwrap_or_default())
        };
        let threads: Vec<String> = threads.iter().map(at).collect();
        format!(
            "process {pid}: {}; it said: {}",
            threads.join("; "),
            self.said()
        )
    }

    /// Waits until the run's stderr contains these words.
    pub(super) fn wait_until_it_says(&self, words: &str) -> Result<()> {
        wait_for(words, || Ok(self.said().contains(words)))
    }

    /// Checks that the run met its fate.
    pub(super) fn judge(&mut self) -> Result<()> {
        match self.fate {
            Fate::GoesOn => {
                self.wait_until_it_records()?;
                self.explained()?;
            }
            Fate::Loses(kind) => {
                let has_lost = |reported: &Value| reported["losses"][kind].as_u64() > Some(0);
                wait_for("it to tell what it lost", || {
                    Ok(has_lost(&self.explained()?))
                })?;
                self.fate = Fate::GoesOn;
            }
            Fate::Stopped(stop) => {
                self.judge_stop(stop)?;
                self.fate = Fate::GoesOn;
            }
            Fate::Ends(words) => self.failed(words)?,
            Fate::StopsRecording(words) => {
                self.signal(Signal::INT)?;
                self.failed(words)?;
            }
            Fate::Killed => {
                self.ended()?;
                let explained = self.explained()?;
                ensure!(explained["complete"] != true, "it was killed: {explained}");
            }
        }
        Ok(())
    }

    /// Checks that the run reports the whole stop as not measured. The reported time may not be
    /// longer than the time from the stop signal until the report. No reported gap or wake-up may
    /// lie in the stop.
    fn judge_stop(&self, stop: Stop) -> Result<()> {
        let mut reported = Value::Null;
        let mut new_ns = 0;
        wait_for("it to tell that it was stopped", || {
            reported = self.explained()?;
            new_ns = not_measured_ns(&reported)?.saturating_sub(stop.reported_before_ns);
            Ok(new_ns >= stop.over_ns - stop.begun_ns)
        })
        .with_context(|| format!("{stop:?}, {new_ns} ns reported as not measured"))?;
        let most_ns = mono_ns() - stop.asked_ns;
        ensure!(new_ns <= most_ns, "{new_ns} ns reported of {stop:?}");
        for (start_ns, dur_ns) in longest(&reported) {
            let is_apart = start_ns >= stop.over_ns || start_ns + dur_ns <= stop.begun_ns;
            ensure!(is_apart, "{dur_ns} ns from {start_ns} on lie in {stop:?}");
        }
        Ok(())
    }

    /// Ends the run. Checks that its result is equal to the result of `vmnoise explain` for its
    /// recording.
    pub(super) fn end(&mut self) -> Result<()> {
        self.signal(Signal::INT)?;
        let status = self.ended()?;
        ensure!(status.success(), "{status}: {}", self.said());
        let reported = fs::read(&self.stdout)?;
        assert_adds_up(&json(&reported)?);
        let explained = self.explain()?;
        ensure!(reported == explained, "live and recorded differ");
        Ok(())
    }

    /// Checks that the run ended with this message, and nevertheless reported a result.
    fn failed(&mut self, words: &str) -> Result<()> {
        let (status, said) = (self.ended()?, self.said());
        ensure!(status.code() == Some(1), "{status}: {said}");
        ensure!(said.contains(words), "`{words}` is not in: {said}");
        assert_adds_up(&json(&fs::read(&self.stdout)?)?);
        self.explained()?;
        Ok(())
    }

    fn ended(&mut self) -> Result<ExitStatus> {
        let mut ended = None;
        wait_for("its end", || {
            ended = self.process.try_wait()?;
            Ok(ended.is_some())
        })?;
        ended.context("its status")
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Returns the result of `vmnoise explain` for the run's recording so far.
    fn explained(&self) -> Result<Value> {
        let reported = json(&self.explain()?)?;
        assert_adds_up(&reported);
        Ok(reported)
    }

    fn explain(&self) -> Result<Vec<u8>> {
        // `vmnoise explain` has no rights over this process, so it cannot open the path of the
        // recording, which leads through this process's folder in /proc.
        let output = Command::new(binary())
            .args(["explain", "--format", "json", "/proc/self/fd/0"])
            .stdin(File::open(&self.recording)?)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        // The last batch may be incomplete, because the run is writing it or found no space for it.
        let is_read = output.status.success() || said.contains("what came before was read");
        ensure!(is_read, "explain: {said}");
        Ok(output.stdout)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The run may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn not_measured_ns(reported: &Value) -> Result<u64> {
    let ns = reported["cpus"][0]["not_measured_ns"].as_u64();
    ns.with_context(|| format!("no time without measurement in: {reported}"))
}

/// Returns start and length of the listed gaps or wake-ups, CLOCK_MONOTONIC in nanoseconds. The
/// length of a wake-up is its latency.
fn longest(reported: &Value) -> Vec<(u64, u64)> {
    let of_run = reported["worst"].as_array().into_iter().flatten();
    let of_cpu = reported["cpus"][0]["worst"]
        .as_array()
        .into_iter()
        .flatten();
    let ns = |it: &Value, keys: [&str; 2]| Some((it[keys[0]].as_u64()?, it[keys[1]].as_u64()?));
    let gap = |it| ns(it, ["start_mono_ns", "dur_ns"]);
    let wakeup = |it| ns(it, ["expiry_mono_ns", "latency_ns"]);
    of_run
        .filter_map(gap)
        .chain(of_cpu.filter_map(wakeup))
        .collect()
}
