//! Tests runs in which the counter sometimes jumps forward or back. Each explained gap must have
//! its true date, and the summary must report the gaps without a date.

use crate::streams::clocks::clock_facts;
use crate::streams::{activity, explain, facts, finish, gap, gap_of, parts, source};
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::{
    ActivityKind, Anchor, CpuTally, Event, Gap, MeasuringCommand, RunFacts, Share,
};
use vmnoise_explain::{Interval, Summary};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Time between two readings of the recorder's clocks. The first reading is at 0.
const DRAIN_NS: u64 = 20 * MS;
const DRAINS: u64 = 12;
/// CLOCK_MONOTONIC and the counter at the first reading of the clocks, both in nanoseconds.
const FIRST_MONO_NS: u64 = 5 * S;
const FIRST_TSC_NS: u64 = 77 * S;
/// Number of names of interrupts.
const NAMES: u64 = 7;

/// A jump of the counter by `by_ns` at the time `at_ns` of the run.
#[derive(Debug, Clone, Copy)]
struct Jump {
    at_ns: u64,
    by_ns: i64,
}

/// A hole in the workload's time. An interrupt of the workload's kernel takes `irq_ns` of the hole.
/// If this is 0, no kernel can see the cause.
#[derive(Debug, Clone, Copy)]
struct Hole {
    at_ns: u64,
    len_ns: u64,
    irq_ns: u64,
    number: u64,
}

impl Hole {
    fn end_ns(&self) -> u64 {
        self.at_ns + self.len_ns
    }

    fn is_cut_by(&self, jump: &Jump) -> bool {
        self.at_ns < jump.at_ns && jump.at_ns <= self.end_ns()
    }

    fn irq(&self) -> Option<Event> {
        let from_ns = FIRST_MONO_NS + self.at_ns + 50;
        let irq = |ns| {
            let source = (self.number % NAMES) as u32;
            activity(ActivityKind::Irq, from_ns, from_ns + ns, source)
        };
        (self.irq_ns > 0).then(|| irq(self.irq_ns))
    }

    /// Returns the true parts of the hole, the largest first.
    fn truth(&self, workload: MeasuringCommand) -> Vec<(Share, Option<u32>, u64)> {
        let irq = match workload {
            MeasuringCommand::Microvm => Share::HostIrq,
            _ => Share::Irq,
        };
        let source = Some((self.number % NAMES) as u32);
        let mut parts = match self.irq_ns {
            0 => vec![(Share::Hw, None, self.len_ns)],
            ns => vec![
                (irq, source, ns),
                (Share::Unexplained, None, self.len_ns - ns),
            ],
        };
        parts.sort_by_key(|(.., ns)| std::cmp::Reverse(*ns));
        parts
    }
}

/// A run, with the truth about it.
#[derive(Debug, Clone)]
struct Run {
    workload: MeasuringCommand,
    cycles_per_ns: u64,
    jumps: Vec<Jump>,
    holes: Vec<Hole>,
}

impl Run {
    fn tsc(&self, at_ns: u64) -> u64 {
        let before = self.jumps.iter().filter(|jump| jump.at_ns <= at_ns);
        let by_ns: i64 = before.map(|jump| jump.by_ns).sum();
        let shown_ns = (FIRST_TSC_NS + at_ns).checked_add_signed(by_ns);
        self.cycles_per_ns * shown_ns.expect("no jump reaches before the start of the counter")
    }

    fn anchor(&self, at_ns: u64) -> Event {
        Event::Anchor(Anchor {
            before_tsc: self.tsc(at_ns),
            mono_ns: FIRST_MONO_NS + at_ns,
            after_tsc: self.tsc(at_ns),
        })
    }

    fn gap(&self, hole: &Hole) -> Gap {
        gap(self.tsc(hole.at_ns), self.tsc(hole.end_ns()))
    }

    /// Returns the holes that the workload reports. The workload reports no gap if the counter does
    /// not go forward in it.
    fn reported(&self) -> impl Iterator<Item = (&Hole, Gap)> {
        let gaps = self.holes.iter().map(|hole| (hole, self.gap(hole)));
        gaps.filter(|(_, gap)| gap.start_tsc < gap.end_tsc)
    }

    fn facts(&self) -> RunFacts {
        RunFacts {
            workload: self.workload,
            clock: clock_facts(self.cycles_per_ns * S),
            ..facts()
        }
    }

    /// Returns the events of the recorder. Each drain begins with a reading of the clocks, and then
    /// reports everything that has ended since the last drain.
    fn events(&self) -> Vec<Event> {
        let names = (0..NAMES).map(|id| source(id as u32, "some"));
        let mut events: Vec<Event> = names.chain([self.anchor(0)]).collect();
        for drain in 0..DRAINS {
            let (from_ns, to_ns) = (drain * DRAIN_NS, (drain + 1) * DRAIN_NS);
            events.push(self.anchor(to_ns));
            events.push(Event::Tally(CpuTally {
                cpu: 1,
                first_tsc: self.tsc(0),
                last_tsc: self.tsc(to_ns),
                ..CpuTally::default()
            }));
            let is_over = |hole: &Hole| from_ns < hole.end_ns() && hole.end_ns() <= to_ns;
            let over = self.holes.iter().filter(|hole| is_over(hole));
            events.extend(over.filter_map(Hole::irq));
            let gaps = self.reported().filter(|(hole, _)| is_over(hole));
            events.extend(gaps.map(|(_, gap)| Event::Gap(gap)));
            events.push(Event::Watermark(FIRST_MONO_NS + to_ns - MS));
        }
        events.push(finish());
        events
    }

    /// Returns the time of the last reading of the clocks before a reading with a smaller counter;
    /// `u64::MAX` if there is none.
    fn trusted_to_ns(&self) -> u64 {
        let readings = (0..=DRAINS).map(|drain| drain * DRAIN_NS);
        let mut steps = readings.clone().zip(readings.skip(1));
        let back = steps.find(|(from_ns, to_ns)| self.tsc(*to_ns) < self.tsc(*from_ns));
        back.map_or(u64::MAX, |(from_ns, _)| from_ns)
    }

    /// Returns whether the date of this hole is certain: no jump lies between the same two readings
    /// of the clocks, and no jump back can have shown the hole's counter readings twice.
    fn is_dated(&self, hole: &Hole) -> bool {
        let (first, last) = (hole.at_ns / DRAIN_NS, hole.end_ns() / DRAIN_NS);
        let is_far = |jump: &Jump| {
            let jumped_in = jump.at_ns / DRAIN_NS;
            let (before, after) = if jump.by_ns < 0 { (1, 2) } else { (0, 0) };
            last + before < jumped_in || first > jumped_in + after
        };
        self.jumps.iter().all(is_far)
    }
}

/// Returns whether two jumps look like a clock that is slewed: they are short, about equally long,
/// and lie in consecutive drains. The readings of the clocks do not show the difference, so the law
/// does not cover such jumps.
fn looks_slewed(last: &Jump, next: &Jump) -> bool {
    let is_short = |jump: &Jump| jump.by_ns.unsigned_abs() <= DRAIN_NS / 6;
    last.at_ns / DRAIN_NS + 1 == next.at_ns / DRAIN_NS
        && is_short(last)
        && is_short(next)
        && last.by_ns.abs_diff(next.by_ns) <= 2 * (DRAIN_NS / 200 + 10 * US)
}

fn any_run() -> impl Strategy<Value = Run> {
    // The recorder detects no jump shorter than 10 us plus the 200th part of a drain: 110 us. Some
    // runs repeat the same jump. Some jumps back are shorter than a drain: at the next drain, the
    // counter still exceeds its last reading.
    let by_ns = prop_oneof![
        Just(S as i64),
        (150 * US..30 * S).prop_map(|ns| ns as i64),
        (150 * US..25 * MS).prop_map(|ns| -(ns as i64)),
    ];
    let jumps = vec((0..DRAINS, US..DRAIN_NS - US, by_ns), 0..5);
    let hole = (0..1_500 * US, 5 * US..9 * US, 0..2_800_u64);
    let holes = vec(hole, 40..150);
    let workload = prop_oneof![
        Just(MeasuringCommand::Microvm),
        Just(MeasuringCommand::Osnoise)
    ];
    (workload, 1_u64..5, jumps, holes).prop_map(|(workload, cycles_per_ns, jumps, holes)| {
        let mut jumps: Vec<Jump> = jumps
            .into_iter()
            .map(|(drain, after_ns, by_ns)| Jump {
                at_ns: drain * DRAIN_NS + after_ns,
                by_ns,
            })
            .collect();
        jumps.sort_by_key(|jump| jump.at_ns);
        jumps.dedup_by_key(|jump| jump.at_ns / DRAIN_NS);
        jumps.dedup_by(|next, last| looks_slewed(last, next));
        let mut at_ns = 0;
        let mut laid = Vec::new();
        for (number, (after_ns, len_ns, irq_ns)) in (0..).zip(holes) {
            at_ns += after_ns + 10 * US;
            laid.push(Hole {
                at_ns,
                len_ns,
                irq_ns: irq_ns.saturating_sub(700),
                number,
            });
            at_ns += len_ns;
        }
        laid.retain(|hole| hole.end_ns() < DRAINS * DRAIN_NS);
        Run {
            workload,
            cycles_per_ns,
            jumps,
            holes: laid,
        }
    })
}

/// Asserts that an explained gap is a reported hole, with its true date and parts and without a
/// jump in it.
fn is_true(run: &Run, budget: &Interval) -> Result<(), TestCaseError> {
    let stamps = (gap_of(budget).start_tsc, gap_of(budget).end_tsc);
    let mut same = run
        .reported()
        .filter(|(_, gap)| (gap.start_tsc, gap.end_tsc) == stamps);
    let is_this = |hole: &Hole| {
        let when = (FIRST_MONO_NS + hole.at_ns, hole.len_ns);
        when == (budget.start_mono_ns, budget.dur_ns)
            && parts(budget) == hole.truth(run.workload)
            && !run.jumps.iter().any(|jump| hole.is_cut_by(jump))
    };
    prop_assert!(same.any(|(hole, _)| is_this(hole)), "{budget:?}");
    Ok(())
}

/// Asserts that all gaps with a certain date are explained, and that the summary reports the rest.
fn misses_no_more_than_it_has_to(run: &Run, budgets: &[Interval], summary: &Summary) {
    let to_ns = run.trusted_to_ns();
    let certain = run
        .reported()
        .filter(|(hole, _)| hole.end_ns() < to_ns && run.is_dated(hole));
    let found = budgets.len() as u64;
    assert!(found >= certain.count() as u64, "{found}: {summary:?}");
    let clock = &summary.coverage.clock;
    if to_ns < u64::MAX {
        assert!(clock.went_back_at_ns.is_some(), "{clock:?}");
    } else {
        let reported = run.reported().count() as u64;
        assert_eq!(found + summary.clock_jumps.undated_gaps, reported);
        assert_eq!(clock.jumps, run.jumps.len() as u64);
    }
}

laws! {
    one_in(2);

    #[test]
    fn no_gap_around_a_jump_is_explained_wrong(run in any_run()) {
        let (budgets, summary) = explain(&run.facts(), &run.events());
        for budget in &budgets {
            is_true(&run, budget)?;
        }
        misses_no_more_than_it_has_to(&run, &budgets, &summary);
    }
}
