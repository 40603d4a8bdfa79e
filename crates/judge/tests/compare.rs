//! Comparison of two runs: an added difference is found, and chance is not taken for a difference.

use vmnoise_events::fixtures::by_hand::{anchor, finish, gap, polling_in_a_machine};
use vmnoise_events::{CpuTally, Event, Gap, Share};
use vmnoise_judge::compare::{
    ComparedFigure, ComparisonVerdict, Measuring, RunFigures, Sampler, StreamSpan, Window, compare,
};

const TICK_NS: u64 = 20_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Random numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it ^ (it >> 31)) % below
    }
}

/// Returns a run of ten seconds with one gap of 5 to 15 us in each period of 20 ms. Each gap is
/// longer by `steal_ns` of steal time.
pub fn run(seed: u64, steal_ns: u64) -> Vec<Event> {
    let mut numbers = Numbers(seed);
    let mut events = vec![anchor(0), Event::Watermark(0)];
    for tick in 1..=500 {
        let end_tsc = tick * TICK_NS - 1_000_000 - numbers.next(10_000_000);
        let dur_ns = 5_000 + numbers.next(10_000) + steal_ns;
        events.push(Event::Gap(Gap {
            steal_ns,
            ..gap(end_tsc - dur_ns, end_tsc)
        }));
        let now = tick * TICK_NS;
        events.push(anchor(now));
        events.push(Event::Tally(CpuTally {
            cpu: 1,
            last_tsc: now,
            blind_tsc: Some(0),
            ..CpuTally::default()
        }));
        events.push(Event::Watermark(now));
    }
    events.push(finish());
    events
}

fn sample(events: &[Event], threshold_ns: u64) -> RunFigures {
    let mut span = StreamSpan::default();
    events.iter().for_each(|event| span.push(event));
    assert_eq!(span.ns(), 10 * SECOND_NS);
    let mut measuring = Measuring::new(&polling_in_a_machine(), threshold_ns, SECOND_NS / 2);
    events.iter().for_each(|event| measuring.push(event));
    measuring.finish()
}

#[test]
fn a_run_beside_itself_is_no_different() {
    let run = run(1, 0);
    let rows = compare(&sample(&run, 1), &sample(&run, 1));
    for row in rows {
        assert_ne!(row.verdict, ComparisonVerdict::Different, "{row:?}");
        assert_eq!(row.first, row.second);
        assert!(row.delta.is_none_or(|delta| delta == 0.0), "{row:?}");
    }
}

#[test]
fn windows_add_up_to_their_run() {
    let mut sampler = Sampler::new(&polling_in_a_machine(), 1, SECOND_NS / 2);
    run(2, 0).iter().for_each(|event| sampler.push(event));
    let found = sampler.finish();
    assert_eq!(found.windows.len(), 20);
    let summary = &found.summary;
    assert_eq!((summary.lost_events, summary.complete), (0, true));
    let sum = |of: fn(&Window) -> u64| found.windows.iter().map(of).sum::<u64>();
    assert_eq!(sum(|window| window.runtime_ns), found.whole.runtime_ns);
    assert_eq!(sum(|window| window.noise_ns), found.whole.noise_ns);
    let longest = found.windows.iter().map(|window| window.max_gap_ns).max();
    assert_eq!(longest, Some(found.whole.max_gap_ns));
    // A window has the same known figures as the run.
    let steal = |window: &Window| window.share_ns(Share::Steal);
    assert_eq!(steal(&found.whole), Some(0));
    assert_eq!(found.whole.share_ns(Share::Hw), None);
}

#[test]
fn what_was_added_is_found_with_its_size() {
    const ADDED_NS: u64 = 20_000;
    let rows = compare(&sample(&run(3, 0), 1), &sample(&run(4, ADDED_NS), 1));
    let of = |figure| rows.iter().find(|row| row.figure == figure).unwrap();
    // Each of the 50 gaps per second is longer by `ADDED_NS`.
    let percent = 50.0 * ADDED_NS as f64 * 100.0 / SECOND_NS as f64;
    for figure in [ComparedFigure::Noise, ComparedFigure::Share(Share::Steal)] {
        let row = of(figure);
        assert_eq!(row.verdict, ComparisonVerdict::Different, "{row:?}");
        assert!(row.delta.unwrap() > 0.99, "{row:?}");
        let shift = row.shift.unwrap();
        assert!((shift - percent).abs() < percent / 5.0, "{row:?}");
    }
    // The number of gaps, and the time of each gap apart from steal time, do not change.
    for figure in [ComparedFigure::Gaps, ComparedFigure::Share(Share::HvOrHw)] {
        let row = of(figure);
        assert_eq!(row.verdict, ComparisonVerdict::NotShown, "{row:?}");
    }
    let hardware = of(ComparedFigure::Share(Share::Hw));
    assert_eq!(
        (hardware.verdict, hardware.p),
        (ComparisonVerdict::Untested, None)
    );
}

#[test]
fn gaps_below_the_threshold_are_in_no_figure() {
    let run = run(5, 0);
    let (all, some) = (sample(&run, 1), sample(&run, 10_000));
    assert!(some.figure(&ComparedFigure::Gaps) < all.figure(&ComparedFigure::Gaps));
    assert!(some.gaps_ns < all.gaps_ns);
    let longest = ComparedFigure::Percentile(10_000);
    assert_eq!(some.figure(&longest), all.figure(&longest));
}

/// The gaps of 5 to 15 us take 0.025 % to 0.075 % of the time. 0.1 % is unobserved, and may have
/// been taken, too.
#[test]
fn a_condition_on_noise_counts_unobserved_time_as_possible_noise() {
    let mut run = run(6, 0);
    for event in &mut run {
        if let Event::Tally(tally) = event {
            tally.blind_tsc = Some(tally.last_tsc / 1_000);
        }
    }
    let figures = sample(&run, 1);
    let holds = |limit: f64| {
        let is_above = |value: f64| value > limit;
        let answer = figures.answer(&ComparedFigure::Noise, limit, &is_above);
        (answer.holds, answer.blind_spots.len())
    };
    let expected = [(Some(true), 0), (None, 1), (Some(false), 0)];
    assert_eq!([0.02, 0.1, 0.2].map(holds), expected);
}

/// At most 2 % of comparisons may be wrong. This is about four times the level of significance.
#[test]
fn two_runs_of_one_kind_are_seldom_called_different() {
    let samples: Vec<RunFigures> = (100..160).map(|seed| sample(&run(seed, 0), 1)).collect();
    let mut pairs = 0;
    let mut wrong = 0;
    for (at, first) in samples.iter().enumerate() {
        for second in &samples[at + 1..] {
            let rows = compare(first, second);
            pairs += 1;
            wrong += usize::from(
                rows.iter()
                    .any(|row| row.verdict == ComparisonVerdict::Different),
            );
        }
    }
    assert!(wrong * 50 <= pairs, "{wrong} of {pairs}");
}
