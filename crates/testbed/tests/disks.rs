//! Tests recordings on a disk that is full, or that hangs. The run and its result must not depend
//! on the disk.

mod root {
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitStatus, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::Value;
    use vmnoise_testbed::{binary, run_to_end, schedstat, skipped};
    use vmnoise_testkit::{TestProcess, wait_until};

    /// Maximum time of every wait.
    const LONG_ENOUGH: Duration = Duration::from_secs(60);

    fn succeeds(program: &str, arguments: &[&str]) -> bool {
        let ended = Command::new(program).args(arguments).output();
        ended.is_ok_and(|ended| ended.status.success())
    }

    /// A file system of its own. It is unmounted when this value is dropped.
    struct Disk {
        folder: tempfile::TempDir,
    }

    impl Disk {
        fn of(mount: &[&str]) -> Option<Disk> {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().to_str().unwrap();
            succeeds("mount", &[mount, &[place]].concat()).then_some(Disk { folder })
        }

        fn path(&self) -> &str {
            self.folder.path().to_str().unwrap()
        }

        /// Blocks all writes to the disk until the returned value is dropped.
        fn freeze(&self) -> Frozen<'_> {
            assert!(succeeds("fsfreeze", &["-f", self.path()]));
            Frozen(self)
        }
    }

    impl Drop for Disk {
        fn drop(&mut self) {
            succeeds("umount", &[self.path()]);
        }
    }

    struct Frozen<'a>(&'a Disk);

    impl Drop for Frozen<'_> {
        fn drop(&mut self) {
            succeeds("fsfreeze", &["-u", self.0.path()]);
        }
    }

    /// Creates a disk in the file `image`. Its file system can be frozen. Returns `None` if this
    /// machine cannot mount it.
    fn loop_disk(image: &Path) -> Option<Disk> {
        File::create(image).unwrap().set_len(64 << 20).unwrap();
        let image = image.to_str().unwrap();
        succeeds("mkfs.ext4", &["-q", image]).then_some(())?;
        Disk::of(&["-t", "ext4", "-o", "loop", image])
    }

    /// A run whose outputs go to files, so that a test can read them while the run hangs.
    struct Recording {
        line: String,
        process: TestProcess,
        file: PathBuf,
        reported: PathBuf,
        said: PathBuf,
    }

    impl Recording {
        /// Starts a run that writes its recording, its result and its messages to these three
        /// folders.
        fn start(line: &str, recording: &Path, reported: &Path, said: &Path) -> Recording {
            let name = line.split(' ').next().unwrap();
            let file = recording.join(format!("{name}.vmn"));
            // A file of an earlier run would look like the file of this run.
            let _ = fs::remove_file(&file);
            let reported = reported.join(format!("{name}.told"));
            let said = said.join(format!("{name}.said"));
            let mut command = Command::new(binary());
            command
                .args(line.split(' '))
                .args(["-o", file.to_str().unwrap()])
                .stdin(Stdio::null())
                .stdout(File::create(&reported).unwrap())
                .stderr(File::create(&said).unwrap());
            Recording {
                line: line.to_owned(),
                process: TestProcess::start(&mut command),
                file,
                reported,
                said,
            }
        }

        /// Starts a run that saves the trace of each gap on `disk`. All other output goes to
        /// `beside`.
        fn saving_there(disk: &Disk, line: &str, beside: &Path) -> Recording {
            let trace = disk.folder.path().join("saved.txt");
            let run = Recording::start(&saving(line, &trace), beside, beside, beside);
            wait_until("a saved trace", || {
                fs::metadata(&trace).is_ok_and(|file| file.len() > 0)
            });
            run
        }

        /// Starts a run like `saving_there`, whose stdout also goes to the disk.
        fn reporting_there(disk: &Disk, line: &str, beside: &Path) -> Recording {
            let trace = disk.folder.path().join("trace.txt");
            Recording::start(&saving(line, &trace), beside, disk.folder.path(), beside)
        }

        fn polls(&self) -> bool {
            let polls = |name: &String| name.ends_with('1') && name.starts_with("vmnoise-");
            self.threads().iter().any(polls)
        }

        fn threads(&self) -> Vec<String> {
            let threads = schedstat::threads(self.process.id()).unwrap_or_default();
            threads.into_iter().map(|(_, name)| name).collect()
        }

        /// Returns the state and the kernel stack of each thread of the run.
        fn standing(&self) -> String {
            let pid = self.process.id();
            let threads = schedstat::threads(pid).unwrap_or_default().into_iter();
            let at = threads.map(|(tid, name)| {
                let stack = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stack"));
                let state = schedstat::state(pid, tid);
                format!("{name} {state:?} {}", stack.unwrap_or_default())
            });
            at.collect::<Vec<_>>().join("; ")
        }

        fn said(&self) -> String {
            fs::read_to_string(&self.said).unwrap()
        }

        /// Waits until the run's recording has more than this number of bytes.
        fn records(&self, bytes: u64) {
            wait_until("more records", || {
                fs::metadata(&self.file).is_ok_and(|file| file.len() > bytes)
            });
        }

        /// Returns the result of the run; `None` until the result is complete.
        fn result(&self) -> Option<Value> {
            serde_json::from_str(&fs::read_to_string(&self.reported).unwrap()).ok()
        }

        /// Returns the reason for the end of the run. A result of `exits` contains no reason, and
        /// counts as `duration`.
        fn reason<'a>(&self, result: &'a Value) -> &'a str {
            match self.line.starts_with("exits") {
                true => "duration",
                false => result["finish_reason"].as_str().unwrap(),
            }
        }

        fn signal(&self, signal: Signal) {
            let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
            kill_process(pid, signal).unwrap();
        }

        fn ends(&mut self) -> ExitStatus {
            let begin = Instant::now();
            loop {
                if let Some(status) = self.process.try_wait().unwrap() {
                    return status;
                }
                assert!(
                    begin.elapsed() < LONG_ENOUGH,
                    "{} does not end: {:?} {}",
                    self.line,
                    self.threads(),
                    self.said()
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }

        /// Returns the result that `vmnoise explain` computes from the run's recording.
        fn explained(&self) -> Value {
            let file = self.file.to_str().unwrap();
            let made = run_to_end(&["explain", file, "--format", "json"]).unwrap();
            serde_json::from_slice(&made.stdout)
                .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&made.stderr)))
        }
    }

    /// Returns a command line that saves the trace of each gap, and continues after that.
    fn saving(line: &str, trace: &Path) -> String {
        let on_threshold = format!("--on-threshold trace,file={}", trace.display());
        format!("{line} -s 1us {on_threshold} --on-threshold continue")
    }

    /// Returns the command line of each recording command that can run on this machine.
    fn lines(length: &str) -> Vec<String> {
        let mut commands = vec!["osnoise -c 1", "timerlat -c 1", "exits"];
        if Path::new("/dev/kvm").exists() {
            commands.push("microvm -c 1");
        } else {
            skipped("microvm: this kernel has no /dev/kvm");
        }
        let lines = commands.into_iter();
        lines
            .map(|command| format!("{command} -d {length} --format json"))
            .collect()
    }

    #[test]
    fn a_full_disk_ends_the_recording_and_not_the_run() {
        let beside = tempfile::tempdir().unwrap();
        let runs = lines("3s").into_iter().map(|line| {
            // There is space for the header of the recording, but not for the records of one
            // second.
            let disk = Disk::of(&["-t", "tmpfs", "-o", "size=16k", "none"]).unwrap();
            let run = Recording::start(&line, disk.folder.path(), beside.path(), beside.path());
            (run, disk)
        });
        for (mut run, _disk) in runs.collect::<Vec<_>>() {
            let status = run.ends();
            assert_eq!(status.code(), Some(1), "{}: {}", run.line, run.said());
            let result = run.result().unwrap();
            assert_eq!(run.reason(&result), "duration", "{}", run.line);
            assert!(run.said().contains("the run goes on"), "{}", run.said());
            assert!(run.said().contains("No space left"), "{}", run.said());
        }
    }

    #[test]
    fn a_disk_that_hangs_holds_up_neither_the_run_nor_its_result() {
        let beside = tempfile::tempdir().unwrap();
        let Some(disk) = loop_disk(&beside.path().join("disk")) else {
            return skipped(
                "this kernel mounts no file as an ext4 disk: there is nothing to freeze",
            );
        };
        let on_the_disk = disk.folder.path();
        // The runs are longer than a busy machine needs to start all of them and to freeze the
        // disk.
        let lines = lines("12s").into_iter();
        let mut runs: Vec<Recording> = lines
            .map(|line| Recording::start(&line, on_the_disk, beside.path(), beside.path()))
            .collect();
        runs.iter().for_each(|run| run.records(1));
        let elsewhere = tempfile::tempdir().unwrap();
        let line = "osnoise -c 1 -d 12s --format json";
        runs.push(Recording::saving_there(&disk, line, elsewhere.path()));
        let frozen = disk.freeze();
        for run in &mut runs {
            wait_until("the result", || run.result().is_some());
            let result = run.result().unwrap();
            assert_eq!(run.reason(&result), "duration", "{}", run.line);
            assert!(!run.polls(), "{}: a poller is left", run.line);
            assert_eq!(run.process.try_wait().unwrap(), None, "it ended too early");
        }
        drop(frozen);
        for run in &mut runs {
            assert!(run.ends().success(), "{}: {}", run.line, run.said());
            // Nothing was lost: the records that waited for the disk are in the recording.
            assert_eq!(run.explained(), run.result().unwrap(), "{}", run.line);
        }
    }

    #[test]
    fn stdout_and_traces_on_a_disk_that_hangs_hold_up_no_drain() {
        let beside = tempfile::tempdir().unwrap();
        let Some(disk) = loop_disk(&beside.path().join("disk")) else {
            return skipped(
                "this kernel mounts no file as an ext4 disk: there is nothing to freeze",
            );
        };
        // The run is longer than a busy machine needs to start it and to freeze the disk.
        let line = "osnoise trace -c 1 -d 12s";
        let mut run = Recording::reporting_there(&disk, line, beside.path());
        run.records(1);
        wait_until("the printed result", || {
            fs::metadata(&run.reported).is_ok_and(|file| file.len() > 0)
        });
        let frozen = disk.freeze();
        // The recording is complete although the output cannot be printed.
        wait_until("the end", || run.explained()["finish_reason"] == "duration");
        assert!(!run.polls(), "a poller is left");
        assert_eq!(run.process.try_wait().unwrap(), None, "it ended too early");
        drop(frozen);
        assert!(run.ends().success(), "{}", run.said());
        // On a machine with many events, more than 4 MiB of output may wait, and then lines are
        // dropped.
        if run.said().contains("lines are missing") {
            return;
        }
        let file = run.file.to_str().unwrap();
        let replayed = run_to_end(&["explain", file, "--trace"]).unwrap();
        assert_eq!(fs::read(&run.reported).unwrap(), replayed.stdout);
    }

    #[test]
    fn ctrl_c_gives_up_what_a_disk_that_hangs_does_not_take() {
        let beside = tempfile::tempdir().unwrap();
        let Some(disk) = loop_disk(&beside.path().join("disk")) else {
            return skipped(
                "this kernel mounts no file as an ext4 disk: there is nothing to freeze",
            );
        };
        let on_the_disk = disk.folder.path();
        let line = "osnoise -c 1 -d 600s --format json";
        let mut run = Recording::start(line, on_the_disk, beside.path(), beside.path());
        let line = "osnoise trace -c 1 -d 600s";
        let elsewhere = tempfile::tempdir().unwrap();
        let mut reporting = Recording::reporting_there(&disk, line, elsewhere.path());
        let elsewhere = tempfile::tempdir().unwrap();
        let line = "osnoise -c 1 -d 600s --format json";
        let mut saving = Recording::saving_there(&disk, line, elsewhere.path());
        // Each file must contain more than its header.
        run.records(32_768);
        reporting.records(32_768);
        let frozen = disk.freeze();
        run.signal(Signal::INT);
        reporting.signal(Signal::INT);
        saving.signal(Signal::INT);
        wait_until("the message about the missing part", || {
            run.said().contains("the recording lacks its last")
        });
        assert_eq!(run.result().unwrap()["finish_reason"], "interrupt");
        wait_until("the reason", || {
            reporting
                .said()
                .contains("cannot write the result to stdout")
        });
        assert_eq!(reporting.explained()["finish_reason"], "interrupt");
        wait_until("the message about the trace", || {
            saving.said().contains("the trace is not in")
        });
        assert_eq!(saving.result().unwrap()["finish_reason"], "interrupt");
        // The kernel does not end a thread that waits for a disk. All other threads must have
        // ended.
        for run in [&run, &reporting, &saving] {
            let begin = Instant::now();
            let waits = |name: &&String| *name != "vmnoise-write" && *name != "vmnoise";
            while let Some(other) = run.threads().iter().find(waits) {
                let in_time = begin.elapsed() < LONG_ENOUGH;
                assert!(
                    in_time,
                    "{}: {other} does not end: {}",
                    run.line,
                    run.standing()
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        drop(frozen);
        assert_eq!(reporting.ends().code(), Some(1));
        assert_eq!(saving.ends().code(), Some(1));
        assert_eq!(run.ends().code(), Some(1));
        let explained = run.explained();
        assert_eq!(explained["complete"], false);
        assert!(explained["cpus"][0]["runtime_ns"].as_u64() > Some(0));
    }
}
