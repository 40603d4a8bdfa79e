//! Tests that a run leaves nothing behind, however it ends: not in the kernel, not in the kernel's
//! settings, and not in the process that started it.

mod root {
    use std::path::Path;
    use std::process::Command;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;
    use rustix::thread::sched_getaffinity;
    use vmnoise_testbed::footprint::{OpenDescriptors, settings};
    use vmnoise_testbed::{Group, VmnoiseRun, binary, hold_first_thread, schedstat, skipped};
    use vmnoise_testkit::wait_until;

    /// Maximum time of every wait.
    const LONG_ENOUGH: Duration = Duration::from_secs(20);
    /// Time between two reads of the objects that a run holds.
    const LOOK: Duration = Duration::from_millis(100);
    /// Duration of a run that a signal ends. It is longer than any test.
    const FOR_GOOD: &str = "600s";
    /// File of the longest wake-up latency that idle CPUs may have. A process limits the latency
    /// while it holds this file open.
    const LATENCY: &str = "/dev/cpu_dma_latency";
    const LATENCY_OPTION: &str = "--dma-latency 0";

    /// Every command that measures, with options that change something on the machine.
    const COMMANDS: [&str; 4] = [
        "osnoise -c 1 -P f:1",
        "timerlat -c 1 -P f:1 --dma-latency 0",
        "microvm -c 1 -P f:1",
        "exits",
    ];

    /// Ways in which a run can end.
    #[derive(Debug, Clone, Copy)]
    enum End {
        /// The duration of the run is over.
        Duration,
        /// One signal asks the run for its result.
        Asked(Signal),
        /// Three signals. The third ends the run as if the run did not catch signals.
        InAHurry,
        /// SIGKILL. No code of the program runs afterwards.
        Killed,
    }

    const ENDS: [End; 6] = [
        End::Duration,
        End::Asked(Signal::INT),
        End::Asked(Signal::TERM),
        End::Asked(Signal::HUP),
        End::InAHurry,
        End::Killed,
    ];

    /// Starts a run, and waits until it works. Returns the run, and the objects that the run holds
    /// in the kernel.
    fn start(line: &str, end: End) -> (VmnoiseRun, OpenDescriptors) {
        let duration = match end {
            End::Duration => "2s",
            _ => FOR_GOOD,
        };
        let words: Vec<&str> = line.split(' ').chain(["-d", duration]).collect();
        // If the test ran under nohup(1), SIGHUP would not end the run.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(binary());
        let run = VmnoiseRun::of(command.args(&words)).unwrap();
        let begin = Instant::now();
        let mut before = OpenDescriptors::default();
        loop {
            let held = OpenDescriptors::by(run.pid()).unwrap();
            // The run attaches its BPF programs one after the other, so two equal reads show that
            // all are attached.
            if !held.links.is_empty() && held == before {
                return (run, held);
            }
            assert!(begin.elapsed() < LONG_ENOUGH, "{line}: no probe");
            before = held;
            sleep(LOOK);
        }
    }

    fn comes_to(run: VmnoiseRun, end: End) {
        let pid = run.pid();
        match end {
            End::Duration => {}
            End::Asked(signal) => run.signal(signal).unwrap(),
            End::Killed => run.signal(Signal::KILL).unwrap(),
            // The first thread is held, so that one signal cannot end the run. The release of the
            // thread fails if the run has ended.
            End::InAHurry => {
                let let_go = hold_first_thread(pid, LONG_ENOUGH, || {
                    let is_there = run.signal(Signal::INT).is_ok();
                    !is_there || schedstat::state(pid, pid) == Some('Z')
                });
                assert!(let_go.is_err(), "three signals do not end it");
            }
        }
        let (status, reported, stderr) = run.output().unwrap();
        let is_asked = matches!(end, End::Duration | End::Asked(_));
        assert_eq!(status, is_asked.then_some(0), "{stderr}");
        assert_eq!(!reported.is_empty(), is_asked, "{reported}");
    }

    /// Runs a command, ends it as `end` says, and compares the machine's state before, during and
    /// after the run.
    fn leaves_nothing(line: &str, end: End, meanwhile: impl FnOnce()) {
        let before = settings();
        let mine_before = sched_getaffinity(None).unwrap();
        let (run, held) = start(line, end);
        let pid = run.pid();
        assert!(!held.accounting, "{line}: {held:?}");
        let all = held.programs.len() + held.maps.len() + held.links.len();
        assert_eq!(held.left().unwrap().len(), all, "{line}: {held:?}");
        let mut during = settings();
        if line.contains(LATENCY_OPTION) {
            assert_eq!(during.get(LATENCY), Some(&vec![0; 4]), "{line}");
            during.insert(LATENCY.to_owned(), before[LATENCY].clone());
        }
        assert_eq!(during, before, "{line} changes settings of the machine");
        meanwhile();

        comes_to(run, end);
        assert!(schedstat::threads(pid).is_err(), "a thread is left");
        assert_eq!(held.left_for_good().unwrap(), Vec::<String>::new());
        assert_eq!(settings(), before, "{line}, {end:?}");
        assert_eq!(sched_getaffinity(None).unwrap(), mine_before);
    }

    #[test]
    fn by_any_command() {
        for line in COMMANDS {
            for end in ENDS {
                leaves_nothing(line, end, || {});
            }
        }
    }

    /// A threaded group contains only the polling threads, and any other group contains the whole
    /// process. In both cases, no thread may remain in the group, and no other process may have
    /// moved.
    #[test]
    fn from_a_control_group() {
        let mine = || std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let mine_before = mine();
        for threaded in [true, false] {
            let Some(group) = Group::new("lab-undone").unwrap() else {
                return skipped("cgroup2 is not mounted: there is no group to leave");
            };
            if threaded {
                group.thread().unwrap();
            }
            for command in [
                "osnoise -c 1 -P f:1",
                "timerlat -c 1 -P f:1 --dma-latency off",
            ] {
                for end in [End::Asked(Signal::INT), End::Killed] {
                    leaves_nothing(&format!("{command} -C=lab-undone"), end, || {
                        assert_ne!(group.members().unwrap(), "");
                    });
                    assert_eq!(group.members().unwrap(), "");
                    assert_eq!(mine(), mine_before);
                }
            }
        }
    }

    /// Only this setting is written to files. Another process restores it after the run.
    #[test]
    fn with_idle_states_that_were_switched_off() {
        if !Path::new("/sys/devices/system/cpu/cpu1/cpuidle/state0").exists() {
            return skipped("CPU 1 has no idle states in /sys (in a guest the host has them)");
        }
        for end in ENDS {
            let before = settings();
            let (run, _) = start(
                "timerlat -c 1 --dma-latency off --deepest-idle-state -1",
                end,
            );
            assert_ne!(settings(), before, "no state is off");
            comes_to(run, end);
            let what = format!("the idle states after {end:?}");
            wait_until(&what, || settings() == before);
        }
    }
}
