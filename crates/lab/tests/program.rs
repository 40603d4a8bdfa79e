//! Runs `vmnoise-lab` in a temporary folder.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Temporary folder in which `vmnoise-lab` runs.
pub struct ProgramFolder {
    folder: TempDir,
}

impl ProgramFolder {
    /// Creates a folder with this text as the file `scenario.toml`.
    pub fn with(scenario: &str) -> ProgramFolder {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
        ProgramFolder { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts the program, and does not wait for its end.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise-lab"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Runs the program, which must succeed. Returns its stdout.
    pub fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program, which must fail. Returns its error message.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Returns the id of a process that `parent` has started with this argument; `None` if there is
/// none.
pub fn child_of(parent: u32, argument: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().find_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        // A process may end between the two reads. The file has `ID (NAME) STATE PARENT` (proc(5)).
        let read = |file: &str| std::fs::read_to_string(process.path().join(file)).ok();
        let stat = read("stat")?;
        let after_name = stat.rsplit_once(')')?.1;
        let its_parent: u32 = after_name.split_whitespace().nth(1)?.parse().ok()?;
        let is_one = its_parent == parent && read("cmdline")?.split('\0').any(|it| it == argument);
        is_one.then_some(id)
    })
}
