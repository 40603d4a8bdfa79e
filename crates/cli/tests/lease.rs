//! Nobody polls for a program that cannot end it any more: its terminal takes nothing, or its
//! first thread is held.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod root {
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use nix::sys::ptrace;
    use nix::sys::wait::waitpid;
    use nix::unistd::Pid;
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{Signal, kill_process};

    /// A lease of 5 s that was renewed up to a second ago, and time for a busy machine.
    const LONG_ENOUGH: Duration = Duration::from_secs(30);
    /// A poller has the CPU for all of this, or for nothing of it.
    const LOOK: Duration = Duration::from_millis(500);

    /// Killed when it is dropped.
    struct Run(Child);

    impl Drop for Run {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Run {
        fn start(line: &str, stdout: Stdio) -> Run {
            let child = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
                .args(line.split(' '))
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(Stdio::piped())
                .spawn();
            Run(child.unwrap())
        }

        fn signal(&self, signal: Signal) {
            let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed()).unwrap();
            kill_process(pid, signal).unwrap();
        }

        /// Nanoseconds that its measuring thread had of a CPU so far; `None` if it is gone.
        fn polled_ns(&self) -> Option<u64> {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).ok()?;
            let tasks = tasks.flatten().map(|task| task.path());
            let measures = |name: &str| {
                ["vmnoise-spin1", "vmnoise-vcpu1", "vmnoise-timer1"].contains(&name.trim())
            };
            let mut found = tasks.filter(|task| {
                fs::read_to_string(task.join("comm")).is_ok_and(|name| measures(&name))
            });
            let schedstat = fs::read_to_string(found.next()?.join("schedstat")).ok()?;
            schedstat.split(' ').next()?.parse().ok()
        }

        /// Whether it polls, over a while.
        fn polls(&self) -> bool {
            let before = self.polled_ns();
            std::thread::sleep(LOOK);
            // A thread that looks for its lease has microseconds of it.
            let least_ns = LOOK.as_nanos() as u64 / 50;
            self.polled_ns()
                .zip(before)
                .is_some_and(|(now, then)| now - then > least_ns)
        }

        fn wait_until_it(&self, polls: bool) {
            let begin = Instant::now();
            while self.polls() != polls {
                assert!(
                    begin.elapsed() < LONG_ENOUGH,
                    "it never came to polls: {polls}"
                );
            }
        }
    }

    /// A pipe that takes nothing.
    fn full_pipe() -> (std::os::fd::OwnedFd, fs::File) {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        fcntl_setfl(&to, OFlags::NONBLOCK).unwrap();
        let mut to = fs::File::from(to);
        loop {
            match to.write(&[b'x'; 4096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        fcntl_setfl(&to, OFlags::empty()).unwrap();
        (from, to)
    }

    #[test]
    fn a_reader_that_reads_nothing_stops_no_run_and_keeps_no_cpu() {
        let (from, to) = full_pipe();
        let mut run = Run::start("osnoise trace -c 1 -P f:1 -d 1s", to.into());
        run.wait_until_it(true);
        run.wait_until_it(false);
        // The result waits for its reader, but not after Ctrl-C.
        assert_eq!(run.0.try_wait().unwrap(), None);
        run.signal(Signal::INT);
        let begin = Instant::now();
        while run.0.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < LONG_ENOUGH, "Ctrl-C does not end it");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(from);
    }

    #[test]
    fn a_program_that_is_held_keeps_no_cpu_and_goes_on_where_it_is_let_go() {
        for command in ["osnoise -c 1 -P f:1", "microvm -c 1 -P f:1"] {
            let line = format!("{command} -d 600s --format json");
            let run = Run::start(&line, Stdio::piped());
            run.wait_until_it(true);
            let begin = Instant::now();
            // Its first thread alone: all others run.
            let main = Pid::from_raw(run.0.id().cast_signed());
            ptrace::seize(main, ptrace::Options::empty()).unwrap();
            ptrace::interrupt(main).unwrap();
            waitpid(main, None).unwrap();
            run.wait_until_it(false);
            ptrace::detach(main, None).unwrap();
            run.wait_until_it(true);
            let whole_ns = begin.elapsed().as_nanos() as u64;
            run.signal(Signal::INT);
            let mut run = run;
            let mut told = String::new();
            std::io::Read::read_to_string(run.0.stdout.as_mut().unwrap(), &mut told).unwrap();
            assert!(run.0.wait().unwrap().success(), "{command}");
            // What nobody watched is no gap and no runtime.
            let told: serde_json::Value = serde_json::from_str(&told).unwrap();
            let cpu = &told["cpus"][0];
            let [runtime_ns, max_ns] = ["runtime_ns", "max_gap_ns"]
                .map(|key| cpu[key].as_u64().unwrap_or_else(|| panic!("{key}: {cpu}")));
            assert!(max_ns < LOOK.as_nanos() as u64, "{command}: {cpu}");
            println!("{command}: {runtime_ns} ns of {whole_ns} ns were watched");
        }
    }

    #[test]
    fn a_run_goes_on_after_it_was_stopped_for_longer_than_its_lease() {
        for command in ["osnoise -c 1", "microvm -c 1"] {
            let run = Run::start(&format!("{command} -d 600s --format json"), Stdio::null());
            run.wait_until_it(true);
            run.signal(Signal::STOP);
            std::thread::sleep(Duration::from_secs(7));
            run.signal(Signal::CONT);
            run.wait_until_it(true);
            run.signal(Signal::INT);
            let mut run = run;
            assert!(run.0.wait().unwrap().success(), "{command}");
        }
    }
}
