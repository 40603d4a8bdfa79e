//! Terminal of a given size: a tmux server with a shell.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Time limit for everything, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(90);
/// Prompt of the shell when it has the terminal.
const PROMPT: &str = "the shell> ";

/// Shell in which the binary runs.
pub struct Terminal {
    /// Folder with the server's socket.
    folder: TempDir,
}

/// Process that must end.
pub struct Pid(u32);

impl Terminal {
    /// Runs the binary with these variables and arguments, without waiting.
    pub fn run(columns: u32, lines: u32, variables: &str, arguments: &str) -> Terminal {
        let binary = env!("CARGO_BIN_EXE_vmnoise");
        Terminal::shell(columns, lines, &format!("{variables} {binary} {arguments}"))
    }

    /// Runs this line in a shell, without waiting.
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

    /// Presses a key with tmux's name, or types letters.
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

    /// Returns the present screen.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "test"])
    }

    /// Returns the screen with control sequences for colours.
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

    /// Waits for a screen with this text, and returns it.
    pub fn wait(&self, text: &str) -> String {
        self.wait_for(text, |screen| screen.contains(text))
    }

    /// Returns the first screen with this text, which may be visible only for a moment.
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

    /// Waits until the shell has the terminal again and the frame is gone.
    pub fn wait_shell(&self) {
        self.wait_for("the shell", |screen| {
            let last = screen.trim_end().lines().last().unwrap_or_default();
            last == PROMPT.trim_end() && !screen.contains("q end")
        });
    }

    /// Returns the whole output with the exit status after the binary has ended.
    pub fn ended(&self) -> String {
        self.wait_shell();
        self.press("echo status $?\n");
        self.wait_for("its status", |screen| {
            screen.lines().any(|line| line.starts_with("status "))
        });
        self.tmux(&["capture-pane", "-p", "-S", "-", "-t", "test"])
    }

    /// Waits for two equal screens, since a single one may be half drawn.
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

    /// Returns the process of the binary, the shell's only child.
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

    /// Closes the terminal.
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
    /// Waits until the process has ended.
    pub fn wait_for_end(&self) {
        let begin = Instant::now();
        while fs::exists(format!("/proc/{}", self.0)).unwrap() {
            assert!(begin.elapsed() < PATIENCE, "it runs on without a terminal");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
