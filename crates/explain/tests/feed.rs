//! Tests the reports of a host while its guest measures: the CPU that they concern, the difference
//! of two frames, impossible frames, and the time that remains for the hardware.

use crate::streams::{activity, anchor, explain, finish, gap, polling_in_a_machine, source};
use vmnoise_events::ActivityKind::Irq;
use vmnoise_events::{
    CpuTally, Event, FeedDetail, FeedTotals, Gap, HostCulprit, HostFrame, HostReason,
    MeasuringCommand, RunFacts, Share, ShareMap,
};
use vmnoise_explain::{CpuSummary, Explainer, GuestColumns, PeriodLine, Summary};

/// Returns the facts of a guest whose CPU 1 is vCPU 5. Times are nanoseconds on every clock.
fn guest() -> RunFacts {
    let mut facts = polling_in_a_machine();
    facts.host.apic_ids = vec![(0, 3), (1, 5)];
    facts
}

/// Returns a frame with `exits` exits. Each exit takes 10 ns in KVM, and every fourth exit another
/// 5 ns in the VMM.
fn frame(from_tsc: u64, until_tsc: u64, exits: u64) -> HostFrame {
    HostFrame {
        vcpu: 5,
        from_tsc,
        until_tsc,
        detail: FeedDetail::Counts,
        sees_kvm: true,
        is_last: true,
        exits,
        heavy: exits / 4,
        split: ShareMap::from([
            (Share::Kvm, 10 * exits),
            (Share::Vmm, 5 * (exits / 4)),
            (Share::Preempted, exits),
        ]),
        lost: 0,
        reasons: Vec::new(),
        culprits: Vec::new(),
    }
}

fn tally(last_tsc: u64) -> Event {
    Event::Tally(CpuTally {
        cpu: 1,
        first_tsc: 1_000,
        last_tsc,
        reloads: Some(77),
        ..CpuTally::default()
    })
}

/// Returns the events up to this time, except for frames.
fn tick(at: u64) -> [Event; 3] {
    [anchor(at), tally(at), Event::Watermark(at)]
}

fn gap_at(start_tsc: u64, dur_ns: u64) -> Event {
    Event::Gap(Gap {
        interference: Some(0),
        ..gap(start_tsc, start_tsc + dur_ns)
    })
}

/// Explains these frames, each at its end. The time from one frame to the next is a period. Returns
/// the lines of the periods, and the summary.
fn periods(facts: &RunFacts, frames: &[HostFrame]) -> (Vec<PeriodLine>, Summary) {
    let mut explainer = Explainer::new(facts);
    let mut take = |event: &Event| explainer.push(event, &mut |_| {});
    tick(1_000).iter().for_each(&mut take);
    let mut lines = Vec::new();
    for frame in frames {
        let mut take = |event: &Event| explainer.push(event, &mut |_| {});
        tick(frame.until_tsc).iter().for_each(&mut take);
        take(&Event::HostFrame(frame.clone()));
        lines.extend(explainer.take_period());
    }
    explainer.push(&finish(), &mut |_| {});
    (lines, explainer.finish())
}

fn exits(lines: &[PeriodLine]) -> Vec<Option<u64>> {
    let exits = lines
        .iter()
        .map(|line| line.host.map(|reported| reported.exits));
    exits.collect()
}

fn cpu_of(summary: &Summary) -> &CpuSummary {
    assert_eq!(summary.cpus.len(), 1);
    &summary.cpus[0]
}

#[test]
fn a_period_has_what_its_frames_count_beyond_those_before() {
    let frames = [
        frame(200, 2_000, 40),
        frame(200, 3_000, 44),
        frame(200, 4_000, 60),
    ];
    let (lines, summary) = periods(&guest(), &frames);
    // The first frame counts from a time before the run, so only the later frames give differences.
    assert_eq!(exits(&lines), [None, Some(4), Some(16)]);
    let columns = GuestColumns {
        steal_ns: Some(0),
        virt_ns: Some(16 * 10 + 4 * 5),
        // There is no gap without an interrupt, so the hardware took no time.
        hw_noise_ns: Some(0),
        light_exits: Some(12),
        heavy_exits: Some(4),
    };
    assert_eq!(lines[2].guest_columns, columns);
    let reported = cpu_of(&summary).host.as_ref().unwrap().reported;
    assert_eq!(
        (reported.exits, reported.light, reported.heavy),
        (20, Some(15), 5)
    );
    assert_eq!(
        (reported.covered_ns, reported.virt_ns),
        (2_000, 200 + 5 * 5)
    );
    assert_eq!(reported.shares_ns[Share::Preempted], Some(20));
    // VIRT does not contain the time in which other tasks of the host ran. The heavy exits are
    // those of the host, not the reloads of the guest.
    assert_eq!(cpu_of(&summary).guest_columns.heavy_exits, Some(5));
    assert_eq!(cpu_of(&summary).guest_columns.virt_ns, Some(225));
}

#[test]
fn a_host_that_begins_within_the_run_counts_from_its_begin() {
    let frames = [frame(1_500, 2_000, 40), frame(1_500, 3_000, 44)];
    let (lines, summary) = periods(&guest(), &frames);
    assert_eq!(exits(&lines), [Some(40), Some(4)]);
    assert_eq!(
        cpu_of(&summary).host.as_ref().unwrap().reported.covered_ns,
        1_500
    );
    assert_eq!(cpu_of(&summary).guest_columns.light_exits, Some(44 - 11));
}

#[test]
fn a_host_that_begins_anew_is_added_to_what_it_said_before() {
    let frames = [
        frame(1_500, 2_000, 40),
        frame(2_100, 2_500, 6),
        frame(2_100, 3_000, 8),
    ];
    let (lines, summary) = periods(&guest(), &frames);
    assert_eq!(exits(&lines), [Some(40), Some(6), Some(2)]);
    let reported = cpu_of(&summary).host.as_ref().unwrap().reported;
    assert_eq!((reported.exits, reported.covered_ns), (48, 500 + 900));
}

#[test]
fn when_the_host_falls_silent_the_columns_are_unknown_and_the_rest_goes_on() {
    let mut explainer = Explainer::new(&guest());
    let mut feed = |events: &[Event]| -> PeriodLine {
        for event in events {
            explainer.push(event, &mut |_| {});
        }
        explainer.take_period().remove(0)
    };
    let silent = feed(&tick(1_000));
    assert_eq!(
        silent.guest_columns.heavy_exits,
        Some(77),
        "no host, no feed"
    );
    let heard = feed(&[anchor(2_000), Event::HostFrame(frame(1_500, 2_000, 40))]);
    assert_eq!(heard.guest_columns.heavy_exits, Some(10));
    assert_eq!(heard.columns_so_far.heavy_exits, Some(10));
    let silent = feed(&[
        anchor(2_500),
        tally(2_500),
        gap_at(2_100, 50),
        Event::Watermark(2_400),
    ]);
    let unknown = GuestColumns {
        steal_ns: Some(0),
        ..GuestColumns::default()
    };
    assert_eq!(
        (silent.gaps, silent.guest_columns, silent.host),
        (1, unknown, None)
    );
    assert_eq!(silent.columns_so_far.heavy_exits, Some(10));
}

#[test]
fn what_cannot_be_true_is_refused_and_counted() {
    let good = frame(1_500, 2_000, 40);
    let refused = |wrong: HostFrame| {
        let (lines, summary) = periods(&guest(), &[good.clone(), frame(1_500, 3_000, 44)]);
        assert_eq!(exits(&lines), [Some(40), Some(4)]);
        assert_eq!(summary.feed, None, "nobody read any bytes");
        let events = [
            &tick(3_000)[..],
            &[
                Event::FeedTotals(FeedTotals::default()),
                Event::HostFrame(good.clone()),
                Event::HostFrame(wrong),
                Event::HostFrame(frame(1_500, 3_000, 44)),
                finish(),
            ],
        ];
        let (_, summary) = explain(&guest(), &events.concat());
        let reported = cpu_of(&summary).host.as_ref().unwrap().reported;
        assert_eq!(reported.exits, 44);
        summary.feed.unwrap().refused
    };
    let later = || frame(1_500, 2_500, 42);
    let part = |share, ns| {
        let mut split = later().split;
        split[share] = ns;
        split
    };
    assert_eq!(refused(later()), 0);
    let another_cpu = HostFrame { vcpu: 3, ..later() };
    assert_eq!(refused(another_cpu), 0, "one that nobody measures");
    for (what, wrong) in [
        ("no such vCPU", HostFrame { vcpu: 9, ..later() }),
        ("goes back", frame(1_500, 2_500, 39)),
        ("comes again from before", frame(1_500, 1_900, 42)),
        ("begins anew before its end", frame(1_900, 1_950, 1)),
        ("tomorrow", frame(1_500, 2_000_000_000, 42)),
        ("inside out", frame(2_500, 2_400, 0)),
        ("more exits than cycles", frame(1_500, 2_500, 1_001)),
        (
            "more heavy exits than exits",
            HostFrame {
                heavy: 43,
                ..later()
            },
        ),
        (
            "light exits go back",
            HostFrame {
                heavy: 41,
                ..later()
            },
        ),
        (
            "more time than there was",
            HostFrame {
                split: part(Share::Blocked, 2_000_000_000),
                ..later()
            },
        ),
        (
            "a part goes back",
            HostFrame {
                split: part(Share::Preempted, 39),
                ..later()
            },
        ),
        (
            "no time of a host",
            HostFrame {
                culprits: vec![HostCulprit {
                    share: Share::Irq,
                    name: "eth0:1".into(),
                    dur_ns: 1,
                }],
                ..later()
            },
        ),
    ] {
        assert_eq!(refused(wrong), 1, "{what}");
    }
}

#[test]
fn names_are_those_of_the_run_and_lists_that_were_cut_claim_no_more_than_is_certain() {
    let reason = |name: &str, exits, dur_ns| HostReason {
        name: name.into(),
        exits,
        dur_ns,
    };
    let culprit = |name: &str, dur_ns| HostCulprit {
        share: Share::Preempted,
        name: name.into(),
        dur_ns,
    };
    let frames = [
        HostFrame {
            detail: FeedDetail::Full,
            reasons: vec![reason("io", 10, 100), reason("hlt", 9, 0)],
            culprits: vec![culprit("a", 90), culprit("b", 30)],
            ..frame(200, 2_000, 40)
        },
        HostFrame {
            detail: FeedDetail::Full,
            reasons: vec![
                reason("io", 14, 160),
                reason("hlt", 9, 0),
                reason("cpuid", 3, 20),
            ],
            // The list holds two names. `b` is no longer listed, and `c` may have had up to 30 ns
            // before.
            culprits: vec![culprit("c", 95), culprit("a", 91)],
            ..frame(200, 3_000, 44)
        },
    ];
    let (_, summary) = periods(&guest(), &frames);
    let host = cpu_of(&summary).host.clone().unwrap();
    let reasons = host.reasons.unwrap();
    let reasons: Vec<_> = reasons
        .iter()
        .map(|it| (&*it.name, it.exits, it.total_ns))
        .collect();
    assert_eq!(reasons, [("io", 4, 60), ("cpuid", 3, 20)]);
    let culprits = host.culprits.unwrap();
    let culprits: Vec<_> = culprits.iter().map(|it| (&*it.name, it.total_ns)).collect();
    assert_eq!(culprits, [("c", 65), ("a", 1)]);

    let counts = frames.map(|frame| HostFrame {
        detail: FeedDetail::Counts,
        ..frame
    });
    let (_, summary) = periods(&guest(), &counts);
    let host = cpu_of(&summary).host.clone().unwrap();
    assert_eq!((host.reasons, host.culprits), (None, None));
}

/// Returns the least and the most time of the hardware, and the guest's column, for one frame with
/// this many exits. The frame covers bare gaps of 100, 50 and 30 ns, and one gap with an interrupt.
fn hardware(exits: u64, change: impl Fn(&mut HostFrame)) -> (u64, Option<u64>, Option<u64>) {
    let mut frame = frame(1_500, 3_000, exits);
    change(&mut frame);
    let events = [
        source(0, "tick"),
        anchor(1_000),
        tally(1_000),
        activity(Irq, 2_500, 2_540, 0),
        gap_at(1_600, 100),
        gap_at(1_800, 50),
        gap_at(2_000, 30),
        gap_at(2_500, 60),
        // One gap lies outside of the span, and one partly. They may hold an exit that this span
        // does not count.
        gap_at(1_450, 10),
        gap_at(1_490, 20),
        anchor(2_900),
        tally(2_900),
        Event::Watermark(2_900),
        // When the frame reports this time, most of these gaps are already explained.
        gap_at(2_990, 20),
        anchor(3_100),
        tally(3_100),
        Event::HostFrame(frame),
        Event::Watermark(3_100),
        finish(),
    ];
    let (_, summary) = explain(&guest(), &events);
    let reported = cpu_of(&summary)
        .host
        .as_ref()
        .expect("it was told")
        .reported;
    (
        reported.hw_at_least_ns,
        reported.hw_at_most_ns,
        cpu_of(&summary).guest_columns.hw_noise_ns,
    )
}

#[test]
fn each_exit_excuses_one_gap_and_what_no_exit_can_excuse_is_the_hardwares() {
    assert_eq!(hardware(0, |_| {}), (180, Some(220), Some(180)));
    assert_eq!(hardware(1, |_| {}), (80, Some(220), Some(80)));
    assert_eq!(hardware(2, |_| {}), (30, Some(220), Some(30)));
    assert_eq!(hardware(3, |_| {}), (0, Some(220), None));
    assert_eq!(hardware(900, |_| {}), (0, Some(220), None));
}

#[test]
fn hardware_is_not_named_while_somebody_else_may_have_been_there() {
    for change in [
        (|frame| frame.sees_kvm = false) as fn(&mut HostFrame),
        |frame| frame.is_last = false,
    ] {
        assert_eq!(hardware(0, change), (0, Some(220), None));
    }
}

#[test]
fn under_an_observed_thread_nothing_is_known_of_the_hardware() {
    let mut facts = guest();
    facts.workload = MeasuringCommand::Observed;
    let (_, summary) = periods(&facts, &[frame(1_500, 2_000, 4)]);
    let cpu = cpu_of(&summary);
    assert_eq!(cpu.host.as_ref().unwrap().reported.hw_at_most_ns, None);
    assert_eq!(cpu.guest_columns.hw_noise_ns, None);
    assert_eq!(cpu.guest_columns.heavy_exits, Some(1));
}

#[test]
fn a_microvm_has_no_feed() {
    let mut facts = guest();
    facts.workload = MeasuringCommand::Microvm;
    let (lines, summary) = periods(&facts, &[frame(1_500, 2_000, 4)]);
    assert_eq!((lines[0].host, &cpu_of(&summary).host), (None, &None));
    assert_eq!(summary.lost_events, 1);
}

#[test]
fn gaps_that_were_too_many_to_keep_leave_the_hardware_unbounded() {
    let late = |gaps: u64| {
        let from_tsc = 2_000;
        let until_tsc = from_tsc + 100 * gaps + 100;
        let mut events = vec![anchor(1_000), tally(1_000)];
        events.extend((0..gaps).map(|turn| gap_at(from_tsc + 100 * turn, 10)));
        events.extend(tick(until_tsc));
        events.push(Event::HostFrame(frame(from_tsc, until_tsc, 10)));
        events.push(finish());
        let (_, summary) = explain(&guest(), &events);
        let reported = cpu_of(&summary)
            .host
            .as_ref()
            .expect("it was told")
            .reported;
        (reported.hw_at_least_ns, reported.hw_at_most_ns)
    };
    assert_eq!(late(4_000), (39_900, Some(40_000)));
    let (at_least_ns, at_most_ns) = late(5_000);
    assert!(at_least_ns > 0 && at_least_ns < 49_900);
    assert_eq!(at_most_ns, None);
}

#[test]
fn tasks_that_sleep_are_reported_and_the_hardware_is_left_out() {
    let mut facts = guest();
    facts.workload = MeasuringCommand::Timerlat;
    let frames = [frame(500, 5_000, 8), frame(500, 9_000, 24)];
    let (lines, summary) = periods(&facts, &frames);
    assert_eq!(exits(&lines), [None, Some(16)]);
    let reported = cpu_of(&summary)
        .host
        .as_ref()
        .expect("a host told")
        .reported;
    assert_eq!(
        (reported.exits, reported.light, reported.heavy),
        (16, Some(12), 4)
    );
    // A sleeping task observes no gaps, so there are no gaps to compare with the exits.
    assert_eq!((reported.hw_at_least_ns, reported.hw_at_most_ns), (0, None));
    // Without a difference between frames, nothing is known.
    let (lines, summary) = periods(&facts, &frames[..1]);
    assert_eq!(exits(&lines), [None]);
    assert_eq!(cpu_of(&summary).host, None);
}
