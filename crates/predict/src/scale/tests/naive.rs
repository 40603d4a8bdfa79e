//! Simulates a program step by step. Each host begins at some moment of its recording, and the
//! recording repeats.

use crate::record::CpuRecord;

/// Simulated hosts. All hosts have CPUs with these gaps, and each host repeats its gaps.
pub(super) struct Machine {
    cpus: Vec<Vec<(u64, u64)>>,
    span_ns: u64,
    /// For each host, the moment of the recording at which the program begins, in nanoseconds.
    offsets_ns: Vec<u64>,
}

impl Machine {
    /// Returns this number of hosts, each at a random moment of its recording.
    pub(super) fn new(records: &[CpuRecord], hosts: usize, random: &mut fastrand::Rng) -> Machine {
        let span_ns = records[0].span_ns();
        let cpus = records.iter().map(|record| {
            let taken = record.taken();
            let gaps = taken.begins_ns.iter().zip(taken.taken_ns());
            gaps.map(|(begin_ns, ns)| (*begin_ns, *ns)).collect()
        });
        Machine {
            cpus: cpus.collect(),
            span_ns,
            offsets_ns: (0..hosts).map(|_| random.u64(..span_ns)).collect(),
        }
    }

    pub(super) fn ranks(&self) -> usize {
        self.offsets_ns.len() * self.cpus.len()
    }

    /// Returns the time at which a rank that begins at `begin_ns` has had its CPU for `need_ns`.
    pub(super) fn end_ns(&self, rank: usize, begin_ns: u64, need_ns: u64) -> u64 {
        let (host, cpu) = (rank / self.cpus.len(), rank % self.cpus.len());
        let gaps = &self.cpus[cpu];
        let at_ns = begin_ns + self.offsets_ns[host];
        let (mut lap, mut at_ns) = (at_ns / self.span_ns, at_ns % self.span_ns);
        let mut next = gaps.partition_point(|(from_ns, ns)| from_ns + ns <= at_ns);
        let mut left_ns = need_ns;
        loop {
            let Some((from_ns, ns)) = gaps.get(next) else {
                let rest_ns = self.span_ns - at_ns;
                if left_ns <= rest_ns {
                    break;
                }
                left_ns -= rest_ns;
                (lap, at_ns, next) = (lap + 1, 0, 0);
                continue;
            };
            let free_ns = from_ns.saturating_sub(at_ns);
            if left_ns <= free_ns {
                break;
            }
            left_ns -= free_ns;
            at_ns = from_ns + ns;
            next += 1;
        }
        lap * self.span_ns + at_ns + left_ns - self.offsets_ns[host]
    }

    /// Returns the duration of this number of steps that end with barriers, in nanoseconds.
    pub(super) fn barriers_ns(&self, step_ns: u64, steps: usize) -> u64 {
        (0..steps).fold(0, |now_ns, _| {
            let ends = (0..self.ranks()).map(|rank| self.end_ns(rank, now_ns, step_ns));
            ends.max().unwrap_or(now_ns)
        })
    }

    /// Returns the duration of this number of steps that end with an allreduce by recursive
    /// doubling, in nanoseconds. The number of ranks must be a power of two.
    pub(super) fn allreduces_ns(&self, step_ns: u64, round_ns: u64, steps: usize) -> u64 {
        let mut now_ns = 0;
        for _ in 0..steps {
            let ends = (0..self.ranks()).map(|rank| self.end_ns(rank, now_ns, step_ns));
            let mut ends: Vec<u64> = ends.collect();
            let mut distance = 1;
            while distance < self.ranks() {
                let met = (0..self.ranks()).map(|rank| {
                    let both_ns = ends[rank].max(ends[rank ^ distance]);
                    self.end_ns(rank, both_ns, round_ns)
                });
                ends = met.collect();
                distance *= 2;
            }
            now_ns = ends.into_iter().max().unwrap_or(now_ns);
        }
        now_ns
    }
}
