//! Builds and runs LogGOPSim from its source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOURCE: &str = "https://github.com/spcl/LogGOPSim";
/// Commit of December 2023; `docs/data.md` describes how it reads noise.
const COMMIT: &str = "76451de16546c7ea39651c183cbc532f4a3457c0";

/// Programs, in a folder that is kept between runs.
pub struct Simulator(PathBuf);

impl Simulator {
    /// Fetches and builds the simulator if it is missing; returns the reason if it cannot be built
    /// here.
    pub fn build() -> Result<Simulator, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = root.join("target/loggopsim");
        let programs = folder.join("src/LogGOPSim");
        if !programs.join("LogGOPSim").exists() {
            if !folder.exists() {
                let fetched = git(&["clone", "--quiet", SOURCE, &folder.display().to_string()]);
                fetched.map_err(|why| format!("its source cannot be fetched: {why}"))?;
            }
            let folder = folder.display().to_string();
            git(&["-C", &folder, "checkout", "--quiet", COMMIT])?;
            // The target of its makefile that links the programs.
            let mut make = Command::new("make");
            make.arg("--directory").arg(&programs).arg("all");
            said_of(&mut make).map_err(|why| {
                format!("it needs gengetopt, re2c, g++ and libgraphviz-dev: {why}")
            })?;
        }
        Ok(Simulator(programs))
    }

    /// Returns the length of all steps in the simulation, in nanoseconds. Each rank works for
    /// `step_ns`, then notifies others and waits for them in rounds that take no time (a
    /// dissemination barrier).
    pub fn ns(
        &self,
        folder: &Path,
        noise: Option<&Path>,
        ranks: u32,
        steps: u32,
        step_ns: u64,
    ) -> u64 {
        let (text, binary) = (folder.join("steps.goal"), folder.join("steps.bin"));
        fs::write(&text, goal(ranks, steps, step_ns)).unwrap();
        let mut translate = Command::new(self.0.join("txt2bin"));
        translate.arg("-i").arg(&text).arg("-o").arg(&binary);
        said_of(&mut translate).unwrap();
        let mut simulate = Command::new(self.0.join("LogGOPSim"));
        simulate.arg("-f").arg(&binary);
        for parameter in ["-L", "-o", "-g", "-G", "-O"] {
            simulate.args([parameter, "0"]);
        }
        if let Some(noise) = noise {
            simulate.arg("--noise-trace").arg(noise);
        }
        let said = said_of(&mut simulate).unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        // The output lists each host, or for many hosts only the end of the last one.
        let hosts = said.lines().filter_map(|line| {
            let of_host = ["Host ", "Maximum finishing time at host "];
            let rest = of_host.iter().find_map(|it| line.strip_prefix(it))?;
            let (_, ns) = rest.split_once(": ")?;
            ns.split_whitespace().next()?.parse().ok()
        });
        hosts.max().unwrap_or_else(|| panic!("{said}"))
    }
}

fn goal(ranks: u32, steps: u32, step_ns: u64) -> String {
    let rounds = ranks.next_power_of_two().trailing_zeros();
    let mut text = format!("num_ranks {ranks}\n");
    for rank in 0..ranks {
        text += &format!("rank {rank} {{\n");
        let mut last = Vec::new();
        for step in 0..steps {
            let work = format!("c{step}");
            text += &format!("{work}: calc {step_ns}\n");
            text += &behind(&work, &last);
            last = vec![work];
            for round in 0..rounds {
                let (to, from) = (
                    (rank + (1 << round)) % ranks,
                    (rank + ranks - (1 << round)) % ranks,
                );
                let [send, receive] = [format!("s{step}x{round}"), format!("r{step}x{round}")];
                text += &format!("{send}: send 1b to {to} tag {round}\n");
                text += &behind(&send, &last);
                text += &format!("{receive}: recv 1b from {from} tag {round}\n");
                text += &behind(&receive, &last);
                last = vec![send, receive];
            }
        }
        text += "}\n";
    }
    text
}

fn behind(what: &str, last: &[String]) -> String {
    last.iter()
        .map(|it| format!("{what} requires {it}\n"))
        .collect()
}

fn git(words: &[&str]) -> Result<(), String> {
    let mut git = Command::new("timeout");
    said_of(git.arg("60").arg("git").args(words)).map(|_| ())
}

/// Returns the output of a command, or the reason of its failure.
fn said_of(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.lines().last().unwrap_or("it said nothing").to_owned())
        }
    }
}
