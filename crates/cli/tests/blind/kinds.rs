//! Fourteen ways in which a recording hides something.

use std::path::Path;

use vmnoise_events::{Loss, LossKind, MeasuringCommand, Policy, RunFacts, Witnesses};

use super::world::{AFTER_NS, BlindWorld, By, EVERY_NS, HiddenPart, LENGTH_NS, record};

/// Way in which a recording hides something.
pub struct BlindKind {
    pub name: &'static str,
    /// Reasons that every command gives if it cannot tell.
    pub reasons: &'static [&'static str],
    /// True state of the machine.
    pub world: BlindWorld,
    hides: HiddenPart,
    lost: Option<LossKind>,
    change: fn(&mut RunFacts),
    /// Whether time is hidden, and not only its culprit.
    pub hides_time: bool,
    /// Whether it hides only the losses of tasks, and nothing about the recorder's own gaps.
    pub of_tasks: bool,
}

impl BlindKind {
    /// Writes a recording with this blind spot.
    pub fn write_blind(&self, path: &Path) {
        let lost = self.lost.map(|kind| Loss { kind, count: 500 });
        record(path, self.world, self.hides, lost, self.change);
    }

    /// Writes a recording of the same world without a blind spot.
    pub fn write_whole(&self, path: &Path) {
        record(path, self.world, HiddenPart::Nothing, None, |_| {});
    }
}

const fn world(by: By) -> BlindWorld {
    BlindWorld { by, from_ns: 0 }
}

/// World in which no time is taken in the first half of the run.
const LATER: BlindWorld = BlindWorld {
    by: By::Task,
    from_ns: LENGTH_NS / 2,
};

fn nothing(_: &mut RunFacts) {}

pub fn all() -> Vec<BlindKind> {
    let kind = |name, reasons, world, hides| BlindKind {
        name,
        reasons,
        world,
        hides,
        lost: None,
        change: nothing,
        hides_time: true,
        of_tasks: false,
    };
    vec![
        BlindKind {
            change: |facts| facts.options.threshold_ns = 2_000_000,
            ..kind(
                "threshold",
                &["threshold"],
                world(By::Task),
                HiddenPart::Nothing,
            )
        },
        BlindKind {
            change: |facts| {
                facts.workload = MeasuringCommand::Observed;
                facts.witnesses.activity_steal = true;
            },
            ..kind(
                "observed thread",
                &["not_felt"],
                world(By::Hypervisor),
                HiddenPart::Gaps,
            )
        },
        BlindKind {
            change: |facts| facts.options.priority = Some(Policy::Fifo(99)),
            of_tasks: true,
            ..kind(
                "priority",
                &["goes_first"],
                world(By::Task),
                HiddenPart::Gaps,
            )
        },
        BlindKind {
            lost: Some(LossKind::MailboxFull),
            ..kind("lost gaps", &["lost"], world(By::Task), HiddenPart::Gaps)
        },
        BlindKind {
            lost: Some(LossKind::RingFull),
            hides_time: false,
            ..kind(
                "lost activities",
                &["lost_names"],
                world(By::Task),
                HiddenPart::Owners,
            )
        },
        BlindKind {
            lost: Some(LossKind::Unpaired),
            hides_time: false,
            ..kind(
                "hidden switches",
                &["lost_names"],
                world(By::Task),
                HiddenPart::Owners,
            )
        },
        kind(
            "cut run",
            &["cut_off"],
            LATER,
            HiddenPart::End(LENGTH_NS / 2),
        ),
        BlindKind {
            change: |facts| facts.options.runtime_ns = Some(AFTER_NS),
            ..kind(
                "paused run",
                &["paused"],
                world(By::Task),
                HiddenPart::AllBut(AFTER_NS),
            )
        },
        BlindKind {
            change: |facts| {
                facts.options.trace = false;
                facts.witnesses = Witnesses::default();
            },
            hides_time: false,
            ..kind(
                "no BPF",
                &["not_witnessed"],
                world(By::Task),
                HiddenPart::Owners,
            )
        },
        BlindKind {
            change: |facts| facts.witnesses.steal_clock = false,
            hides_time: false,
            ..kind(
                "no steal clock",
                &["not_witnessed"],
                world(By::Host),
                HiddenPart::Steal,
            )
        },
        kind(
            "clock jump",
            &["clock_went_back"],
            LATER,
            HiddenPart::Clock(LENGTH_NS / 2),
        ),
        // `mod.rs` has the other ways, which need two recordings.
    ]
}

/// Task that meets its deadline in each period in which no time is taken, and misses it in the
/// others.
pub const TASKS: &str = r#"
policy = "fp"
[[task]]
name = "control"
cost = "3ms"
period = "10ms"
deadline = "4ms"
priority = 10
"#;

const _: () = assert!(EVERY_NS == 4_000_000);
