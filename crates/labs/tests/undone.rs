//! Nothing stays behind, however a run ends: neither in the kernel, nor in its settings,
//! nor with those who started it.

mod root {
    use std::path::Path;
    use std::process::Command;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;
    use rustix::thread::sched_getaffinity;
    use vmnoise_labs::footprint::{Held, settings};
    use vmnoise_labs::{Group, Run, binary, hold_first_thread, schedstat, skipped};

    /// Whoever has not ended by then never will.
    const LONG_ENOUGH: Duration = Duration::from_secs(20);
    /// Between two looks at what a run holds.
    const LOOK: Duration = Duration::from_millis(100);
    /// A run that has no other end. Longer than anything here takes.
    const FOR_GOOD: &str = "600s";
    /// What idle CPUs are held to, as long as they are, is read from this file.
    const LATENCY: &str = "/dev/cpu_dma_latency";
    const LATENCY_OPTION: &str = "--dma-latency 0";

    /// Every command that measures, with the options that change something.
    const COMMANDS: [&str; 4] = [
        "osnoise -c 1 -P f:1",
        "timerlat -c 1 -P f:1 --dma-latency 0",
        "microvm -c 1 -P f:1",
        "exits",
    ];

    /// How a run ends.
    #[derive(Debug, Clone, Copy)]
    enum End {
        /// Its time is over.
        Duration,
        /// It is asked for its result.
        Asked(Signal),
        /// It is asked three times, and ends by the third as if nobody caught the signal.
        InAHurry,
        /// No line of the program runs any more.
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

    /// Starts it; it is at work when this returns, with what it holds in the kernel.
    fn start(line: &str, end: End) -> (Run, Held) {
        let duration = match end {
            End::Duration => "2s",
            _ => FOR_GOOD,
        };
        let words: Vec<&str> = line.split(' ').chain(["-d", duration]).collect();
        // Where these tests run under nohup(1), SIGHUP would end nothing.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(binary());
        let run = Run::of(command.args(&words)).unwrap();
        let begin = Instant::now();
        let mut before = Held::default();
        loop {
            let held = Held::by(run.pid()).unwrap();
            // It attaches one program after the other.
            if !held.links.is_empty() && held == before {
                return (run, held);
            }
            assert!(begin.elapsed() < LONG_ENOUGH, "{line}: no probe");
            before = held;
            sleep(LOOK);
        }
    }

    fn comes_to(run: Run, end: End) {
        let pid = run.pid();
        match end {
            End::Duration => {}
            End::Asked(signal) => run.signal(signal).unwrap(),
            End::Killed => run.signal(Signal::KILL).unwrap(),
            // Its first thread is held, so that it cannot come to an end that one signal asks for.
            // Whoever is gone cannot be let go.
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

    /// Runs it, ends it, and compares the machine before, meanwhile and after.
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

    /// Where a group takes single threads, only they are in it, and where it takes none,
    /// the whole process: either way nobody is left there, and nobody else has moved.
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

    /// The one setting that is written: another process writes it back, after the run.
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
