//! Tests that each hidden fact appears only for the questions whose answers it can change.

use super::*;
use crate::fixtures::by_hand::polling_in_a_machine;
use crate::{ProbeStatus, Share};

/// Returns the coverage of a recording of CPU 1 without blind spots.
fn whole() -> Coverage {
    let mut coverage = Coverage::of(&polling_in_a_machine());
    coverage.end = RunEnd::InOrder;
    coverage.clock.bound_ns = Some(0);
    coverage.cpus = vec![CpuCoverage {
        window_mono_ns: Some((0, 1_000_000_000)),
        ..CpuCoverage::of(1)
    }];
    coverage
}

const LONGEST: Question = Question::Longest(20_000.0);
const OFTEN: Question = Question::Often(20_000.0);
const THREADS: Question = Question::TakenAs(Share::Thread);
const SUPPLY: Question = Question::TakenFrom(Policy::Fifo(10));

fn hidden(coverage: &Coverage, question: Question) -> Vec<Hidden> {
    let spots = coverage.blind_spots(question);
    spots.iter().map(|it| it.hidden().clone()).collect()
}

/// Changes a coverage without blind spots. Returns the questions that then have blind spots, each
/// with these blind spots.
fn differs(change: impl FnOnce(&mut Coverage)) -> Vec<(Question, Vec<Hidden>)> {
    let mut blind = whole();
    change(&mut blind);
    let questions = [LONGEST, OFTEN, Question::Taken, THREADS, SUPPLY];
    let told = questions.map(|question| (question, hidden(&blind, question)));
    let differ = told.into_iter().filter(|(_, hidden)| !hidden.is_empty());
    differ.collect()
}

fn questions(differs: &[(Question, Vec<Hidden>)]) -> Vec<Question> {
    differs.iter().map(|(question, _)| *question).collect()
}

const ALL: [Question; 5] = [LONGEST, OFTEN, Question::Taken, THREADS, SUPPLY];

#[test]
fn a_whole_recording_hides_nothing() {
    assert_eq!(differs(|_| {}), []);
    assert_eq!(hidden(&whole(), Question::Anything), []);
}

#[test]
fn time_that_is_in_no_gap_hides_everything() {
    type Change = fn(&mut Coverage);
    let changes: [(Change, Hidden); 7] = [
        (
            |it| it.end = RunEnd::CutOff,
            Hidden::CutOff {
                measured_ns: 1_000_000_000,
                planned_ns: Some(1_000_000_000),
            },
        ),
        (
            |it| it.end = RunEnd::Failed,
            Hidden::Failed {
                measured_ns: 1_000_000_000,
            },
        ),
        (
            |it| it.cpus.push(CpuCoverage::of(5)),
            Hidden::Silent { cpus: vec![5] },
        ),
        (
            |it| it.clock.went_back_at_ns = Some(7),
            Hidden::ClockWentBack { at_ns: 7 },
        ),
        (
            |it| (it.clock.jumps, it.clock.undated_ns) = (1, 9),
            Hidden::ClockJumped {
                jumps: 1,
                undated_ns: 9,
            },
        ),
        (|it| it.lost.gaps = 3, Hidden::Lost { count: 3 }),
        (|it| it.unstored = true, Hidden::NotStored),
    ];
    for (change, expected) in changes {
        let differs = differs(change);
        assert_eq!(questions(&differs), ALL, "{expected:?}");
        for (_, hidden) in differs {
            assert_eq!(hidden, std::slice::from_ref(&expected));
        }
    }
}

#[test]
fn a_threshold_hides_what_is_shorter() {
    let differs = differs(|it| it.threshold_ns = 2_000);
    assert_eq!(questions(&differs), [Question::Taken, THREADS, SUPPLY]);
    let mut blind = whole();
    blind.threshold_ns = 2_000;
    assert_eq!(
        hidden(&blind, Question::Longest(1_999.0)),
        [
            Hidden::Threshold {
                threshold_ns: 2_000
            },
            // 10,000 cycles at 1 GHz.
            Hidden::Writing { below_ns: 10_000 },
        ]
    );
    assert_eq!(hidden(&blind, OFTEN), []);
}

/// A gap below 10,000 cycles may be missed while another gap is recorded. Here, a cycle is one
/// nanosecond. The number of missed gaps is unknown, so the rate of such gaps is unknown, too.
#[test]
fn writing_hides_how_often_short_gaps_come() {
    let expected = [Hidden::Writing { below_ns: 10_000 }];
    assert_eq!(hidden(&whole(), Question::Often(9_999.0)), expected);
    assert_eq!(hidden(&whole(), Question::Often(10_000.0)), []);
}

#[test]
fn unplaced_time_may_have_been_taken() {
    let unplaced = differs(|it| it.cpus[0].unplaced_ns = 7);
    let expected = vec![Hidden::Unplaced { ns: 7 }];
    assert_eq!(
        unplaced,
        [(Question::Taken, expected.clone()), (SUPPLY, expected)]
    );
    let (runtime_ns, period_ns) = (1, 2);
    let mut paused = whole();
    paused.cpus[0].unplaced_ns = 7;
    paused.pause = Some(Pause {
        runtime_ns,
        period_ns,
    });
    let expected = [Hidden::Paused {
        runtime_ns,
        period_ns,
    }];
    assert_eq!(hidden(&paused, Question::Taken), expected);
}

/// The rate of gaps in the measured part of each period is the rate in the whole period. Single
/// gaps in the unmeasured part remain unknown.
#[test]
fn a_pause_hides_the_longest_and_no_rate() {
    let pause = Pause {
        runtime_ns: 1,
        period_ns: 2,
    };
    let paused = differs(|it| it.pause = Some(pause));
    let expected = [LONGEST, Question::Taken, THREADS, SUPPLY];
    assert_eq!(questions(&paused), expected);
    let stopped = differs(|it| it.cpus[0].not_measured_ns = 5);
    assert_eq!(questions(&stopped), expected);
    // The computation of a supply counts this time as taken.
    assert_eq!(stopped[3].1, [Hidden::Unplaced { ns: 5 }]);
    assert_eq!(
        stopped[0].1,
        [Hidden::NotMeasured {
            ns: 5,
            cpus: vec![1]
        }]
    );
}

#[test]
fn an_observed_thread_notices_what_its_own_kernel_takes() {
    let differs = differs(|it| it.workload = MeasuringCommand::Observed);
    let expected = [LONGEST, OFTEN, Question::Taken, SUPPLY];
    assert_eq!(questions(&differs), expected);
}

/// A polling thread notices time that is taken below its kernel. An observed thread does not.
#[test]
fn of_two_recordings_the_one_that_saw_less_counts() {
    let mut observed = whole();
    observed.workload = MeasuringCommand::Observed;
    for together in [
        whole().and(observed.clone()),
        observed.clone().and(whole()),
        observed.clone().and(observed.clone()),
    ] {
        assert_eq!(hidden(&together, Question::Taken), [Hidden::BelowObserved]);
    }
    assert_eq!(hidden(&whole().and(whole()), Question::Taken), []);
    let mut unstored = whole();
    unstored.unstored = true;
    for together in [whole().and(unstored.clone()), unstored.clone().and(whole())] {
        assert_eq!(hidden(&together, Question::Taken), [Hidden::NotStored]);
    }
}

#[test]
fn a_recorder_that_goes_first_says_nothing_of_the_task() {
    let first = differs(|it| it.policy = Some(Policy::Fifo(99)));
    assert_eq!(questions(&first), [SUPPLY]);
    let behind = differs(|it| it.policy = Some(Policy::Fifo(9)));
    assert_eq!(behind, []);
}

#[test]
fn who_took_it_matters_to_shares_alone() {
    let lost = differs(|it| it.lost.names = 4);
    assert_eq!(questions(&lost), [THREADS]);
    let unwatched = differs(|it| it.watched.known[Share::Thread] = false);
    assert_eq!(questions(&unwatched), [THREADS]);
    let bound = differs(|it| it.clock.bound_ns = None);
    assert_eq!(questions(&bound), [THREADS]);
    let host = differs(|it| {
        it.host = Some(HostRecording {
            lost_names: 1,
            uncovered_gaps: 2,
            ..HostRecording::default()
        });
    });
    assert_eq!(questions(&host), []);
    let mut blind = whole();
    blind.host = Some(HostRecording {
        uncovered_gaps: 2,
        uncovered_ns: 30,
        ..HostRecording::default()
    });
    let elsewhere = [Hidden::HostElsewhere { gaps: 2, ns: 30 }];
    let of_host = Question::TakenAs(Share::Preempted);
    assert_eq!(hidden(&blind, of_host), elsewhere);
    assert_eq!(hidden(&blind, Question::Anything), elsewhere);
}

/// A lost record that names a culprit may be the event at which a latency ends. A residual share
/// may contain the time of this culprit.
#[test]
fn a_lost_name_may_be_the_end_of_a_latency_or_part_of_a_residual() {
    let mut blind = whole();
    blind.lost.names = 4;
    for question in [
        Question::LongestProbed(20_000.0),
        Question::OftenProbed(20_000.0),
        Question::TakenAs(Share::Unexplained),
        Question::TakenAs(Share::HvOrHw),
    ] {
        assert_eq!(hidden(&whole(), question), [], "{question:?}");
        let lost = [Hidden::LostNames { count: 4 }];
        assert_eq!(hidden(&blind, question), lost, "{question:?}");
    }
    for question in [LONGEST, OFTEN] {
        assert_eq!(hidden(&blind, question), [], "{question:?}");
    }
}

/// A latency that ends at an event of a probe has the same other blind spots as any latency.
#[test]
fn a_latency_to_a_probe_is_hidden_like_any_other() {
    let hides_alike = |change: fn(&mut Coverage)| {
        let mut blind = whole();
        change(&mut blind);
        let hides = |question| hidden(&blind, question);
        assert_eq!(hides(Question::LongestProbed(20_000.0)), hides(LONGEST));
        assert_eq!(hides(Question::OftenProbed(20_000.0)), hides(OFTEN));
    };
    hides_alike(|it| it.threshold_ns = 30_000);
    hides_alike(|it| it.writing_ns = 30_000);
    hides_alike(|it| it.lost.gaps = 3);
    hides_alike(|it| it.end = RunEnd::CutOff);
    hides_alike(|it| it.cpus[0].not_measured_ns = 5);
}

/// A probe is identified by its full name, not by a word in its name.
#[test]
fn why_a_share_was_not_watched_is_what_its_own_probe_says() {
    let mut blind = whole();
    blind.watched.known[Share::Kvm] = false;
    blind.workload = MeasuringCommand::Microvm;
    let status = |probe: &str| ProbeStatus::limited(probe, "none", &format!("of {probe}"), "");
    blind.watched.probe_statuses = vec![status("exits one by one"), status("VM exits")];
    let spots = hidden(&blind, Question::TakenAs(Share::Kvm));
    let limit = "of VM exits".to_owned();
    let why = WhyUnwatched::Probe { limit };
    let share = Some(Share::Kvm);
    assert_eq!(spots[0], Hidden::Unwatched { share, why });
}

#[test]
fn bounds_can_decide_where_only_owners_are_hidden() {
    let mut blind = whole();
    blind.lost.names = 1;
    blind.lost.gaps = 1;
    blind.cpus[0].unplaced_ns = 1;
    let hides = |question| -> Vec<HiddenKind> {
        let spots = blind.blind_spots(question);
        spots.iter().map(BlindSpot::hides).collect()
    };
    assert_eq!(
        hides(THREADS),
        [HiddenKind::StatedCount, HiddenKind::Owners]
    );
    assert_eq!(
        hides(SUPPLY),
        [HiddenKind::StatedTime, HiddenKind::StatedCount]
    );
}

/// A limit that is broken although time is hidden is certainly broken.
#[test]
fn only_damaged_data_and_those_of_another_machine_are_unusable() {
    let mut blind = whole();
    blind.lost.gaps = 1;
    blind.end = RunEnd::CutOff;
    blind.others = vec!["elsewhere.vmn".into()];
    blind.more_taken_than_measured = true;
    let spots = blind.blind_spots(SUPPLY);
    assert_eq!(spots.len(), 4);
    let unusable = spots.iter().filter(|it| it.makes_data_unusable());
    let unusable: Vec<Hidden> = unusable.map(|it| it.hidden().clone()).collect();
    let files = vec!["elsewhere.vmn".into()];
    assert_eq!(unusable, [Hidden::OtherMachine { files }, Hidden::Damaged]);
}

#[test]
fn of_a_command_all_that_was_missed_is_said() {
    let mut blind = whole();
    blind.watched.known[Share::Steal] = false;
    blind.command = Some(CommandCoverage {
        threads: 1,
        missed: 5,
        unbounded: 2,
        beyond_steal: HypervisorTime::Unmeasured,
        ..CommandCoverage::default()
    });
    let share = Some(Share::Steal);
    let why = WhyUnwatched::NoStealClock;
    assert_eq!(
        hidden(&blind, Question::Taken),
        [
            Hidden::Unwatched { share, why },
            Hidden::BeyondSteal { ns: None },
            Hidden::Events { count: 2 },
            Hidden::Waits,
            Hidden::Doubt { ns: 0, events: 5 },
        ]
    );
}

/// A short preflight bounds the sum of the hypervisor's time, but not its longest piece.
#[test]
fn a_short_preflight_hides_only_the_longest_piece() {
    let mut blind = whole();
    let (polled_ns, needed_ns) = (1_000_000_000, 3_500_000_000);
    blind.command = Some(CommandCoverage {
        threads: 1,
        beyond_steal: HypervisorTime::Measured(7),
        short_preflight: Some(ShortPreflight {
            polled_ns,
            needed_ns,
        }),
        ..CommandCoverage::default()
    });
    let beyond_steal = Hidden::BeyondSteal { ns: Some(7) };
    assert_eq!(
        hidden(&blind, Question::Taken),
        std::slice::from_ref(&beyond_steal)
    );
    let both = [
        beyond_steal,
        Hidden::ShortPreflight {
            polled_ns,
            needed_ns,
        },
    ];
    assert_eq!(hidden(&blind, LONGEST), both);
    assert_eq!(hidden(&blind, Question::Anything), both);
    let spots = blind.blind_spots(LONGEST);
    let kinds: Vec<HiddenKind> = spots.iter().map(BlindSpot::hides).collect();
    assert_eq!(kinds, [HiddenKind::StatedTime, HiddenKind::Time]);
    // Three times 3.5 s are 10.5 s, rounded up to whole seconds.
    let sentence = spots[1].to_string();
    assert!(
        sentence.ends_with("use --preflight 11s, or longer"),
        "{sentence}"
    );
}

/// Neither the scheduler nor a steal clock counts the SMIs of bare metal.
#[test]
fn on_bare_metal_the_firmware_is_excluded() {
    let mut bare = whole();
    bare.command = Some(CommandCoverage {
        threads: 1,
        ..CommandCoverage::default()
    });
    assert_eq!(hidden(&bare, Question::Taken), [Hidden::Firmware]);
    let spots = bare.blind_spots(Question::Taken);
    assert_eq!(spots[0].hides(), HiddenKind::Excluded);
}

/// Programs read the keyword of a blind spot; people read the sentence with the remedy.
#[test]
fn each_blind_spot_has_a_word_and_a_sentence() {
    let mut blind = whole();
    blind.threshold_ns = 2_000_000;
    let spots = blind.blind_spots(Question::Taken);
    let json = serde_json::to_value(&spots).unwrap();
    let expected = serde_json::json!([{
        "reason": "threshold",
        "threshold_ns": 2_000_000,
        "text": "gaps below 2.000 ms were not recorded but may add up; record with a lower --threshold",
    }]);
    assert_eq!(json, expected);
}
