//! The steal clock of this machine itself, where it is a guest: what the scheduler
//! of the host below took of each measured CPU, at most.

use vmnoise_tracer::Tracer;

/// Readings of that clock, by CPU, in nanoseconds; `None` where it is unknown.
#[derive(Debug)]
pub struct OuterSteal {
    start: Vec<(u32, Option<u64>)>,
    period: Vec<(u32, Option<u64>)>,
}

impl OuterSteal {
    /// Begins with what the clocks of these CPUs say now.
    pub fn begin(cpus: &[u32], tracer: Option<&Tracer>) -> OuterSteal {
        let read = |&cpu| (cpu, tracer.and_then(|tracer| tracer.outer_steal_ns(cpu)));
        let start: Vec<_> = cpus.iter().map(read).collect();
        OuterSteal {
            period: start.clone(),
            start,
        }
    }

    /// How far the clock of a CPU has advanced since the start.
    pub fn since_start(&self, tracer: &Tracer, cpu: u32) -> Option<u64> {
        let (_, start_ns) = self.start.iter().find(|(started, _)| *started == cpu)?;
        advance(*start_ns, tracer.outer_steal_ns(cpu))
    }

    /// How far each clock has advanced since the last call.
    pub fn of_period(&mut self, tracer: Option<&Tracer>) -> Vec<(u32, Option<u64>)> {
        let report = |(cpu, before_ns): &mut (u32, Option<u64>)| {
            let now_ns = tracer.and_then(|tracer| tracer.outer_steal_ns(*cpu));
            let reported = (*cpu, advance(*before_ns, now_ns));
            *before_ns = now_ns;
            reported
        };
        self.period.iter_mut().map(report).collect()
    }
}

fn advance(before_ns: Option<u64>, now_ns: Option<u64>) -> Option<u64> {
    before_ns
        .zip(now_ns)
        .map(|(before, now)| now.saturating_sub(before))
}
