//! Processes that do not outlive a test.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};

/// A process that is killed when this value is dropped. All methods of [`Child`] apply to it.
#[derive(Debug)]
pub struct TestProcess(Child);

impl TestProcess {
    /// Starts a program.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> TestProcess {
        match command.spawn() {
            Ok(child) => TestProcess(child),
            Err(error) => panic!("{command:?} does not start: {error}"),
        }
    }

    /// Starts a task that keeps this CPU busy: a shell, so its name is `sh`.
    ///
    /// # Panics
    /// If the task cannot be started.
    #[track_caller]
    pub fn busy(cpu: u32) -> TestProcess {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
        TestProcess::start(command.stdout(Stdio::null()))
    }
}

impl Deref for TestProcess {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for TestProcess {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_process_ends_with_its_value() {
        let process = TestProcess::start(Command::new("sleep").arg("600"));
        let folder = format!("/proc/{}", process.id());
        assert!(Path::new(&folder).exists());
        drop(process);
        assert!(!Path::new(&folder).exists());
    }
}
