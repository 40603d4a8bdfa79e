//! A Linux guest and its host in one lab, recorded at the same time and joined: the
//! disturber on the host is named for the guest's gaps.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod join_judge;

use join_judge::{Joined, assert_covers, commands};
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
    joined
}

mod lab {
    use super::*;

    #[test]
    fn a_disturber_on_the_host_is_named_for_the_guests_gaps_to_the_last_bit() {
        let [first, second] = [0, 1].map(|_| assert_names_the_disturber(Kernel::Cloud, Suite::Own));
        assert_eq!(first.quiet, second.quiet);
        assert_eq!(first.disturbed, second.disturbed);
        assert_eq!(first.alone, second.alone);
    }

    #[test]
    fn a_vcpu_that_moves_keeps_its_clock_and_its_culprit() {
        let pair = Pair::of(Kernel::Cloud, Suite::Own).unwrap().cpus(2);
        let moved = pair.disturb(&["hog:1", "migrate:40:20000", "pin:1"]);
        let joined = joined(&moved.duration("2s"));
        joined.assert_disturber_is_first();
        joined.assert_steal_is_run_delay();
        assert_eq!(joined.disturbed["pairs"][0]["clocks"], 1);
    }
}

mod lab_full {
    use super::*;

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
