//! Steal clock of this machine if it is a guest: an upper bound of the time that the host's
//! scheduler took from each measured CPU.

use vmnoise_tracer::Tracer;

/// Readings of the steal clock by CPU, in nanoseconds; `None` if unknown.
#[derive(Debug)]
pub struct OuterStealReadings {
    start: Vec<(u32, Option<u64>)>,
    period: Vec<(u32, Option<u64>)>,
}

impl OuterStealReadings {
    /// Begins with the present readings of these CPUs.
    pub fn begin(cpus: &[u32], tracer: Option<&Tracer>) -> OuterStealReadings {
        let read = |&cpu| (cpu, tracer.and_then(|tracer| tracer.outer_steal_ns(cpu)));
        let start: Vec<_> = cpus.iter().map(read).collect();
        OuterStealReadings {
            period: start.clone(),
            start,
        }
    }

    /// Returns the advance of a CPU's clock since the start, in nanoseconds.
    pub fn since_start(&self, tracer: &Tracer, cpu: u32) -> Option<u64> {
        let (_, start_ns) = self.start.iter().find(|(started, _)| *started == cpu)?;
        advance(*start_ns, tracer.outer_steal_ns(cpu))
    }

    /// Returns the advance of each clock since the last call, in nanoseconds.
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
