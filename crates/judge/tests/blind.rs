//! No run of a command is fit if a blind spot of the recording can change the verdict.

use vmnoise_events::coverage::Question;
use vmnoise_events::{FamilyBooks, FamilyLook};
use vmnoise_judge::fitness::{
    Fitness, FitnessEvidence, FitnessLimit, FitnessVerdict, HypervisorRate, LimitedFigure,
};

const WALL_NS: u64 = 1_000_000_000;
const LIMIT_PPM: u64 = 10_000;

/// Returns the counts of one thread that ran all the time except for `taken_ns`.
fn look(taken_ns: u64) -> FamilyLook {
    FamilyLook {
        ended: FamilyBooks {
            wall_ns: WALL_NS,
            ran_ns: WALL_NS - taken_ns,
            waited_ns: taken_ns,
            threads: 1,
            ..FamilyBooks::default()
        },
        ..FamilyLook::default()
    }
}

fn judge(look: &FamilyLook, sees_steal: bool, sees_nmi: bool) -> (Fitness, Vec<String>) {
    let rate = HypervisorRate::Nothing;
    judged(&FitnessEvidence::traced(
        look, WALL_NS, sees_steal, sees_nmi, rate,
    ))
}

fn judged(evidence: &FitnessEvidence) -> (Fitness, Vec<String>) {
    let limit = FitnessLimit {
        figure: LimitedFigure::Noise,
        below: LIMIT_PPM,
    };
    let spots = evidence.coverage.blind_spots(Question::Taken);
    let words = serde_json::to_value(spots).unwrap();
    let words = words.as_array().unwrap().iter();
    let words = words.map(|it| it["reason"].as_str().unwrap().to_owned());
    let words = words.collect();
    (FitnessVerdict::new(&[limit], evidence).verdict, words)
}

/// Judges a run in a guest whose hypervisor was not measured.
fn in_guest(look: &FamilyLook) -> (Fitness, Vec<String>) {
    judged(&FitnessEvidence::traced(
        look,
        WALL_NS,
        true,
        true,
        HypervisorRate::Unmeasured,
    ))
}

#[test]
fn no_run_is_fit_that_hides_what_was_taken() {
    // The command lost 2 % of its time, twice the limit.
    assert_eq!(judge(&look(WALL_NS / 50), true, true).0, Fitness::Unfit);
    let quiet = look(0);
    // On bare metal the verdict excludes the time of the firmware, and says so.
    assert_eq!(
        judge(&quiet, true, true),
        (Fitness::Fit, vec!["firmware".into()])
    );
    let lost = |change: fn(&mut FamilyLook)| {
        let mut look = look(0);
        change(&mut look);
        look
    };
    let untold = lost(|it| (it.unpaired, it.unbounded) = (1, 1));
    let unfollowed = lost(|it| it.unfollowed = 1);
    let uncounted = lost(|it| it.missed = 1);
    let doubtful = lost(|it| {
        it.missed = 1;
        it.ended.kernel_waited_ns = 1;
        it.ended.unseen_ns = WALL_NS / 50;
    });
    let nobody = FamilyLook::default();
    assert_eq!(
        in_guest(&quiet),
        (Fitness::CannotTell, vec!["beyond_steal".into()])
    );
    for (what, look, sees_steal, sees_nmi, reason) in [
        ("no steal clock", &quiet, false, true, "not_witnessed"),
        ("no NMIs", &quiet, true, false, "not_witnessed"),
        ("lost interrupts", &untold, true, true, "events"),
        ("a lost thread", &unfollowed, true, true, "unfollowed"),
        ("lost waits", &uncounted, true, true, "waits"),
        ("time in doubt", &doubtful, true, true, "doubt"),
        ("no thread", &nobody, true, true, "unfollowed"),
    ] {
        let (verdict, reasons) = judge(look, sees_steal, sees_nmi);
        assert_eq!(verdict, Fitness::CannotTell, "{what}");
        assert!(reasons.iter().any(|it| it == reason), "{what}: {reasons:?}");
    }
}
