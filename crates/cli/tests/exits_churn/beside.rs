//! Runs `vmnoise exits` while VMs run.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;
use vmnoise_testkit::{TestProcess, wait_for};

use super::vms::FIRST;

/// Running `vmnoise exits`, which counts until it is ended.
pub struct ExitCounter {
    process: TestProcess,
    /// Thread that finds VMs.
    pub finder: u32,
}

impl ExitCounter {
    /// Starts the program with these options; returns when it counts.
    pub fn start(options: &str) -> ExitCounter {
        let mut command = Command::new("nice");
        command.args(["-n", &FIRST.to_string(), env!("CARGO_BIN_EXE_vmnoise")]);
        let words = format!("exits -q -d 30m --format json{options}");
        let command = command
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = TestProcess::start(command);
        // The finder starts as soon as counting has begun.
        let finder = wait_for("the begin of counting", || {
            let finder = finder_of(process.id());
            let runs = finder.is_some() || process.try_wait().unwrap().is_none();
            assert!(runs, "it does not count");
            finder
        });
        ExitCounter { process, finder }
    }

    /// Returns the process id, which is also the id of the thread that drains the ring.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the anonymous memory in KiB; pages of mapped files do not count.
    pub fn resident_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
        let kb = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kb.unwrap().parse().unwrap()
    }

    /// Ends the program by Ctrl-C; returns its result and its messages.
    pub fn end(mut self) -> (Value, String) {
        let pid = self.process.id().to_string();
        let stopped = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(stopped.success());
        let (mut reported, mut said) = (String::new(), String::new());
        let process = &mut self.process;
        let mut stdout = process.stdout.take().unwrap();
        stdout.read_to_string(&mut reported).unwrap();
        let mut stderr = process.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        assert!(process.wait().unwrap().success(), "{said}");
        (serde_json::from_str(&reported).unwrap(), said)
    }
}

fn finder_of(pid: u32) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let mut finders = tasks.filter(|task| {
        let name = fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "vmnoise-vms")
    });
    finders.next()?.file_name().to_str()?.parse().ok()
}
