//! Tests generated pairs of recordings, true and wrong. No wrong pair may be accepted, and no true
//! pair refused. Every true pair with enough tests must be proven.

use crate::streams::clocks::Dice;
use crate::streams::pairs::RecordedPair;
use crate::streams::worlds::{PairWorld, PeriodicWork, could_give};
use vmnoise_events::Event;
use vmnoise_explain::{Alternative, JoinError, Pairing, PairingVerdict, Pairs};

const MS: u64 = 1_000_000;

/// Returns the pairing of a pair, whether or not the pair was joined; `None` if nothing was tested.
fn pairing(outcome: &Result<Pairs, JoinError>) -> Option<&Pairing> {
    match outcome {
        Ok(pairs) => Some(pairs.pairing()),
        Err(JoinError::Unpaired(unpaired)) => Some(&unpaired.pairing),
        Err(_) => None,
    }
}

fn decades(outcome: &Result<Pairs, JoinError>) -> f64 {
    pairing(outcome).map_or(0.0, |pairing| pairing.log10_odds)
}

/// Returns whether any exit of the pair was tested.
fn is_tested(outcome: &Result<Pairs, JoinError>) -> bool {
    let candidates = pairing(outcome).map(|pairing| &pairing.candidates);
    let mut pairs = candidates.into_iter().flatten().flat_map(|vm| &vm.pairs);
    pairs.any(|pair| pair.exits_tested > 0)
}

/// Minimum odds, in decades, that could prove a pair. A proof needs 10^6 over the best of all other
/// clocks. Within a second of the recorded clock, there are 10^6 clocks that are a microsecond
/// apart.
const COULD_PROVE: f64 = 6.0 + 6.0;

/// Edges of the ranges of odds, in decades. A range begins at its first edge and ends below the
/// next. The first three ranges are refused, the last three proven.
const EDGES: [f64; 9] = [-99.0, -30.0, -10.0, -3.0, 0.0, 6.0, 10.0, 30.0, 99.1];

/// Prints a line of the table in docs/join.md.
fn print_line(what: &str, decades: &[f64]) {
    let in_range = |range: &[f64]| {
        let holds = |it: &&f64| range[0] <= **it && **it < range[1];
        decades.iter().filter(holds).count().to_string()
    };
    let counts: Vec<String> = EDGES.windows(2).map(in_range).collect();
    println!("| {what} | {} | {} |", decades.len(), counts.join(" | "));
}

#[test]
fn of_200_true_pairs_none_is_refused_and_all_are_proven_that_can_be() {
    let mut all = Vec::new();
    let (mut proven, mut wanting) = (0, Vec::new());
    for seed in 0..200 {
        let world = PairWorld::of(seed);
        let pair = world.record();
        let outcome = pair.matched();
        let could = could_give(&pair, &world);
        all.push(decades(&outcome));
        match &outcome {
            Ok(pairs) => {
                proven += 1;
                for pair in pairs.pairs() {
                    assert_eq!(Some(pair.cpu), pair.vcpu, "{seed}: {pair:?}");
                }
            }
            Err(error) => {
                let verdict = pairing(&outcome).map(|pairing| pairing.verdict);
                let reported = format!("{seed}: could give {could:.1}: {error}\n {world:?}");
                println!("{reported}");
                if could >= COULD_PROVE || verdict != Some(PairingVerdict::NotProven) {
                    wanting.push(reported);
                }
            }
        }
    }
    print_line("true pairs", &all);
    println!("proven: {proven}");
    assert!(
        wanting.is_empty(),
        "{}: {}",
        wanting.len(),
        wanting.join("\n")
    );
    assert!(proven >= 150, "{proven}");
}

/// The instants of the interrupts leave less room for the right clock, and for all other clocks.
#[test]
fn interrupts_of_the_guest_refuse_no_true_pair_and_cost_no_proof() {
    for seed in 0..40 {
        let world = PairWorld::of(seed);
        let silent = world.record();
        let reporting = silent.clone().with_interrupts(&world.plan());
        let [silent, reporting] = [silent, reporting].map(|pair| pair.matched());
        let verdicts = [&silent, &reporting].map(|it| pairing(it).map(|it| it.verdict));
        assert!(
            verdicts[1] >= verdicts[0],
            "{seed}: {verdicts:?}\n {world:?}"
        );
        let [before, after] = [silent, reporting].map(|it| decades(&it));
        assert!(
            after >= before,
            "{seed}: 10^{before:.1}, then 10^{after:.1}"
        );
    }
}

/// If everything is periodic, a clock that is off by one period nearly fits as well. A microVM
/// reports its gaps on its host's counter. Both recordings read this counter together with the same
/// clock, so no other clock is possible.
#[test]
fn no_other_clock_speaks_against_a_microvm_on_its_own_host() {
    let world = PairWorld {
        cpus: 1,
        length_ns: 1_000 * MS,
        host_tick: None,
        guest_tick: None,
        disturber: Some(PeriodicWork {
            period_ns: 8 * MS,
            phase_ns: 3 * MS,
            len_ns: 2 * MS,
            jitter_ns: 0,
        }),
        random: (0, MS),
        exits: (0, MS),
        bursts: 0,
        own: 0,
        quiet_percent: 0,
        lost_percent: 0,
        ..PairWorld::of(7)
    };
    let against = |pair: &RecordedPair| {
        let outcome = pair.matched();
        let pairing = pairing(&outcome).unwrap();
        println!(
            "10^{:.1} over {:?}",
            pairing.log10_odds, pairing.candidates[0].against
        );
        pairing.candidates[0].against.clone()
    };
    let is_clock = |it: &Alternative| matches!(it, Alternative::Clock { .. });
    assert!(is_clock(&against(&world.record())), "a guest's may be off");
    let mut microvm = world.record().of_microvm();
    assert_eq!(against(&microvm), Alternative::Chance);
    // Readings in another boot of the host belong to another clock.
    for event in &mut microvm.host {
        if let Event::Anchor(anchor) = event {
            anchor.before_tsc += MS;
            anchor.after_tsc += MS;
        }
    }
    assert!(is_clock(&against(&microvm)));
}

/// Returns the guest of one pair with the host of the other.
fn mixed(guest: &RecordedPair, host: &RecordedPair) -> RecordedPair {
    RecordedPair {
        host_facts: host.host_facts.clone(),
        host: host.host.clone(),
        ..guest.clone()
    }
}

/// Returns a host and a guest with equal ticks that are in phase.
fn in_step(seed: u64) -> PairWorld {
    let mut world = PairWorld::of(seed);
    let mut dice = Dice(seed);
    let tick = PeriodicWork {
        period_ns: [MS, 4 * MS, 10 * MS][dice.roll(0, 3) as usize],
        phase_ns: MS / 2,
        len_ns: 6_000,
        jitter_ns: 0,
    };
    world.guest_tick = Some(tick);
    world.host_tick = Some(PeriodicWork {
        len_ns: 2_500,
        phase_ns: MS / 2 + 1_000,
        ..tick
    });
    world
}

/// Returns a wrong pair of this kind; `None` if this seed has no such pair.
fn wrong(kind: u64, seed: u64) -> Option<(&'static str, Result<Pairs, JoinError>)> {
    let mut dice = Dice(seed ^ 0x77);
    let world = PairWorld::of(seed);
    let other = PairWorld {
        length_ns: world.length_ns,
        cpus: world.cpus,
        ..PairWorld::of(seed + 10_000)
    };
    Some(match kind {
        0 => (
            "another host",
            mixed(&world.record(), &other.record()).matched(),
        ),
        1 => {
            let (seed, beat_seed) = (seed + 20_000, seed + 20_000);
            let mut boot = PairWorld {
                seed,
                beat_seed,
                ..world.clone()
            };
            for work in [&mut boot.host_tick, &mut boot.disturber]
                .into_iter()
                .flatten()
            {
                work.phase_ns = dice.roll(0, work.period_ns);
            }
            (
                "another boot",
                mixed(&world.record(), &boot.record()).matched(),
            )
        }
        2 => {
            let pair = PairWorld { vms: 2, ..world }.record();
            (
                "another VM of the host",
                pair.matched_as(|matcher| matcher.only("web1")),
            )
        }
        3 => {
            let world = PairWorld { vms: 2, ..world };
            let mut pair = world.record();
            pair.host.retain(|event| match event {
                Event::Exit(reported) => reported.vcpu.0 >= world.cpus,
                _ => true,
            });
            (
                "another VM, its own not recorded",
                pair.matched_as(|matcher| matcher.only("web1")),
            )
        }
        4 => {
            let (seed, beat_seed) = (seed + 30_000, seed + 30_000);
            let again = PairWorld {
                seed,
                beat_seed,
                ..world.clone()
            };
            (
                "the same plan again",
                mixed(&world.record(), &again.record()).matched(),
            )
        }
        5 => {
            let world = PairWorld {
                cpus: world.cpus.max(2),
                ..world
            };
            let mut pair = world.record();
            let ids = &mut pair.guest_facts.host.apic_ids;
            let count = ids.len() as u32;
            for (next, (_, id)) in (1..).zip(ids.iter_mut()) {
                *id = next % count;
            }
            ("its vCPUs crossed", pair.matched())
        }
        6 => {
            let pair = world.record();
            let truth = pair.matched();
            let pairs = &pairing(&truth)?.candidates[0].pairs;
            let bound_ns = pairs.iter().map(|pair| pair.bound_ns).max()?;
            let reach = (1e9 / bound_ns as f64).ln();
            let times = (reach * dice.roll(1, 1_000) as f64 / 1_000.0).exp();
            let off_ns = (bound_ns as f64 * times.max(1.05)) as i64;
            let off_ns = if dice.percent(50) { off_ns } else { -off_ns };
            ("a clock that is off", pair.with_offset(off_ns).matched())
        }
        7 => {
            let works = [world.host_tick, world.guest_tick, world.disturber];
            let works: Vec<u64> = works.iter().flatten().map(|work| work.period_ns).collect();
            let period_ns = *works.get(dice.roll(0, works.len().max(1) as u64) as usize)?;
            let off_ns = (period_ns * dice.roll(1, 8)) as i64;
            let off_ns = if dice.percent(50) { off_ns } else { -off_ns };
            (
                "a clock that is off by periods",
                world.record().with_offset(off_ns).matched(),
            )
        }
        _ => {
            let (guest, host) = (in_step(seed), in_step(seed));
            let (seed, beat_seed) = (seed + 40_000, seed + 40_000);
            let host = PairWorld {
                seed,
                beat_seed,
                ..host
            };
            (
                "another host in step",
                mixed(&guest.record(), &host.record()).matched(),
            )
        }
    })
}

#[test]
fn of_200_wrong_pairs_none_is_accepted() {
    let mut all = Vec::new();
    let mut accepted = Vec::new();
    for kind in 0..9 {
        let (mut of_kind, mut untested) = (Vec::new(), 0);
        let mut name = "";
        let mut seeds = 1_000 * (kind + 1)..;
        while of_kind.len() < 23 {
            let seed = seeds.next().unwrap();
            let Some((what, outcome)) = wrong(kind, seed) else {
                continue;
            };
            name = what;
            if !is_tested(&outcome) {
                untested += 1;
                continue;
            }
            of_kind.push(decades(&outcome));
            if let Ok(pairs) = &outcome {
                let reported = format!(
                    "{what}, {seed}: {:?}\n {:?}",
                    pairs.pairs(),
                    PairWorld::of(seed)
                );
                println!("{reported}");
                accepted.push(reported);
            }
        }
        print_line(name, &of_kind);
        println!("and {untested} with nothing to test, which are not proven");
        all.extend(of_kind);
    }
    print_line("wrong pairs", &all);
    assert!(
        accepted.is_empty(),
        "{}: {}",
        accepted.len(),
        accepted.join("\n")
    );
}
