//! Tests of leases: no workload polls on if the program cannot end it, because its terminal takes
//! no output or its first thread is held.

mod root {
    use std::fs;
    use std::io::{BufRead, BufReader, ErrorKind, Write};
    use std::os::fd::OwnedFd;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use nix::sys::ptrace;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::Pid;
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{Signal, kill_process};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcsetwinsize};
    use vmnoise_testkit::{TestProcess, wait_for, wait_until};

    /// Time limit on a busy machine.
    const LONG_ENOUGH: Duration = Duration::from_secs(30);
    /// Longest time for which a workload runs after the last renewal (`measure.rs`).
    const LEASE: Duration = Duration::from_secs(5);
    /// Time between renewals, and time for which a lease outlasts its run.
    const RENEWAL: Duration = Duration::from_secs(1);
    /// Time over which the CPU time of a poller is measured: it has all of this time, or almost
    /// nothing.
    const LOOK: Duration = Duration::from_millis(500);
    /// Interval at which a thread checks its lease (`workload/src/lease.rs`).
    const LEASE_LOOK: Duration = Duration::from_millis(20);
    /// Divisor for the CPU time of a thread that only checks its lease: each check takes
    /// microseconds. A tick, the granularity of a running thread's CPU time, is less too.
    const LOOKS_PART: u32 = 50;

    struct Run(TestProcess);

    impl Run {
        fn start(line: &str, stdout: Stdio) -> Run {
            Run::start_saying(line, stdout, Stdio::piped())
        }

        fn start_saying(line: &str, stdout: Stdio, stderr: Stdio) -> Run {
            let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
            command
                .args(line.split(' '))
                .env("TERM", "xterm")
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(stderr);
            Run(TestProcess::start(&mut command))
        }

        /// Starts the program on a terminal of its own, without stderr.
        fn start_on(terminal: &Path, term: &str, line: &str) -> Run {
            let open = || fs::File::options().read(true).write(true).open(terminal);
            let mut command = Command::new("setsid");
            command
                .args(["--ctty", env!("CARGO_BIN_EXE_vmnoise")])
                .args(line.split(' '))
                .env("TERM", term)
                .stdin(open().unwrap())
                .stdout(open().unwrap())
                .stderr(Stdio::null());
            Run(TestProcess::start(&mut command))
        }

        /// Ends the program by one Ctrl-C, although nothing reads its result.
        fn interrupt(&mut self) {
            self.signal(Signal::INT);
            wait_for("its end after Ctrl-C", || self.0.try_wait().unwrap());
        }

        fn signal(&self, signal: Signal) {
            let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed()).unwrap();
            kill_process(pid, signal).unwrap();
        }

        /// Returns the /proc folder of its measuring thread; `None` if the thread has ended.
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

        /// Returns the CPU time of its measuring thread in ns; `None` if the thread has ended.
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

        /// Returns the whole output after the end.
        fn reported(&mut self) -> String {
            let mut reported = String::new();
            std::io::Read::read_to_string(self.0.stdout.as_mut().unwrap(), &mut reported).unwrap();
            reported
        }

        /// Returns how often its measuring thread has slept; `None` if the thread has ended.
        fn sleeps(&self) -> Option<u64> {
            let status = fs::read_to_string(self.measuring()?.join("status")).ok()?;
            let mut lines = status.lines();
            let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count?.trim().parse().ok()
        }

        /// Returns whether it works for a while: it polls, or sleeps between timers, which is far
        /// more often than lease checks.
        fn works(&self) -> bool {
            let before = self.polled_ns().zip(self.sleeps());
            let begun = Instant::now();
            std::thread::sleep(LOOK);
            let after = self.polled_ns().zip(self.sleeps());
            let Some(((then_ns, then), (now_ns, now))) = before.zip(after) else {
                return false;
            };
            let took = begun.elapsed();
            let looks = took.div_duration_f64(LEASE_LOOK);
            Duration::from_nanos(now_ns - then_ns) > took / LOOKS_PART
                || (now - then) as f64 > 4.0 * looks
        }

        /// Returns the seconds since the start of its measuring thread, to a tick
        /// (proc_pid_stat(5), proc_uptime(5)).
        fn measures_since_s(&self) -> f64 {
            let stat = fs::read_to_string(self.measuring().unwrap().join("stat")).unwrap();
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            let started: f64 = fields.split(' ').nth(19).unwrap().parse().unwrap();
            let uptime = fs::read_to_string("/proc/uptime").unwrap();
            let uptime_s: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
            uptime_s - started / 100.0
        }

        /// Returns whether each of its threads is stopped.
        fn is_stopped(&self) -> bool {
            let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
            let stats = threads.flatten().map(|thread| thread.path().join("stat"));
            stats
                .filter_map(|stat| fs::read_to_string(stat).ok())
                .all(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('T'))
        }

        /// Waits until its measuring thread has had any CPU time.
        fn wait_until_it_runs(&self) {
            let (begin, before) = (Instant::now(), self.polled_ns());
            // A tick of the loop, and a wake-up of a task, are shorter.
            std::thread::sleep(LOOK);
            while self.polled_ns() <= before {
                assert!(begin.elapsed() < LONG_ENOUGH, "it does not run");
                std::thread::sleep(LOOK);
            }
        }

        fn wait_until_it(&self, works: bool) {
            let what = format!("a state in which it works: {works}");
            wait_until(&what, || self.works() == works);
        }
    }

    /// Returns a pipe that takes no data.
    fn full_pipe() -> (OwnedFd, fs::File) {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        fcntl_setfl(&to, OFlags::NONBLOCK).unwrap();
        let to = fs::File::from(to);
        fill(&to);
        fcntl_setfl(&to, OFlags::empty()).unwrap();
        (from, to)
    }

    /// Returns a terminal that takes no data while its other end is open, and its name.
    fn full_terminal() -> (OwnedFd, PathBuf) {
        let other_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&other_end).unwrap();
        unlockpt(&other_end).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&other_end, size).unwrap();
        let name = ptsname(&other_end, Vec::new()).unwrap();
        let name = PathBuf::from(name.to_str().unwrap());
        let terminal = fs::File::options().write(true).open(&name).unwrap();
        fcntl_setfl(&terminal, OFlags::NONBLOCK).unwrap();
        fill(&terminal);
        (other_end, name)
    }

    /// Writes until no more data are taken.
    fn fill(mut to: &fs::File) {
        loop {
            match to.write(&[b'x'; 4096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_reader_that_reads_nothing_stops_no_run_and_keeps_no_cpu() {
        let (from, to) = full_pipe();
        let mut run = Run::start("osnoise trace -c 1 -P f:1 -d 1s", to.into());
        run.wait_until_it(true);
        // No other part of the program ends the polling: it lasts one second, and the time by which
        // a lease outlasts its run.
        let begin = Instant::now();
        while let Some(polled_ns) = run.polled_ns() {
            let polled = Duration::from_nanos(polled_ns);
            assert!(polled < Duration::from_secs(1) + RENEWAL, "{polled:?}");
            if !run.works() {
                break;
            }
            assert!(begin.elapsed() < LONG_ENOUGH, "it polls on");
        }
        // The result waits for its reader, until Ctrl-C.
        assert_eq!(run.0.try_wait().unwrap(), None);
        run.interrupt();
        drop(from);
    }

    /// Like a connection that hangs, and like Ctrl-S: a live frame in one terminal, and a table
    /// that is redrawn in another.
    #[test]
    fn a_terminal_that_takes_nothing_holds_up_no_run_that_draws_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let draws_on = |term: &str, command: &str| {
            let recording = folder.path().join(term);
            let name = recording.to_str().unwrap();
            let (_reader, terminal) = full_terminal();
            let line = format!("{command} -d 600s -o {name}");
            let mut run = Run::start_on(&terminal, term, &line);
            run.wait_until_it(true);
            // A thread that waits for the terminal would renew no lease.
            std::thread::sleep(2 * LEASE);
            assert!(run.works(), "{term}: {command} works no more");
            let mut other = fs::File::options().write(true).open(&terminal).unwrap();
            fcntl_setfl(&other, OFlags::NONBLOCK).unwrap();
            let refused = other.write(b"x").map_err(|error| error.kind());
            assert_eq!(refused, Err(ErrorKind::WouldBlock), "{term}: it takes more");
            run.interrupt();
            lacks_nothing(name, command);
        };
        // Both run in parallel, since they mostly wait.
        std::thread::scope(|scope| {
            scope.spawn(|| draws_on("xterm", "osnoise top -c 1"));
            scope.spawn(|| draws_on("dumb", "timerlat top -c 1"));
        });
    }

    /// Checks that the recording is complete and that its run was never delayed.
    fn lacks_nothing(name: &str, command: &str) {
        let explained = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .args(["explain", name, "--format", "json"])
            .output();
        let explained = explained.unwrap().stdout;
        let result: serde_json::Value = serde_json::from_slice(&explained).unwrap();
        let cpu = &result["cpus"][0];
        println!("{command}: {} {cpu}", result["losses"]);
        assert_eq!(result["complete"], true, "{command}");
        for kind in ["ring_full", "unrecorded"] {
            assert_eq!(result["losses"][kind], 0, "{command}: {kind}");
        }
        assert_eq!(cpu["not_measured_ns"], 0, "{command}");
    }

    /// A line for each period into a full pipe, and a progress line on a terminal that takes no
    /// data.
    #[test]
    fn a_stderr_that_takes_nothing_holds_up_no_run_and_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let (_reader, pipe) = full_pipe();
        let (_other_end, terminal) = full_terminal();
        let terminal = fs::File::options().write(true).open(terminal).unwrap();
        let says_to = |command: &str, stderr: OwnedFd| {
            let recording = folder.path().join(&command[..5]);
            let name = recording.to_str().unwrap();
            let line = format!("{command} -d 20s -o {name}");
            let mut run = Run::start_saying(&line, Stdio::piped(), stderr.into());
            run.wait_until_it(true);
            // A thread that waits for stderr would renew no lease.
            std::thread::sleep(2 * LEASE);
            assert!(run.works(), "{command} works no more");
            let mut out = BufReader::new(run.0.stdout.take().unwrap());
            let mut first = String::new();
            out.read_line(&mut first).unwrap();
            assert!(!first.is_empty(), "{command}: no result");
            // Messages wait for their reader, until Ctrl-C.
            assert_eq!(
                run.0.try_wait().unwrap(),
                None,
                "{command}: nothing was said"
            );
            run.interrupt();
            lacks_nothing(name, command);
        };
        // Both run in parallel, since they mostly wait.
        std::thread::scope(|scope| {
            scope.spawn(|| says_to("microvm -c 1", pipe.into()));
            scope.spawn(|| says_to("osnoise hist -c 1", terminal.into()));
        });
    }

    #[test]
    fn a_program_that_is_held_keeps_no_cpu_and_goes_on_where_it_is_let_go() {
        let timers = "timerlat -c 1 -P f:1 -p 100us";
        for command in ["osnoise -c 1 -P f:1", "microvm -c 1 -P f:1", timers] {
            let line = format!("{command} -d 600s --format json");
            let mut run = Run::start(&line, Stdio::piped());
            run.wait_until_it(true);
            // Only its first thread is held.
            let main = Pid::from_raw(run.0.id().cast_signed());
            Run::hold(main);
            let held = Instant::now();
            let before_ns = run.polled_ns().unwrap();
            // On a busy machine too: a thread without CPU time at the end of its lease gets none
            // afterwards.
            std::thread::sleep(LEASE + RENEWAL);
            assert!(!run.works(), "{command} works on");
            let polled = Duration::from_nanos(run.polled_ns().unwrap() - before_ns);
            let most = LEASE + held.elapsed() / LOOKS_PART;
            assert!(polled <= most, "{command}: {polled:?} of {most:?}");
            // Longer than the start of a run takes; this time is no runtime either.
            std::thread::sleep(LEASE);
            let unwatched_s = (held.elapsed() - LEASE).as_secs_f64();
            let so_far_s = run.measures_since_s();
            let let_go = Instant::now();
            ptrace::detach(main, None).unwrap();
            run.wait_until_it(true);
            run.signal(Signal::INT);
            let reported = run.reported();
            let most_s = so_far_s + let_go.elapsed().as_secs_f64() - unwatched_s;
            assert!(run.0.wait().unwrap().success(), "{command}");
            // Time without a lease is no gap, no latency, and no runtime.
            let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
            let cpu = &reported["cpus"][0];
            let number =
                |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("{cpu}"));
            let (measured_ns, max_ns) = match cpu.get("user") {
                // The task woke up each 100 us, or missed the wake-up.
                Some(user) => {
                    let expiries = number(&cpu["count"]) + number(&cpu["missed"]);
                    (100_000 * expiries, number(&user["max_ns"]))
                }
                None => (number(&cpu["runtime_ns"]), number(&cpu["max_gap_ns"])),
            };
            assert!(max_ns < LOOK.as_nanos() as u64, "{command}: {cpu}");
            let measured_s = measured_ns as f64 / 1e9;
            assert!(
                measured_s <= most_s,
                "{command}: {measured_s} s of {most_s} s"
            );
            println!("{command}: {polled:?} after it was held; {measured_s} s of {most_s} s");
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
        let reported = run.reported();
        // The end waits for this time for a thread that is held (`measure.rs`); the run is over by
        // then.
        let most_ns = (around.elapsed() - Duration::from_secs(5)).as_nanos() as u64;
        // The tracer is notified first that the process has ended.
        waitpid(tid, Some(WaitPidFlag::__WALL)).unwrap();
        assert!(run.0.wait().unwrap().success());
        let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
        let cpu = &reported["cpus"][0];
        let not_measured_ns = cpu["not_measured_ns"].as_u64().unwrap();
        assert!(
            (least_ns..=most_ns).contains(&not_measured_ns),
            "{not_measured_ns} of {least_ns} to {most_ns}"
        );
        let longest_ns = cpu["max_gap_ns"].as_u64().unwrap();
        assert!(longest_ns < least_ns, "{cpu}");
    }

    /// Stops and continues the program as Ctrl-Z and `fg` do, for longer and for less than a lease.
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
            // The thread also works before, during the set-up.
            while !fs::metadata(&file).is_ok_and(|file| file.len() > 0) {
                std::thread::sleep(Duration::from_millis(20));
            }
            run.wait_until_it_runs();
            let around = Instant::now();
            run.signal(Signal::STOP);
            wait_until("the stop of all threads", || run.is_stopped());
            // A thread is reported as stopped a moment before it leaves its CPU.
            std::thread::sleep(LOOK);
            let inside = Instant::now();
            std::thread::sleep(Duration::from_secs(stop_s));
            let least_ns = inside.elapsed().as_nanos() as u64;
            run.signal(Signal::CONT);
            run.wait_until_it_runs();
            let most_ns = around.elapsed().as_nanos() as u64;
            run.signal(Signal::INT);
            let reported = run.reported();
            assert!(run.0.wait().unwrap().success(), "{command}");
            let result: serde_json::Value = serde_json::from_str(&reported).unwrap();
            let cpu = &result["cpus"][0];
            let not_measured_ns = cpu["not_measured_ns"].as_u64().unwrap();
            assert!(
                (least_ns..=most_ns).contains(&not_measured_ns),
                "{command}: {not_measured_ns} of {least_ns} to {most_ns}"
            );
            // The stop is no noise and no latency.
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
            assert_eq!(explained, reported, "{command}");
        }
    }
}
