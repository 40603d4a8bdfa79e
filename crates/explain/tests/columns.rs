//! Tests the counts of osnoise and the columns of a guest, for the run and for each period.

use crate::streams::{activity, anchor, explain, facts, finish, gap, polling_in_a_machine, source};
use vmnoise_events::ActivityKind::{Irq, Softirq, Vmm};
use vmnoise_events::{CpuTally, Event, Gap, Share};
use vmnoise_explain::{Explainer, GuestColumns, InterferenceColumns};

#[test]
fn columns_of_a_table_for_the_run_and_each_period() {
    let tally = |light, reloads| {
        Event::Tally(CpuTally {
            cpu: 1,
            last_tsc: 9000,
            light_exits: Some(light),
            reloads: Some(reloads),
            ..CpuTally::default()
        })
    };
    let stolen = |start, end, steal_ns| {
        Event::Gap(Gap {
            steal_ns,
            ..gap(start, end)
        })
    };
    let mut explainer = Explainer::new(&polling_in_a_machine());
    let feed = |explainer: &mut Explainer, events: &[Event]| {
        events
            .iter()
            .for_each(|event| explainer.push(event, &mut |_| {}));
    };
    let first = [
        source(0, "tick"),
        anchor(0),
        activity(Irq, 1000, 1100, 0),
        activity(Softirq, 1100, 1200, 0),
        stolen(1000, 2000, 300),
        stolen(3000, 3500, 0),
        tally(5, 2),
        anchor(4000),
        Event::Watermark(4000),
    ];
    feed(&mut explainer, &first);
    let line = explainer.take_period().remove(0);
    let overlaps = |hw, irq, softirq| InterferenceColumns {
        hw: Some(hw),
        nmi: Some(0),
        irq: Some(irq),
        softirq: Some(softirq),
        thread: Some(0),
    };
    assert_eq!(line.interference, overlaps(1, 1, 1));
    let columns = |steal_ns, light_exits, heavy_exits| GuestColumns {
        steal_ns: Some(steal_ns),
        virt_ns: None,
        hw_noise_ns: None,
        light_exits: Some(light_exits),
        heavy_exits: Some(heavy_exits),
    };
    assert_eq!(line.guest_columns, columns(300, 5, 2));

    let second = [
        activity(Irq, 6000, 6100, 0),
        stolen(6000, 6200, 50),
        tally(7, 2),
        anchor(9000),
        Event::Watermark(9000),
    ];
    feed(&mut explainer, &second);
    let line = explainer.take_period().remove(0);
    assert_eq!(line.interference, overlaps(0, 1, 0));
    assert_eq!(line.guest_columns, columns(50, 2, 0));

    let cpu = explainer.finish().cpus.remove(0);
    assert_eq!(cpu.interference, overlaps(1, 2, 1));
    assert_eq!(cpu.guest_columns, columns(350, 7, 2));
}

#[test]
fn virt_holds_what_nobody_explains_of_exits_alone() {
    let exited = Event::Gap(Gap {
        light_exits: 1,
        ..gap(1000, 2000)
    });
    let events = [
        source(0, "some"),
        anchor(0),
        anchor(10_000),
        activity(Vmm, 1000, 1300, 0),
        exited,
        activity(Irq, 3000, 3100, 0),
        Event::Gap(gap(3000, 4000)),
        Event::Gap(gap(5000, 5070)),
        finish(),
    ];
    let cpu = explain(&facts(), &events).1.cpus.remove(0);
    assert_eq!(cpu.shares_ns[Share::Unexplained], Some(700 + 900));
    let columns = GuestColumns {
        steal_ns: Some(0),
        virt_ns: Some(300 + 700 + 100),
        hw_noise_ns: Some(70),
        ..GuestColumns::default()
    };
    assert_eq!(cpu.guest_columns, columns);
}
