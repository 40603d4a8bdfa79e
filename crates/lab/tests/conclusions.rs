//! Checks the conclusions of the scenarios with figures for which they hold, and with figures for
//! which they do not. These are the papers' own figures, or invented ones.

use vmnoise_lab::accel::Accel;
use vmnoise_lab::figures::RepetitionFigures;
use vmnoise_lab::library;
use vmnoise_lab::scenario::Scenario;
use vmnoise_lab::verdict::{PaperVerdict, judge};

/// Checks that every conclusion holds for the figures of `right`, and that none holds for those of
/// `wrong`.
fn told_apart(
    scenario: &str,
    right: impl Fn(&str) -> RepetitionFigures,
    wrong: impl Fn(&str) -> RepetitionFigures,
) {
    let scenario = Scenario::parse(library::text(scenario).unwrap()).unwrap();
    assert!(!scenario.conclusion.is_empty());
    for conclusion in &scenario.conclusion {
        let worlds: [&dyn Fn(&str) -> RepetitionFigures; 2] = [&right, &wrong];
        let verdicts = [PaperVerdict::Reproduced, PaperVerdict::NotReproduced];
        for (world, verdict) in worlds.into_iter().zip(verdicts) {
            let of = [world(&conclusion.of)];
            let by = conclusion.by.as_deref().map(|by| [world(by)]);
            let by = by.as_ref().map(|by| &by[..]);
            let judged = judge(conclusion, Accel::Kvm, &of, by);
            assert_eq!(judged.verdict, verdict, "{}", conclusion.text);
            let emulated = judge(conclusion, Accel::Tcg, &of, by).verdict;
            let why = conclusion.not_in_emulation.clone();
            let expected = why.map_or(verdict, PaperVerdict::CannotBeJudged);
            assert_eq!(emulated, expected, "{}", conclusion.text);
        }
    }
}

/// Returns the figures of a repetition with a single gap or wake-up.
fn worst(ns: u64) -> RepetitionFigures {
    RepetitionFigures {
        lengths: vec![(ns, 1)],
        worst_ns: ns,
        ..RepetitionFigures::default()
    }
}

/// Returns the figures of one second of polling with a single gap. Interrupts took `taken_ns` in
/// all.
fn noise(worst_ns: u64, taken_ns: u64) -> RepetitionFigures {
    RepetitionFigures {
        shares_ns: [("irq".to_owned(), taken_ns)].into(),
        runtime_ns: 1_000_000_000,
        ..worst(worst_ns)
    }
}

#[test]
fn a_tuned_host_takes_less() {
    let as_is = |_: &str| noise(13_045_000, 5_484_000);
    let papers = |cell: &str| match cell {
        "as-is-other" => noise(13_045_000, 5_484_000),
        "as-is-fifo1" => noise(50_946, 5_484_000),
        _ => noise(4_900, 100),
    };
    told_apart("osnoise-tuned", papers, as_is);
}

#[test]
fn a_tuned_host_that_takes_nothing_has_no_gap_that_is_too_long() {
    let nothing = |cell: &str| match cell {
        "as-is-other" => noise(13_045_000, 5_484_000),
        "as-is-fifo1" => noise(50_946, 5_484_000),
        _ => RepetitionFigures {
            runtime_ns: 1_000_000_000,
            ..RepetitionFigures::default()
        },
    };
    told_apart("osnoise-tuned", nothing, |_| noise(50_946, 5_484_000));
}

#[test]
fn a_task_at_fifo_1_is_not_kept_waiting_by_ordinary_ones() {
    let papers = |cell: &str| match cell {
        "other" => RepetitionFigures {
            load_ns: 13_000_000,
            unexplained_ns: 10_000,
            ..worst(13_045_000)
        },
        _ => worst(50_946),
    };
    let the_other_way_round = |cell: &str| match cell {
        "other" => RepetitionFigures {
            unexplained_ns: 40_000,
            ..worst(50_946)
        },
        _ => RepetitionFigures {
            load_ns: 13_000_000,
            ..worst(13_045_000)
        },
    };
    told_apart("osnoise-at-fifo1", papers, the_other_way_round);
}

#[test]
fn a_tail_is_that_of_packets_where_they_are_received() {
    let received = || RepetitionFigures {
        net_rx_ns: 45_816,
        ..worst(50_946)
    };
    let papers = move |cell: &str| match cell {
        "ordinary-network" | "rt-network" => received(),
        _ => worst(29_000),
    };
    let elsewhere = move |cell: &str| match cell {
        "ordinary-network" | "rt-network" => worst(50_946),
        _ => received(),
    };
    told_apart("net-rx-tail", papers, elsewhere);
}

#[test]
fn cyclictest_and_timerlat_say_the_same() {
    let latencies = |median_ns, worst_ns| RepetitionFigures {
        lengths: vec![(median_ns, 99), (worst_ns, 1)],
        worst_ns,
        ..RepetitionFigures::default()
    };
    let alike = move |cell: &str| match cell {
        "rt-cyclictest" => latencies(3_656, 20_000),
        "rt-timerlat" => latencies(5_250, 22_000),
        "ordinary-cyclictest" => latencies(3_656, 60_000),
        _ => latencies(5_250, 62_000),
    };
    let apart = move |cell: &str| match cell {
        "rt-timerlat" => latencies(8_000, 62_000),
        _ => latencies(3_656, 20_000),
    };
    told_apart("cyclictest", alike, apart);
}
