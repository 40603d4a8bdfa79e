//! Nothing stays behind, however a run ends: neither in the kernel, nor in its settings,
//! nor with those who started it.

mod root {
    use std::time::{Duration, Instant};

    use rustix::process::Signal;
    use rustix::thread::sched_getaffinity;
    use vmnoise_labs::footprint::{Held, settings};
    use vmnoise_labs::{Group, Run, schedstat, skipped};

    const CPU: u32 = 1;
    /// Whoever has not ended by then never will.
    const LONG_ENOUGH: Duration = Duration::from_secs(20);

    /// Runs, ends it as `end` says, and compares the machine before and after.
    fn leaves_nothing(duration: &str, end: impl FnOnce(Run)) {
        leaves_nothing_with(&[], duration, end);
    }

    fn leaves_nothing_with(options: &[&str], duration: &str, end: impl FnOnce(Run)) {
        let before = settings();
        let mine_before = sched_getaffinity(None).unwrap();
        let all = [&["-c", "1", "-P", "f:1", "-d", duration], options].concat();
        let run = Run::osnoise(CPU, &all).unwrap();
        let pid = run.pid();
        let held = Held::by(pid).unwrap();
        assert!(!held.accounting && !held.links.is_empty(), "{held:?}");
        let all = held.programs.len() + held.maps.len() + held.links.len();
        assert_eq!(held.left().unwrap().len(), all, "{held:?}");
        assert_eq!(settings(), before, "a run changes settings of the machine");

        end(run);
        assert!(schedstat::threads(pid).is_err(), "a thread is left");
        assert_eq!(held.left_for_good().unwrap(), Vec::<String>::new());
        assert_eq!(settings(), before);
        assert_eq!(sched_getaffinity(None).unwrap(), mine_before);
    }

    fn ends_well(run: Run) {
        let (status, _, stderr) = run.output().unwrap();
        assert_eq!(status, Some(0), "{stderr}");
    }

    #[test]
    fn at_the_end_of_its_duration() {
        leaves_nothing("5s", ends_well);
    }

    /// Every other command that measures, with the options that change something.
    #[test]
    fn by_any_command() {
        let before = settings();
        for arguments in [
            "timerlat -c 1 -P f:1 --dma-latency 0 -d 60s",
            "microvm -c 1 -d 60s",
            "exits -d 60s",
        ] {
            for signal in [Signal::HUP, Signal::TERM, Signal::KILL] {
                let words: Vec<&str> = arguments.split(' ').collect();
                let run = Run::start(&words).unwrap();
                let begin = Instant::now();
                let held = loop {
                    let held = Held::by(run.pid()).unwrap();
                    if !held.links.is_empty() {
                        break held;
                    }
                    assert!(begin.elapsed() < LONG_ENOUGH, "{arguments}: no probe");
                };
                let pid = run.pid();
                run.signal(signal).unwrap();
                let (status, _, stderr) = run.output().unwrap();
                let well = (signal != Signal::KILL).then_some(0);
                assert_eq!(status, well, "{arguments}, {signal:?}: {stderr}");
                assert!(schedstat::threads(pid).is_err(), "a thread is left");
                assert_eq!(held.left_for_good().unwrap(), Vec::<String>::new());
                assert_eq!(settings(), before, "{arguments}, {signal:?}");
            }
        }
    }

    #[test]
    fn by_signals_that_ask_for_the_result() {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            leaves_nothing("60s", |run| {
                run.signal(signal).unwrap();
                ends_well(run);
            });
        }
    }

    /// No line of the program runs any more: what holds here holds for a panic too.
    #[test]
    fn by_sigkill() {
        leaves_nothing("60s", drop);
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
            leaves_nothing_with(&["-C=lab-undone"], "60s", |run| {
                assert_ne!(group.members().unwrap(), "");
                run.signal(Signal::INT).unwrap();
                ends_well(run);
            });
            assert_eq!(group.members().unwrap(), "");
            leaves_nothing_with(&["-C=lab-undone"], "60s", drop);
            assert_eq!(group.members().unwrap(), "");
            assert_eq!(mine(), mine_before);
        }
    }

    /// Asked three times, it ends as if nobody caught the signal.
    #[test]
    fn by_a_user_in_a_hurry() {
        leaves_nothing("60s", |run| {
            let begin = Instant::now();
            while run.signal(Signal::INT).is_ok() && begin.elapsed() < LONG_ENOUGH {
                std::thread::sleep(Duration::from_millis(1));
                if schedstat::state(run.pid(), run.pid()) == Some('Z') {
                    break;
                }
            }
            let (status, ..) = run.output().unwrap();
            assert!(matches!(status, None | Some(0)), "{status:?}");
        });
    }
}
