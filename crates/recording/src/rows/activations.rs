//! Converts columns back to wake-ups of periodic tasks.

use vmnoise_events::Activation;

use super::Rows;
use crate::schema::counter;

impl Rows {
    pub(super) fn activation(&self, row: usize) -> Result<Activation, String> {
        let step = |name: &str| self.find_counter(row, name);
        let missed = self.find_counter(row, counter::MISSED).unwrap_or(0);
        let missed = u32::try_from(missed);
        Ok(Activation {
            cpu: self.cpu.get(row)?,
            expiry_mono_ns: self.start_mono_ns.get(row)?,
            woke_mono_ns: self.end_mono_ns.get(row)?,
            armed_mono_ns: step(counter::ARMED_MONO_NS),
            irq_mono_ns: step(counter::IRQ_MONO_NS),
            waking_mono_ns: step(counter::WAKING_MONO_NS),
            switch_mono_ns: step(counter::SWITCH_MONO_NS),
            steal_ns: counter::STEALS_NS.map(|name| self.find_counter(row, name).unwrap_or(0)),
            missed: missed.map_err(|_| format!("row {row} misses more than 4294967295 periods"))?,
        })
    }
}
