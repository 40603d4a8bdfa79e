//! Nobody polls for a program that cannot end it any more: its terminal takes nothing, or its
//! first thread is held.

mod root {
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use nix::sys::ptrace;
    use nix::sys::wait::{WaitPidFlag, waitpid};
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

        /// Its measuring thread, in /proc; `None` if it is gone.
        fn measuring(&self) -> Option<PathBuf> {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).ok()?;
            let mut tasks = tasks.flatten().map(|task| task.path());
            let measures = |name: &str| {
                ["vmnoise-spin1", "vmnoise-vcpu1", "vmnoise-timer1"].contains(&name.trim())
            };
            tasks.find(|task| {
                fs::read_to_string(task.join("comm")).is_ok_and(|name| measures(&name))
            })
        }

        /// Nanoseconds that its measuring thread had of a CPU so far; `None` if it is gone.
        fn polled_ns(&self) -> Option<u64> {
            let schedstat = fs::read_to_string(self.measuring()?.join("schedstat")).ok()?;
            schedstat.split(' ').next()?.parse().ok()
        }

        /// Holds this thread, as a debugger does.
        fn hold(tid: Pid) {
            ptrace::seize(tid, ptrace::Options::empty()).unwrap();
            ptrace::interrupt(tid).unwrap();
            waitpid(tid, Some(WaitPidFlag::__WALL)).unwrap();
        }

        /// All that it tells, once it has ended.
        fn told(&mut self) -> String {
            let mut told = String::new();
            std::io::Read::read_to_string(self.0.stdout.as_mut().unwrap(), &mut told).unwrap();
            told
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

        /// Whether each of its threads is stopped.
        fn is_stopped(&self) -> bool {
            let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
            let stats = threads.flatten().map(|thread| thread.path().join("stat"));
            stats
                .filter_map(|stat| fs::read_to_string(stat).ok())
                .all(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('T'))
        }

        /// Waits until its measuring thread has had some of a CPU since, however little.
        fn wait_until_it_runs(&self) {
            let (begin, before) = (Instant::now(), self.polled_ns());
            // A tick of the loop, and a wake-up of a task, are shorter.
            std::thread::sleep(LOOK);
            while self.polled_ns() <= before {
                assert!(begin.elapsed() < LONG_ENOUGH, "it does not run");
                std::thread::sleep(LOOK);
            }
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
            let mut run = Run::start(&line, Stdio::piped());
            run.wait_until_it(true);
            let begin = Instant::now();
            // Its first thread alone: all others run.
            let main = Pid::from_raw(run.0.id().cast_signed());
            Run::hold(main);
            run.wait_until_it(false);
            ptrace::detach(main, None).unwrap();
            run.wait_until_it(true);
            let whole_ns = begin.elapsed().as_nanos() as u64;
            run.signal(Signal::INT);
            let told = run.told();
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
    fn a_thread_that_is_held_to_the_end_of_its_run_has_not_measured_since() {
        let mut run = Run::start("osnoise -c 1 -d 600s --format json", Stdio::piped());
        run.wait_until_it(true);
        let thread = run.measuring().unwrap();
        let tid = thread.file_name().unwrap().to_str().unwrap();
        let tid = Pid::from_raw(tid.parse().unwrap());
        let around = Instant::now();
        Run::hold(tid);
        let inside = Instant::now();
        std::thread::sleep(LOOK);
        let least_ns = inside.elapsed().as_nanos() as u64;
        run.signal(Signal::INT);
        let told = run.told();
        // For so long the end waits for a thread that is held (`measure.rs`); its run is over by then.
        let most_ns = (around.elapsed() - Duration::from_secs(5)).as_nanos() as u64;
        // Its tracer hears first that it has ended.
        waitpid(tid, Some(WaitPidFlag::__WALL)).unwrap();
        assert!(run.0.wait().unwrap().success());
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let cpu = &told["cpus"][0];
        let not_measured_ns = cpu["not_measured_ns"].as_u64().unwrap();
        assert!(
            (least_ns..=most_ns).contains(&not_measured_ns),
            "{not_measured_ns} of {least_ns} to {most_ns}"
        );
        let longest_ns = cpu["max_gap_ns"].as_u64().unwrap();
        assert!(longest_ns < least_ns, "{cpu}");
    }

    /// Stopped and let go as by Ctrl-Z and `fg`, for longer than a lease and for less.
    #[test]
    fn a_run_that_was_stopped_goes_on_and_says_what_was_not_measured() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.vmn");
        for (command, stop_s) in [
            ("osnoise -c 1", 7),
            ("osnoise -c 1 -p 100ms -r 50ms", 2),
            ("microvm -c 1", 2),
            ("microvm -c 1 --no-trace", 2),
            ("timerlat -c 1", 2),
        ] {
            let name = file.to_str().unwrap();
            let line = format!("{command} -d 600s --format json -o {name}");
            let _ = fs::remove_file(&file);
            let mut run = Run::start(&line, Stdio::piped());
            // Its thread works before, too: it is set up.
            while !fs::metadata(&file).is_ok_and(|file| file.len() > 0) {
                std::thread::sleep(Duration::from_millis(20));
            }
            run.wait_until_it_runs();
            let around = Instant::now();
            run.signal(Signal::STOP);
            while !run.is_stopped() {
                assert!(around.elapsed() < LONG_ENOUGH, "{command}: not stopped");
            }
            // A thread is called stopped a moment before it leaves its CPU.
            std::thread::sleep(LOOK);
            let inside = Instant::now();
            std::thread::sleep(Duration::from_secs(stop_s));
            let least_ns = inside.elapsed().as_nanos() as u64;
            run.signal(Signal::CONT);
            run.wait_until_it_runs();
            let most_ns = around.elapsed().as_nanos() as u64;
            run.signal(Signal::INT);
            let told = run.told();
            assert!(run.0.wait().unwrap().success(), "{command}");
            let result: serde_json::Value = serde_json::from_str(&told).unwrap();
            let cpu = &result["cpus"][0];
            let not_measured_ns = cpu["not_measured_ns"].as_u64().unwrap();
            assert!(
                (least_ns..=most_ns).contains(&not_measured_ns),
                "{command}: {not_measured_ns} of {least_ns} to {most_ns}"
            );
            // It is nobody's noise, and no latency.
            let longest = match cpu.get("user") {
                Some(user) => &user["max_ns"],
                None => &cpu["max_gap_ns"],
            };
            let longest_ns = longest.as_u64().unwrap();
            assert!(longest_ns < least_ns, "{command}: {cpu}");
            let explained = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
                .args(["explain", name, "--format", "json"])
                .output();
            let explained = String::from_utf8(explained.unwrap().stdout).unwrap();
            assert_eq!(explained, told, "{command}");
        }
    }
}
