//! Runs `vmnoise exits` while VMs run.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::vms::FIRST;

/// Time limit for everything; after it the program counts as hung.
const BACKSTOP: Duration = Duration::from_secs(60);

/// Running `vmnoise exits`, which counts until it is ended.
pub struct ExitCounter {
    process: Child,
    /// Thread that finds VMs.
    pub finder: u32,
}

impl ExitCounter {
    /// Starts the program with these options; returns when it counts.
    pub fn start(options: &str) -> ExitCounter {
        let mut command = Command::new("nice");
        command.args(["-n", &FIRST.to_string(), env!("CARGO_BIN_EXE_vmnoise")]);
        let words = format!("exits -q -d 30m --format json{options}");
        let process = command
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = process.spawn().unwrap();
        let begun = Instant::now();
        // The finder starts as soon as counting has begun.
        let finder = loop {
            match finder_of(process.id()) {
                Some(finder) => break finder,
                None if process.try_wait().unwrap().is_some() => panic!("it does not count"),
                None => assert!(begun.elapsed() < BACKSTOP, "it does not come to count"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
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

/// A failed test leaves no process behind.
impl Drop for ExitCounter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
