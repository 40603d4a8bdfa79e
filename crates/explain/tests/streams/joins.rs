//! Helpers that join two streams.

use std::sync::OnceLock;

use vmnoise_events::{Event, RunFacts, Share};
use vmnoise_explain::{JoinError, JoinOptions, JoinTree, JoinedRun, Joiner, Matcher, Pairs};

use super::clocks::Shown;
use super::pairs::{RecordedPair, RecordingPlan};

/// Options with which a join lists every gap.
pub const ALL: JoinOptions = JoinOptions {
    above_ns: 0,
    top: usize::MAX,
};

/// Returns the pairs of a vCPU and a CPU of this guest.
pub fn pairs_of(pair: &RecordedPair) -> Result<Pairs, JoinError> {
    let mut matcher = Matcher::new(&pair.guest_facts, &pair.host_facts)?;
    pair.guest.iter().for_each(|event| matcher.guest(event));
    pair.host.iter().for_each(|event| matcher.host(event));
    matcher.finish()
}

/// Returns the facts of a guest, the facts of its host, and their pairs. CPU 0 of the guest is vCPU
/// 0 of `web0`. All clocks show ideal time. The guest recorded from 100 ms to 2.1 s, and the host
/// from 50 ms to 2.15 s.
pub fn plain() -> (RunFacts, RunFacts, Pairs) {
    static PLAIN: OnceLock<(RunFacts, RunFacts, Pairs)> = OnceLock::new();
    let plain = PLAIN.get_or_init(|| {
        let pair = RecordingPlan::plain().record();
        let pairs = pairs_of(&pair).expect("the plain pair");
        (pair.guest_facts, pair.host_facts, pairs)
    });
    plain.clone()
}

/// Number of pairs of [`plain_of_bound`]. Pairs with higher numbers have equal or larger clock
/// errors.
pub const BOUNDS: usize = 8;

/// Facts of a guest, facts of its host, their pairs, and the guest's clocks.
pub type OfBound = (RunFacts, RunFacts, Pairs, Shown);

/// Returns a pair like `plain`, but with gaps that begin earlier and end later, so that the clock
/// error is larger. Every second guest has a scaled counter with an offset, and a CLOCK_MONOTONIC
/// that is ahead of the host's.
pub fn plain_of_bound(number: usize) -> OfBound {
    const WAYS_NS: [u64; BOUNDS] = [0, 0, 0, 100, 250, 500, 1_000, 3_000];
    static PAIRS: OnceLock<[OfBound; BOUNDS]> = OnceLock::new();
    let pairs = PAIRS.get_or_init(|| {
        let mut cycles_per_ns = 0;
        WAYS_NS.map(|way_ns| {
            cycles_per_ns += 1;
            let shown = match cycles_per_ns % 2 {
                0 => Shown::PLAIN,
                _ => Shown {
                    cycles_per_ns,
                    first_tsc: 7_000_000_001,
                    first_mono_ns: 3_000_000_007,
                },
            };
            plain_but_for(way_ns, shown)
        })
    });
    pairs[number].clone()
}

fn plain_but_for(way_ns: u64, shown: Shown) -> OfBound {
    let mut pair = RecordingPlan::plain().record();
    for event in &mut pair.guest {
        if let Event::Gap(gap) = event {
            gap.start_tsc -= way_ns;
            gap.end_tsc += way_ns;
        }
    }
    pair.guest = shown.stream(pair.guest);
    pair.guest_facts.clock = shown.facts();
    for event in &mut pair.host {
        if let Event::VcpuClock(clock) = event {
            (clock.ratio, clock.ratio_frac_bits) = (shown.cycles_per_ns << 32, 32);
            clock.offset_tsc = shown.first_tsc as i64;
        }
    }
    let pairs = pairs_of(&pair).expect("the same pair");
    (pair.guest_facts, pair.host_facts, pairs, shown)
}

/// Joins both streams. Reads as much of each stream as the joiner wants.
pub fn join(
    guest: (&RunFacts, &[Event]),
    host: (&RunFacts, &[Event]),
    pairs: Pairs,
    options: JoinOptions,
) -> JoinedRun {
    let mut joiner = Joiner::new(guest.0, host.0, pairs, options);
    let mut of_host = host.1.iter();
    let mut of_guest = guest.1.iter();
    loop {
        while joiner.wants_host() {
            match of_host.next() {
                Some(event) => joiner.host(event),
                None => joiner.host_ended(),
            }
        }
        match of_guest.next() {
            Some(event) => joiner.guest(event),
            None => {
                joiner.guest_ended();
                if !joiner.wants_host() {
                    return joiner.finish();
                }
            }
        }
    }
}

/// Asserts that a join obeys the law, which holds for any streams.
pub fn obeys_the_law(run: &JoinedRun) {
    let joined = &run.joined;
    let cpus = run.summary.cpus.iter();
    let gaps: u64 = cpus.clone().map(|cpu| cpu.gaps).sum();
    assert_eq!(joined.gaps, gaps);
    assert!(joined.joined <= joined.witnessed && joined.witnessed <= joined.gaps);
    assert!(joined.joined_above <= joined.witnessed_above);
    assert!(joined.witnessed_above <= joined.witnessed);
    assert!(joined.unexplained_ns <= joined.joined_ns);
    for cpu in cpus {
        assert_eq!(cpu.shares_ns.total(), cpu.noise_ns, "{cpu:?}");
        let columns = cpu.guest_columns;
        let columns = [columns.steal_ns, columns.virt_ns, columns.hw_noise_ns];
        assert!(
            columns.iter().flatten().sum::<u64>() <= cpu.noise_ns,
            "{cpu:?}"
        );
    }
    let kvm_ns = run
        .summary
        .cpus
        .iter()
        .filter_map(|cpu| cpu.shares_ns[Share::Kvm]);
    assert!(joined.unbounded_kvm_ns <= kvm_ns.sum(), "{joined:?}");
    for (tree, gap) in run.trees.iter().zip(&run.summary.worst) {
        assert_eq!(&tree.of, gap);
        let parts: u64 = gap.parts.iter().map(|part| part.ns).sum();
        assert_eq!(parts, gap.dur_ns, "{tree:?}");
        assert!(gap.parts.iter().all(|part| part.ns > 0), "{tree:?}");
        let [whole] = &tree.stretches[..] else {
            panic!("{tree:?}")
        };
        let guest: u64 = whole.guest.iter().map(|part| part.ns).sum();
        let exits: u64 = whole.exits.iter().map(|exit| exit.dur_ns).sum();
        let all = guest + exits + whole.steal_ns + whole.residual_ns;
        assert_eq!(all, gap.dur_ns, "{tree:?}");
        for exit in &whole.exits {
            let parts: u64 = exit.parts.iter().map(|part| part.ns).sum();
            assert_eq!(parts, exit.dur_ns, "{tree:?}");
            assert!(exit.parts.iter().all(|part| part.ns > 0), "{tree:?}");
        }
    }
    assert_eq!(run.trees.len(), run.summary.worst.len());
    let is_all = run.trees.len() as u64 == gaps;
    let of_gaps = run.trees.iter().map(|tree| tree.of.dur_ns);
    let above: u64 = of_gaps.filter(|ns| *ns >= run.above_ns).sum();
    let blamed: u64 = run.culprits.iter().map(|culprit| culprit.total_ns).sum();
    assert!(!is_all || blamed == above, "{:?}", run.culprits);
    for culprit in &run.culprits {
        assert!(culprit.gaps > 0 && culprit.max_ns > 0, "{culprit:?}");
        assert!(culprit.max_ns <= culprit.total_ns, "{culprit:?}");
    }
    assert!(run.culprits.is_sorted_by(|a, b| a.total_ns >= b.total_ns));
    if let Some(sum) = run.thesis {
        assert!(sum.ours_ns <= sum.length_ns && sum.exits <= joined.exits);
    }
}

/// Returns the counter values that the workload read at the start and the end of a gap.
pub fn stamped(tree: &JoinTree) -> (u64, u64) {
    let gap = tree.of.detail.gap().expect("it is a gap");
    (gap.start_tsc, gap.end_tsc)
}
