//! Phases of a wake-up, from the planned expiry to user space.

use serde::Serialize;
use vmnoise_events::Activation;

/// Phase of a task's wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// From the expiry until the task armed its timer, if the task armed it too late.
    ArmedLate = 0,
    /// From the expiry, or the late arming, until the timer's interrupt handled this timer.
    Irq = 1,
    /// From the handling of the timer until the task was woken.
    Handler = 2,
    /// From the waking of the task until it was switched in.
    Wakeup = 3,
    /// From the switch to the task until it read the clock in user space.
    Return = 4,
}

impl Phase {
    /// Every phase, in time order.
    pub const ALL: [Phase; 5] = [
        Phase::ArmedLate,
        Phase::Irq,
        Phase::Handler,
        Phase::Wakeup,
        Phase::Return,
    ];

    /// Returns the name of the phase in results.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::ArmedLate => "armed_late",
            Phase::Irq => "irq",
            Phase::Handler => "handler",
            Phase::Wakeup => "wakeup",
            Phase::Return => "return",
        }
    }
}

/// A segment of a wake-up. `phase` is `None` if the segment covers several phases, because an event
/// between them is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) phase: Option<Phase>,
    /// Phase that ends at the end of the segment.
    pub(crate) until: Phase,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) steal_ns: u64,
    /// Run delay of the thread, in nanoseconds. Set if BPF does not show for which task the thread
    /// waited.
    pub(crate) run_delay_ns: u64,
}

/// Returns the segments of a wake-up that ends after its expiry. The segments touch each other and
/// cover the whole wake-up. An event that is out of order is moved to the next possible instant.
pub(crate) fn stretches(activation: &Activation) -> impl Iterator<Item = Stretch> + use<> {
    let Activation {
        expiry_mono_ns,
        woke_mono_ns,
        ..
    } = *activation;
    let ends = [
        activation.armed_mono_ns,
        activation.irq_mono_ns,
        activation.waking_mono_ns,
        activation.switch_mono_ns,
        Some(woke_mono_ns),
    ];
    let mut now_ns = expiry_mono_ns;
    let (mut unseen, mut unseen_steal_ns) = (false, 0u64);
    let steps = Phase::ALL.into_iter().zip(ends).zip(activation.steal_ns);
    steps.filter_map(move |((phase, end_ns), steal_ns)| {
        unseen_steal_ns = unseen_steal_ns.saturating_add(steal_ns);
        let Some(end_ns) = end_ns else {
            unseen = true;
            return None;
        };
        let end_ns = end_ns.clamp(now_ns, woke_mono_ns.max(now_ns));
        let stretch = Stretch {
            phase: (!unseen).then_some(phase),
            until: phase,
            start_ns: now_ns,
            end_ns,
            steal_ns: unseen_steal_ns,
            run_delay_ns: 0,
        };
        now_ns = end_ns;
        (unseen, unseen_steal_ns) = (false, 0);
        Some(stretch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Activation = Activation {
        cpu: 0,
        expiry_mono_ns: 1_000,
        woke_mono_ns: 1_100,
        armed_mono_ns: Some(500),
        irq_mono_ns: Some(1_020),
        waking_mono_ns: Some(1_030),
        switch_mono_ns: Some(1_070),
        steal_ns: [0, 7, 0, 1, 2],
        missed: 0,
    };

    fn reported(activation: &Activation) -> Vec<(Option<Phase>, u64, u64)> {
        let stretches = stretches(activation);
        let reported = stretches.map(|it| (it.phase, it.end_ns - it.start_ns, it.steal_ns));
        reported.collect()
    }

    #[test]
    fn each_step_ends_a_phase() {
        let expected = [
            (Some(Phase::ArmedLate), 0, 0),
            (Some(Phase::Irq), 20, 7),
            (Some(Phase::Handler), 10, 0),
            (Some(Phase::Wakeup), 40, 1),
            (Some(Phase::Return), 30, 2),
        ];
        assert_eq!(reported(&SEEN), expected);
    }

    #[test]
    fn phases_around_an_unseen_step_are_not_told_apart() {
        let no_switch = Activation {
            switch_mono_ns: None,
            ..SEEN
        };
        assert_eq!(reported(&no_switch)[3], (None, 70, 3));
        let nothing = Activation {
            armed_mono_ns: None,
            irq_mono_ns: None,
            waking_mono_ns: None,
            switch_mono_ns: None,
            ..SEEN
        };
        assert_eq!(reported(&nothing), [(None, 100, 10)]);
    }

    #[test]
    fn a_timer_armed_after_its_expiry_is_late_by_that() {
        let late = Activation {
            armed_mono_ns: Some(1_015),
            steal_ns: [12, 3, 0, 1, 2],
            ..SEEN
        };
        assert_eq!(
            reported(&late)[..2],
            [(Some(Phase::ArmedLate), 15, 12), (Some(Phase::Irq), 5, 3)]
        );
    }
}
