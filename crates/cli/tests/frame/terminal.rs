//! A terminal of a given size: a tmux server of our own, with a shell in it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Whatever is expected has come by then, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(90);
/// What the shell says when it has the terminal.
const PROMPT: &str = "the shell> ";

/// A shell that runs the binary.
pub struct Terminal {
    /// Where the server's socket is.
    folder: TempDir,
}

/// A process that is to end.
pub struct Pid(u32);

impl Terminal {
    /// Runs the binary with these variables and arguments, and waits for nothing.
    pub fn run(columns: u32, lines: u32, variables: &str, arguments: &str) -> Terminal {
        let binary = env!("CARGO_BIN_EXE_vmnoise");
        Terminal::shell(columns, lines, &format!("{variables} {binary} {arguments}"))
    }

    /// Gives a shell this line, and waits for nothing.
    pub fn shell(columns: u32, lines: u32, command: &str) -> Terminal {
        let terminal = Terminal {
            folder: tempfile::tempdir().unwrap(),
        };
        let size = [columns.to_string(), lines.to_string()];
        let prompt = format!("PS1={PROMPT}");
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &size[0],
            "-y",
            &size[1],
            "-s",
            "test",
            "env",
            "-i",
            "TERM=screen",
            &format!("PATH={}", std::env::var("PATH").unwrap()),
            &prompt,
            "bash",
            "--norc",
            "--noprofile",
        ]);
        terminal.wait(PROMPT.trim_end());
        terminal.press(&format!("clear; {command}\n"));
        terminal
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("tmux")
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.socket())
            .args(arguments)
            .env_remove("TMUX")
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A key by tmux's name of it, or letters.
    pub fn press(&self, keys: &str) {
        match keys.strip_suffix('\n') {
            Some(line) => {
                self.tmux(&["send-keys", "-t", "test", "-l", line]);
                self.tmux(&["send-keys", "-t", "test", "Enter"]);
            }
            None => {
                self.tmux(&["send-keys", "-t", "test", keys]);
            }
        }
    }

    /// The screen as it is.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "test"])
    }

    /// As `screen`, with what switches colours.
    pub fn with_colours(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e", "-t", "test"])
    }

    pub fn resize(&self, columns: u32, lines: u32) {
        let size = [columns.to_string(), lines.to_string()];
        self.tmux(&[
            "resize-window",
            "-t",
            "test",
            "-x",
            &size[0],
            "-y",
            &size[1],
        ]);
    }

    /// The screen that shows this, when it does.
    pub fn wait(&self, text: &str) -> String {
        self.wait_for(text, |screen| screen.contains(text))
    }

    /// The first screen that shows this, which need not last.
    pub fn see(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(begin.elapsed() < PATIENCE, "{text} never came:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Until the shell has the terminal again, the frame gone from it.
    pub fn wait_shell(&self) {
        self.wait_for("the shell", |screen| {
            let last = screen.trim_end().lines().last().unwrap_or_default();
            last == PROMPT.trim_end() && !screen.contains("q end")
        });
    }

    /// All that was printed and the status, when the binary has ended.
    pub fn ended(&self) -> String {
        self.wait_shell();
        self.press("echo status $?\n");
        self.wait_for("its status", |screen| {
            screen.lines().any(|line| line.starts_with("status "))
        });
        self.tmux(&["capture-pane", "-p", "-S", "-", "-t", "test"])
    }

    /// Twice the same: one alone may be half drawn.
    fn wait_for(&self, what: &str, there: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        let mut before = String::new();
        loop {
            let screen = self.screen();
            if there(&screen) && screen == before {
                return screen;
            }
            assert!(begin.elapsed() < PATIENCE, "{what} never came:\n{screen}");
            before = screen;
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The process of the binary: the shell's only child.
    pub fn pid(&self) -> Pid {
        let shell = self.tmux(&["display-message", "-p", "-t", "test", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        Pid(children.unwrap().trim().parse().unwrap())
    }

    /// Sends the binary a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().0.to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Takes the terminal away.
    pub fn hang_up(self) {
        drop(self);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .arg("-S")
            .arg(self.socket())
            .arg("kill-server")
            .output();
    }
}

impl Pid {
    /// Waits until it is no more.
    pub fn wait_for_end(&self) {
        let begin = Instant::now();
        while fs::exists(format!("/proc/{}", self.0)).unwrap() {
            assert!(begin.elapsed() < PATIENCE, "it runs on without a terminal");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
