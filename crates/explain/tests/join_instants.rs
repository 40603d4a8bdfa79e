//! Tests the effect of instants at which a guest provably ran inside of its gaps. They limit how
//! far the clock can be off, and exclude a vCPU whose exits cover them.

use crate::streams::clocks::Dice;
use crate::streams::lives::LifeSpan;
use crate::streams::pairs::{RecordedPair, RecordingPlan};
use vmnoise_events::*;
use vmnoise_explain::{Alternative, JoinError, Pairing, PairingVerdict, Pairs, VcpuPair};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Returns the recordings of a guest that works for 10 us after each of its exits. If `reports` is
/// true, the guest reports an interrupt that begins 300 ns after the end of the exit.
fn busy_after_exits(reports: bool) -> RecordedPair {
    let mut pair = RecordingPlan::plain().record();
    let exits = &pair.lives[0].exits;
    let guest = pair.guest.into_iter().flat_map(|event| {
        let Event::Gap(mut gap) = event else {
            return vec![event];
        };
        let inside = |exit: &&LifeSpan| gap.start_tsc < exit.start_ns && exit.end_ns < gap.end_tsc;
        let last = exits.iter().rfind(inside).filter(|_| reports);
        gap.end_tsc += 10 * US;
        let interrupt = last.map(|exit| {
            Event::Activity(Activity {
                cpu: 0,
                kind: ActivityKind::Irq,
                start_mono_ns: exit.end_ns + 300,
                end_mono_ns: gap.end_tsc - 20,
                source: SourceId(0),
                steal_ns: 0,
            })
        });
        interrupt.into_iter().chain([Event::Gap(gap)]).collect()
    });
    pair.guest = guest.collect();
    pair
}

#[test]
fn an_instant_at_which_the_guest_ran_bounds_its_clock() {
    let bound_ns = |pair: &RecordedPair| {
        let pairs = pair.matched().expect("the right ones");
        pairs.bound_ns(0).expect("it is paired")
    };
    // Without interrupts, only the gaps show how soon the guest continued.
    let silent_ns = bound_ns(&busy_after_exits(false));
    assert!(silent_ns >= 10 * US, "{silent_ns}");
    // With interrupts, the time is known to a few ns of rounding.
    let reporting = busy_after_exits(true);
    let reporting_ns = bound_ns(&reporting);
    assert!((300..330).contains(&reporting_ns), "{reporting_ns}");
    // With this clock, all instants lie in exits, although the exits still lie in gaps.
    let refused = reporting.with_offset(5_000).matched();
    let Err(JoinError::Unpaired(unpaired)) = &refused else {
        panic!("{refused:?}");
    };
    let pair = &unpaired.pairing.candidates[0].pairs[0];
    assert_eq!(pair.exits_inside, pair.exits_tested);
    assert_eq!(pair.exits_contradicted, pair.exits_tested);
    let said = "of these the guest ran while its vCPU was out";
    assert!(unpaired.to_string().contains(said), "{unpaired}");
}

/// Returns the pairing, whether or not the recordings were joined.
fn pairing(outcome: Result<Pairs, JoinError>) -> Pairing {
    match outcome {
        Ok(pairs) => pairs.pairing().clone(),
        Err(JoinError::Unpaired(unpaired)) => unpaired.pairing,
        Err(error) => panic!("{error}"),
    }
}

/// Returns an interrupt of the guest at this instant that takes no time.
fn interrupt(at_ns: u64) -> Event {
    Event::Activity(Activity {
        cpu: 0,
        kind: ActivityKind::Irq,
        start_mono_ns: at_ns,
        end_mono_ns: at_ns,
        source: SourceId(0),
        steal_ns: 0,
    })
}

/// Returns the pair of a vCPU and a CPU. For `count` gaps, the guest reports that it ran in the
/// middle of their longest exit.
fn contradicted(plan: &RecordingPlan, count: usize) -> VcpuPair {
    let mut pair = plan.record();
    let life = &pair.lives[0];
    let of_gap = |gap: &LifeSpan| {
        let inside = |exit: &&LifeSpan| gap.start_ns <= exit.start_ns && exit.end_ns <= gap.end_ns;
        let inside = life.exits.iter().filter(inside);
        let longest = inside.max_by_key(|exit| exit.end_ns - exit.start_ns)?;
        let is_felt = longest.end_ns - longest.start_ns > 2 * plan.threshold_ns;
        is_felt.then(|| interrupt(longest.start_ns.midpoint(longest.end_ns)))
    };
    let reported: Vec<Event> = life.gaps.iter().filter_map(of_gap).take(count).collect();
    assert_eq!(reported.len(), count);
    pair.guest.splice(0..0, reported);
    pairing(pair.matched()).candidates[0].pairs[0].clone()
}

#[test]
fn an_exit_in_which_the_guest_ran_is_a_test_that_failed() {
    // These recordings are short enough that the odds stay within the printed range.
    let plan = RecordingPlan {
        guest: (100 * MS, 160 * MS),
        host: (50 * MS, 200 * MS),
        ..RecordingPlan::plain()
    };
    let none = contradicted(&plan, 0);
    assert_eq!(none.exits_contradicted, 0);
    assert!((6.0..90.0).contains(&none.log10_odds), "{none:?}");
    let two = contradicted(&plan, 2);
    println!("{none:?}\n{two:?}");
    assert_eq!(
        (two.exits_tested, two.exits_inside),
        (none.exits_tested, none.exits_inside)
    );
    assert_eq!(two.exits_contradicted, 2);
    // The odds of the two outcomes differ by the factor (1 - s) (1 - p) / (s p). Here p is at most
    // 1/2, and s is 1/20.
    let swing = (0.95_f64 / 0.05).log10();
    assert!(two.log10_odds <= none.log10_odds - 2.0 * swing, "{two:?}");
}

/// Returns recordings with a gap of 400 us every 4 ms. Each gap contains one exit at a random
/// place. If `reports` is true, the guest reports instants at which it ran, in the 10 us before and
/// after the exit.
fn in_step(reports: bool) -> RecordedPair {
    let mut pair = RecordingPlan::plain().record();
    let mut dice = Dice(3);
    let mut of_guest = Vec::new();
    let mut of_host = Vec::new();
    for at_ns in (104 * MS..2_000 * MS).step_by(4 * MS as usize) {
        let start_ns = at_ns + 20 * US + dice.roll(0, 260 * US);
        let end_ns = start_ns + 100 * US;
        let gap = crate::streams::gap(at_ns, at_ns + 400 * US);
        if reports {
            of_guest.extend([start_ns - 10 * US, start_ns - 100].map(interrupt));
            of_guest.extend([end_ns + 100, end_ns + 10 * US].map(interrupt));
        }
        of_guest.push(Event::Gap(Gap { cpu: 0, ..gap }));
        let exit =
            crate::streams::vcpus::ExitScene::new(crate::streams::vcpus::INTR, start_ns, end_ns)
                .exit();
        of_host.push(crate::streams::vcpus::exit_of(0, exit));
    }
    pair.guest.retain(|event| !matches!(event, Event::Gap(_)));
    pair.guest.splice(0..0, of_guest);
    pair.host.retain(|event| !matches!(event, Event::Exit(_)));
    pair.host.extend(of_host);
    pair
}

#[test]
fn a_clock_that_is_off_by_a_period_is_none_where_the_guest_ran_in_its_exits() {
    // By the gaps alone, another clock fits as well.
    let open = pairing(in_step(false).matched());
    let against = &open.candidates[0].against;
    assert!(matches!(against, Alternative::Clock { .. }), "{against:?}");
    assert_eq!(open.verdict, PairingVerdict::NotProven);
    let proven = in_step(true)
        .matched()
        .expect("no exit lies over an instant");
    assert_eq!(proven.pairs()[0].exits_contradicted, 0);
    // With a clock that is off by periods, each exit would cover the instants of another exit.
    for periods in [-3, -1, 1, 2] {
        let off = in_step(true).with_offset(periods * 4 * MS as i64);
        assert!(off.matched().is_err(), "{periods}");
    }
}
