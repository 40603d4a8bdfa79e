//! Causes faults in the set-up of a lab. `vmnoise audit` must name each fault and the time that it
//! took. The audit's script must give back the time that the audit promised.

use vmnoise_testbed::faults::{FaultVerdict, Proof, prove};

/// Allowed difference in percent, from the time according to the kernel's own events, and from the
/// promised time.
const PERCENT: u64 = 10;

fn assert_proved(found: &Proof) {
    println!("{found:#?}");
    for (kernel, rules) in &found.clean {
        assert!(
            rules.is_empty(),
            "{rules:?} of {kernel}, a machine with no fault"
        );
    }
    for set in &found.judged {
        for it in set {
            // The faults of a set have the first ranks.
            assert!(it.place.is_some_and(|place| place <= set.len()), "{it:?}");
            assert!(it.injected_ns > 0, "the fault took no time: {it:?}");
            assert!(is_within(it.explained_ns, it.injected_ns), "{it:?}");
        }
        let [explained_ns, promised_ns]: [u64; 2] = [
            |it: &FaultVerdict| it.explained_ns,
            |it: &FaultVerdict| it.promised_ns,
        ]
        .map(|of| set.iter().map(of).sum());
        let gained_ns = set.first().map_or(0, FaultVerdict::gained_ns);
        assert!(gained_ns * 100 >= promised_ns * (100 - PERCENT), "{set:?}");
        // The change may also remove other noise that the fault caused under other names.
        let before_ns = set.first().map_or(0, |it| it.before_ns);
        let along_ns = before_ns.saturating_sub(explained_ns);
        let most_ns = promised_ns + along_ns;
        assert!(gained_ns * 100 <= most_ns * (100 + PERCENT), "{set:?}");
    }
}

fn is_within(ns: u64, of_ns: u64) -> bool {
    ns.abs_diff(of_ns) * 100 <= of_ns * PERCENT
}

mod virtual_time {
    use super::*;

    #[test]
    fn faults_are_named_first_with_their_time_and_the_script_takes_them_away() {
        assert_proved(&prove(&[&["serial", "workqueue"]]).unwrap());
    }
}

mod lab_full {
    mod own_suite {
        use super::super::*;
        use vmnoise_testbed::faults::SETS;

        #[test]
        fn so_is_each_of_all_faults_and_three_at_once() {
            assert_proved(&prove(&SETS).unwrap());
        }
    }
}
