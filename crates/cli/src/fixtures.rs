//! Facts from which the tests of this crate start.

use vmnoise_events::{MeasuringCommand, RunFacts, Witnesses, fixtures};

/// Returns the facts of a polling thread on CPU 16 of bare metal, with all probes of a kernel.
pub fn facts() -> RunFacts {
    let mut facts = fixtures::facts(MeasuringCommand::Osnoise);
    facts.options.cpus = vec![16];
    facts.options.threshold_ns = 1_000;
    facts.options.top = 1;
    facts.witnesses = Witnesses {
        irq: true,
        softirq: true,
        nmi: true,
        sched: true,
        ..Witnesses::default()
    };
    facts
}
