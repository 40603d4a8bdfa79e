//! Nothing stays behind, however a run ends: not in the kernel, not in its settings, and not in the
//! processes that started it.

mod root {
    use std::path::Path;
    use std::process::Command;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;
    use rustix::thread::sched_getaffinity;
    use vmnoise_labs::footprint::{OpenDescriptors, settings};
    use vmnoise_labs::{Group, VmnoiseRun, binary, hold_first_thread, schedstat, skipped};

    /// Limit of every wait.
    const LONG_ENOUGH: Duration = Duration::from_secs(20);
    /// Time between two reads of the objects that a run holds.
    const LOOK: Duration = Duration::from_millis(100);
    /// Duration of a run that ends in another way; longer than anything here takes.
    const FOR_GOOD: &str = "600s";
    /// File with the wake-up latency that idle CPUs must keep while processes hold it open.
    const LATENCY: &str = "/dev/cpu_dma_latency";
    const LATENCY_OPTION: &str = "--dma-latency 0";

    /// Every command that measures, with the options that change something.
    const COMMANDS: [&str; 4] = [
        "osnoise -c 1 -P f:1",
        "timerlat -c 1 -P f:1 --dma-latency 0",
        "microvm -c 1 -P f:1",
        "exits",
    ];

    /// Way in which a run ends.
    #[derive(Debug, Clone, Copy)]
    enum End {
        /// Its duration is over.
        Duration,
        /// One signal asks for its result.
        Asked(Signal),
        /// Three signals; the third ends it as if it caught none.
        InAHurry,
        /// SIGKILL: no line of the program runs any more.
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

    /// Starts a run, and returns when it works, with the objects that it holds in the kernel.
    fn start(line: &str, end: End) -> (VmnoiseRun, OpenDescriptors) {
        let duration = match end {
            End::Duration => "2s",
            _ => FOR_GOOD,
        };
        let words: Vec<&str> = line.split(' ').chain(["-d", duration]).collect();
        // Under nohup(1), SIGHUP would not end the run.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(binary());
        let run = VmnoiseRun::of(command.args(&words)).unwrap();
        let begin = Instant::now();
        let mut before = OpenDescriptors::default();
        loop {
            let held = OpenDescriptors::by(run.pid()).unwrap();
            // It attaches one program after the other.
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
            // Its first thread is held, so that one signal cannot end it. The release fails once it
            // has ended.
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

    /// Runs a command, ends it, and compares the machine before, during and after.
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

    /// A threaded group has only the polling threads, another group the whole process. In both
    /// cases no thread is left in it, and no other process has moved.
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

    /// The one setting that is written: another process restores it after the run.
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
            let begin = Instant::now();
            while settings() != before {
                assert!(begin.elapsed() < LONG_ENOUGH, "{end:?}: a state is off");
                sleep(LOOK);
            }
        }
    }
}
