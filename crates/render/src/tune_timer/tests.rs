//! Tests of results with invented turns.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{MeasuringCommand, fixtures};
use vmnoise_workload::microvm::exercise::Spread;
use vmnoise_workload::microvm::lapic_timer::{Halts, Times};

use super::*;
use crate::caveats;

const MS: u64 = 1_000_000;
/// Length of a turn. Each setting has ten turns, which are 600 cells of 100 ms. If one cell in 100
/// has a late timer, 600 cells without one have a probability of 0.99^600 = 0.24 %. The risk of 1
/// %, divided among three settings, is 0.33 %.
const TURN_NS: u64 = 6_000 * MS;
/// At this frequency, one cycle lasts one nanosecond.
const TSC_HZ: u64 = 1_000_000_000;
const SETTINGS: [Option<u32>; 3] = [None, Some(0), Some(50_000)];

/// Values that each turn of a setting has.
#[derive(Clone, Copy)]
struct Made {
    late_ns: u64,
    timers: u64,
    busy_percent: u64,
    polled_percent: u64,
}

const NOW: Made = Made {
    late_ns: 15_000,
    timers: 1_000,
    busy_percent: 60,
    polled_percent: 40,
};
const NONE: Made = Made {
    late_ns: 30_000,
    timers: 1_000,
    busy_percent: 20,
    polled_percent: 0,
};
const SHORT: Made = Made {
    late_ns: 18_000,
    timers: 1_000,
    busy_percent: 40,
    polled_percent: 20,
};

impl Made {
    fn turn(self, setting: usize, round: u64) -> TimerTurn {
        let wall_ns = TURN_NS;
        let ran_ns = wall_ns / 100 * (self.busy_percent + round % 2);
        let polled_ns = wall_ns / 100 * self.polled_percent;
        TimerTurn {
            setting,
            late_tsc: vec![(self.late_ns, self.timers)],
            spread_tsc: Spread {
                min: self.late_ns,
                mean: self.late_ns,
                p50: self.late_ns,
                p99: self.late_ns,
                max: self.late_ns,
                total: self.late_ns * self.timers,
            },
            early: 0,
            earliest_tsc: 0,
            times: Times {
                wall_ns,
                ran_ns,
                delayed_ns: Some(0),
                stolen_ns: Some(0),
            },
            halts: Halts {
                halts: Some(self.timers),
                polls: Some(if polled_ns > 0 { self.timers } else { 0 }),
                polls_in_time: Some(if polled_ns > 0 { self.timers / 2 } else { 0 }),
                polled_ns: Some(polled_ns),
                slept_ns: Some(wall_ns - ran_ns),
            },
        }
    }
}

const ASKED: TuningRequest = TuningRequest {
    cpu: 1,
    duration_ns: 30 * TURN_NS,
    interval_ns: MS,
    goal_ns: Some(20_000),
    percentile: 99.0,
    priority: None,
};
const PRESENT: Present = Present {
    halt_poll_ns: Some(200_000),
    halt_poll_ns_grow_start: Some(10_000),
    lapic_timer_advance: Some(LapicTimerAdvance::Adaptive),
    vcpu_advance_ns: Some(1_520),
    can_limit_halt_poll: true,
};

fn turns(made: [Made; 3]) -> Vec<TimerTurn> {
    let rounds = (0..10).flat_map(|round| {
        let turn = move |(setting, made): (usize, Made)| made.turn(setting, round);
        made.into_iter().enumerate().map(turn)
    });
    rounds.collect()
}

/// Returns the text, the choice in the JSON, and whether a setting keeps the goal.
fn reported(
    asked: TuningRequest,
    present: Present,
    turns: &[TimerTurn],
) -> (String, Option<u64>, Option<Keeps>) {
    let facts = fixtures::polling_facts();
    let started_at = "2026-11-26T00:00:00Z".to_owned();
    let document = TuneTimerDocument::new(
        &facts.host,
        started_at,
        asked,
        present,
        TSC_HZ,
        &SETTINGS,
        turns,
    );
    let json = serde_json::to_value(&document).unwrap();
    let chosen = json["setting"].as_u64().map(|place| {
        let step = &json["steps"][usize::try_from(place).unwrap()];
        step["halt_poll_ns"].as_u64().unwrap()
    });
    (text::render(&document), chosen, document.keeps_goal())
}

#[test]
fn the_cheapest_that_keeps_the_goal_is_named_with_its_way_back() {
    let (text, chosen, keeps) = reported(ASKED, PRESENT, &turns([NOW, NONE, SHORT]));
    assert_eq!((chosen, keeps), (Some(50_000), Some(Keeps::Yes)));
    insta::assert_snapshot!(text);
}

/// An equal cost, or a cost that is lower by chance, is no reason for a change.
#[test]
fn the_present_setting_stays_where_no_other_is_surely_cheaper() {
    let as_dear = Made {
        busy_percent: NOW.busy_percent,
        ..SHORT
    };
    let (text, chosen, keeps) = reported(ASKED, PRESENT, &turns([NOW, NONE, as_dear]));
    assert_eq!((chosen, keeps), (Some(200_000), Some(Keeps::Yes)));
    assert!(text.contains("it is the present setting"), "{text}");
}

#[test]
fn a_goal_that_none_keeps_is_no_setting() {
    let asked = TuningRequest {
        goal_ns: Some(10_000),
        ..ASKED
    };
    let (text, chosen, keeps) = reported(asked, PRESENT, &turns([NOW, NONE, SHORT]));
    assert_eq!((chosen, keeps), (None, Some(Keeps::No)));
    insta::assert_snapshot!(text);
}

#[test]
fn too_few_timers_are_no_answer_but_how_long_it_takes() {
    let few = |made: Made| Made { timers: 10, ..made };
    let turns = turns([few(NOW), NONE, few(SHORT)]);
    let (text, chosen, keeps) = reported(ASKED, PRESENT, &turns);
    assert_eq!((chosen, keeps), (None, Some(Keeps::Open { needed: None })));
    assert!(text.contains("2 of 3 may; measure for about"), "{text}");
}

#[test]
fn without_a_goal_nothing_is_chosen_and_nothing_is_open() {
    let asked = TuningRequest {
        goal_ns: None,
        ..ASKED
    };
    let present = Present {
        lapic_timer_advance: Some(LapicTimerAdvance::Off),
        ..PRESENT
    };
    let (text, chosen, keeps) = reported(asked, present, &turns([NOW, NONE, SHORT]));
    assert_eq!((chosen, keeps), (None, None));
    insta::assert_snapshot!(text);
}

#[test]
fn what_cannot_be_true_and_what_came_early_is_told() {
    let mut turns = turns([NOW, NONE, SHORT]);
    for turn in &mut turns {
        if turn.setting == 1 {
            turn.halts.slept_ns = Some(0);
        }
        (turn.early, turn.earliest_tsc) = (2, 700);
    }
    let (text, ..) = reported(ASKED, PRESENT, &turns);
    let contradicts = "with halt_poll_ns 0 the costs of halts";
    assert!(text.contains(contradicts), "{text}");
    assert!(
        text.contains("60 timers came early, by up to 700 ns"),
        "{text}"
    );
}

/// All commands print blind spots in the same words. Two settings with the same blind spot are one
/// line.
#[test]
fn what_could_not_be_seen_is_the_last_line() {
    let mut turns = turns([NOW, NONE, SHORT]);
    let (whole, ..) = reported(ASKED, PRESENT, &turns);
    assert!(!whole.contains("not seen"), "{whole}");
    for turn in turns.iter_mut().filter(|it| it.setting > 0) {
        turn.halts.slept_ns = Some(0);
    }
    let (text, ..) = reported(ASKED, PRESENT, &turns);
    let blind = Coverage {
        more_taken_than_measured: true,
        ..Coverage::of_workload(MeasuringCommand::Timerlat)
    };
    let line = caveats::not_seen(&blind);
    assert!(line.starts_with(" not seen: "), "{line}");
    assert!(text.ends_with(&line), "{text}");
    assert_eq!(text.matches("not seen").count(), 1, "{text}");
}

/// The same timers in turns of 100 ms may have missed every burst of late timers.
#[test]
fn a_short_run_may_have_missed_bursts() {
    let mut turns = turns([NOW, NONE, SHORT]);
    for turn in &mut turns {
        turn.times.wall_ns = 100 * MS;
    }
    let (text, chosen, keeps) = reported(ASKED, PRESENT, &turns);
    assert_eq!((chosen, keeps), (None, Some(Keeps::Open { needed: None })));
    assert!(text.contains("2 of 3 may; measure for about"), "{text}");
}

/// Tests the line about polls that KVM gave up. Such polls are shorter than
/// `halt_poll_ns_grow_start`. Longer polls that end no halt do not produce this line.
#[test]
fn polling_that_is_given_up_is_told_and_no_other() {
    let mut turns = turns([NOW, NONE, SHORT]);
    for turn in &mut turns {
        turn.halts.polls_in_time = Some(0);
    }
    let (in_vain, ..) = reported(ASKED, PRESENT, &turns);
    assert!(!in_vain.contains("gave up"), "{in_vain}");
    for turn in &mut turns {
        turn.halts.polled_ns = Some(turn.halts.polls.unwrap() * 300);
    }
    let (given_up, ..) = reported(ASKED, PRESENT, &turns);
    assert!(
        given_up.contains("KVM gave up after 300 ns on average"),
        "{given_up}"
    );
}

/// A value that this kernel does not report is null in JSON, and a dash in text.
#[test]
fn what_is_unknown_is_null() {
    let mut turns = turns([NOW, NONE, SHORT]);
    for turn in &mut turns {
        turn.halts = Halts::default();
    }
    let facts = fixtures::polling_facts();
    let present = Present {
        halt_poll_ns: None,
        lapic_timer_advance: None,
        vcpu_advance_ns: None,
        ..PRESENT
    };
    let document = TuneTimerDocument::new(
        &facts.host,
        String::new(),
        ASKED,
        present,
        TSC_HZ,
        &SETTINGS,
        &turns,
    );
    let json = serde_json::to_value(&document).unwrap();
    let step = &json["steps"][0];
    assert_eq!(step["present"], true);
    for key in [
        "halt_poll_ns",
        "polled_percent",
        "witnesses_agree",
        "earliest_ns",
    ] {
        assert!(step[key].is_null(), "{key}: {step}");
    }
    assert!(step["kvm"]["halts"].is_null(), "{step}");
    let text = text::render(&document);
    assert!(text.contains("now -"), "{text}");
}
