//! Converts wake-ups of periodic tasks to columns.

use vmnoise_events::Activation;

use super::{Columns, Row};
use crate::schema::{counter, event};

impl Columns {
    pub(super) fn push_activation(&mut self, activation: &Activation) {
        let steps = [
            (counter::ARMED_MONO_NS, activation.armed_mono_ns),
            (counter::IRQ_MONO_NS, activation.irq_mono_ns),
            (counter::WAKING_MONO_NS, activation.waking_mono_ns),
            (counter::SWITCH_MONO_NS, activation.switch_mono_ns),
        ];
        // Most of these counters are 0, and are then left out.
        let steals = counter::STEALS_NS.into_iter().zip(activation.steal_ns);
        let missed = (counter::MISSED, activation.missed.into());
        let some = steals.chain([missed]).filter(|(_, count)| *count > 0);
        let counters: Vec<_> = steps
            .into_iter()
            .chain(some.map(|(name, count)| (name, Some(count))))
            .collect();
        self.push(&Row {
            event: event::ACTIVATION,
            cpu: Some(activation.cpu),
            start_mono_ns: Some(activation.expiry_mono_ns),
            end_mono_ns: Some(activation.woke_mono_ns),
            counters: Some(&counters),
            ..Row::default()
        });
    }
}
