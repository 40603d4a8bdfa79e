//! Facts of a run, for the tests of this crate.

use vmnoise_events::{MeasuringCommand, RunFacts, Witnesses, fixtures};

/// Returns the facts of a run of `osnoise` on CPU 16 of bare metal, with all probes for the
/// kernel's own work.
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
