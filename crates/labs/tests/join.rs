//! A Linux guest and its host in one lab, recorded at the same time and joined: the
//! disturber on the host is named for the guest's gaps. With some builds the guest gets
//! interrupts that it has switched off (docs/labs.md), so no gate has these.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod join_judge;

use join_judge::{
    Joined, assert_covers, assert_explains, assert_explains_all_but_the_way, commands,
};
use vmnoise_labs::bed::{Kernel, Suite};
use vmnoise_labs::pair::Pair;

fn joined(pair: &Pair) -> Joined {
    let commands = commands();
    let recorded = pair.run(&commands.each_ref().map(String::as_str)).unwrap();
    println!("{}", recorded.kernel_version);
    Joined::of(recorded)
}

fn assert_names_the_disturber(kernel: Kernel, suite: Suite) -> Joined {
    let pair = Pair::of(kernel, suite).unwrap().virtual_time(0);
    let joined = joined(&pair.duration("500ms"));
    joined.assert_disturber_is_first();
    joined.assert_steal_is_run_delay();
    assert_covers(&joined.quiet);
    assert_covers(&joined.disturbed);
    assert_explains_all_but_the_way(&joined.quiet);
    assert_explains(&joined.disturbed);
    joined
}

mod lab_full {
    use super::*;

    mod own_suite {
        use super::*;

        #[test]
        fn a_disturber_on_the_host_is_named_for_the_guests_gaps_to_the_last_bit() {
            let [first, second] =
                [0, 1].map(|_| assert_names_the_disturber(Kernel::Cloud, Suite::Own));
            assert_eq!(first.quiet, second.quiet);
            assert_eq!(first.disturbed, second.disturbed);
            assert_eq!(first.alone, second.alone);
        }
    }

    mod trixie {
        use super::*;

        #[test]
        fn a_disturber_is_named() {
            assert_names_the_disturber(Kernel::Cloud, Suite::Trixie);
        }
    }

    mod trixie_backports {
        use super::*;

        #[test]
        fn a_disturber_is_named() {
            assert_names_the_disturber(Kernel::Cloud, Suite::TrixieBackports);
        }
    }
}

mod kvm {
    use std::process::{Command, Stdio};

    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::Value;
    use vmnoise_labs::{Disturber, binary};

    use crate::join_judge::{assert_adds_up, number};

    fn wait_for(it: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !it() {
            assert!(Instant::now() < deadline, "nothing is recorded");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// There is no lab: the host is this machine, and its guest vmnoise's own.
    #[test]
    fn a_microvm_and_its_host_are_joined_by_the_same_path() {
        let folder = tempfile::tempdir().unwrap();
        let [host, guest] = ["host.rec", "guest.rec"].map(|name| folder.path().join(name));
        let vmnoise = |words: &str| {
            let mut command = Command::new(binary());
            command.args(words.split(' ')).stdout(Stdio::null());
            command
        };
        let mut exits = vmnoise("exits -d 1m -T 1 -o").arg(&host).spawn().unwrap();
        // What is flushed first is the head; what comes then was traced.
        let len = || std::fs::metadata(&host).map_or(0, |file| file.len());
        wait_for(|| len() > 0);
        let head = len();
        wait_for(|| len() > head);
        // An idle host would have nothing to tell.
        let _busy = Disturber::busy(1).unwrap();
        let mut microvm = vmnoise("microvm -c 1 -d 3s -o")
            .arg(&guest)
            .spawn()
            .unwrap();
        let pid = microvm.id();
        assert!(microvm.wait().unwrap().success());
        let recorder = Pid::from_raw(exits.id().cast_signed()).unwrap();
        kill_process(recorder, Signal::INT).unwrap();
        assert!(exits.wait().unwrap().success());
        let mut explain = vmnoise("explain --format json");
        let explain = explain.args([&guest, &host]);
        let explain = explain.stdout(Stdio::piped()).stderr(Stdio::piped());
        let joined = explain.output().unwrap();
        let said = String::from_utf8_lossy(&joined.stderr);
        assert!(joined.status.success(), "{said}");
        let joined: Value = serde_json::from_slice(&joined.stdout).unwrap();
        assert_adds_up(&joined);
        let pair = &joined["pairs"][0];
        println!("{pair}, {}", joined["joined"]);
        assert_eq!((&pair["vmm_pid"], &pair["cpu"]), (&pid.into(), &1.into()));
        let [tested, inside] = ["exits_tested", "exits_inside"].map(|key| number(&pair[key]));
        assert!(tested > 0 && inside * 20 >= tested * 19, "{pair}");
        assert!(number(&joined["joined"]["witnessed"]) > 0, "{joined}");
    }
}
