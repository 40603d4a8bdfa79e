//! Counters at the end of a warm-up. They are subtracted from all later counters.

use vmnoise_events::{CpuTally, Event, Loss, OwnCost};

/// Cumulative counters at the beginning of the result; all zero without a warm-up.
#[derive(Debug, Default)]
pub struct Baseline {
    /// Tallies, one for each CPU.
    pub tallies: Vec<CpuTally>,
    /// Losses, one for each kind that occurred.
    pub losses: Vec<Loss>,
    /// Cost of measuring so far.
    pub own_cost: Option<OwnCost>,
    /// Beginning of the result, CLOCK_MONOTONIC in nanoseconds.
    pub begun_mono_ns: u64,
}

impl Baseline {
    /// Returns whether a gap or an activation began before the result.
    pub fn precedes(&self, observed: &Event) -> bool {
        match observed {
            Event::Gap(gap) => {
                let base = self.tallies.iter().find(|base| base.cpu == gap.cpu);
                base.is_some_and(|base| gap.start_tsc < base.last_tsc)
            }
            Event::Activation(activation) => activation.expiry_mono_ns < self.begun_mono_ns,
            _ => false,
        }
    }

    /// Returns the counters of a CPU since the beginning of the result.
    pub fn tally(&self, now: CpuTally) -> CpuTally {
        let Some(base) = self.tallies.iter().find(|base| base.cpu == now.cpu) else {
            return now;
        };
        CpuTally {
            first_tsc: now.first_tsc.max(base.last_tsc),
            blind_tsc: since(base.blind_tsc, now.blind_tsc),
            steal_clock_ns: since(base.steal_clock_ns, now.steal_clock_ns),
            reloads: since(base.reloads, now.reloads),
            light_exits: since(base.light_exits, now.light_exits),
            heavy_exits: since(base.heavy_exits, now.heavy_exits),
            kvm_stat_exits: since(base.kvm_stat_exits, now.kvm_stat_exits),
            smi_count: since(base.smi_count, now.smi_count),
            interference: (base.interference.zip(now.interference))
                .map(|(base, now)| now.since(base)),
            ..now
        }
    }

    /// Returns the losses of one kind since the beginning of the result.
    pub fn loss(&self, now: Loss) -> Loss {
        let base = self.losses.iter().find(|base| base.kind == now.kind);
        Loss {
            count: now.count.saturating_sub(base.map_or(0, |base| base.count)),
            ..now
        }
    }

    /// Returns the cost of measuring since the beginning of the result.
    pub fn own_cost(&self, now: OwnCost) -> OwnCost {
        let base = self.own_cost.unwrap_or_default();
        OwnCost {
            bpf_runs: now.bpf_runs.saturating_sub(base.bpf_runs),
            bpf_ns: now.bpf_ns.saturating_sub(base.bpf_ns),
        }
    }
}

/// Returns the advance of a counter; a counter that was unknown at the beginning stays unknown.
fn since(base: Option<u64>, now: Option<u64>) -> Option<u64> {
    base.zip(now).map(|(base, now)| now.saturating_sub(base))
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{Activation, Gap, InterferenceCounts, LossKind};

    use super::*;

    fn irqs(irq: u64) -> InterferenceCounts {
        InterferenceCounts {
            irq,
            ..InterferenceCounts::default()
        }
    }

    fn baseline() -> Baseline {
        Baseline {
            tallies: vec![CpuTally {
                cpu: 1,
                first_tsc: 1_000,
                last_tsc: 5_000,
                blind_tsc: Some(70),
                reloads: Some(3),
                interference: Some(irqs(40)),
                ..CpuTally::default()
            }],
            losses: vec![Loss {
                kind: LossKind::RingFull,
                count: 4,
            }],
            own_cost: Some(OwnCost {
                bpf_runs: 10,
                bpf_ns: 900,
            }),
            begun_mono_ns: 0,
        }
    }

    #[test]
    fn counters_start_anew() {
        let now = baseline().tally(CpuTally {
            cpu: 1,
            first_tsc: 1_000,
            last_tsc: 9_000,
            blind_tsc: Some(100),
            reloads: Some(3),
            heavy_exits: Some(8),
            interference: Some(irqs(42)),
            ..CpuTally::default()
        });
        assert_eq!(now.interference, Some(irqs(2)));
        assert_eq!((now.first_tsc, now.last_tsc), (5_000, 9_000));
        assert_eq!((now.blind_tsc, now.reloads), (Some(30), Some(0)));
        assert_eq!(now.heavy_exits, None, "it was not known at the begin");
        let other = CpuTally {
            cpu: 2,
            first_tsc: 77,
            ..CpuTally::default()
        };
        assert_eq!(baseline().tally(other), other);
        let loss = |kind, count| baseline().loss(Loss { kind, count }).count;
        assert_eq!(loss(LossKind::RingFull, 6), 2);
        assert_eq!(loss(LossKind::Unpaired, 6), 6);
        let cost = baseline().own_cost(OwnCost {
            bpf_runs: 15,
            bpf_ns: 1_000,
        });
        assert_eq!((cost.bpf_runs, cost.bpf_ns), (5, 100));
    }

    #[test]
    fn a_gap_that_began_in_the_warm_up_is_none() {
        let gap = |cpu, start_tsc| {
            Event::Gap(Gap {
                cpu,
                start_tsc,
                end_tsc: 6_000,
                steal_ns: 0,
                reloads: 0,
                light_exits: 0,
                heavy_exits: 0,
                interference: None,
                run_delay_ns: 0,
            })
        };
        assert!(baseline().precedes(&gap(1, 4_999)));
        assert!(!baseline().precedes(&gap(1, 5_000)));
        assert!(!baseline().precedes(&gap(2, 0)));
        assert!(!Baseline::default().precedes(&gap(1, 0)));
    }

    #[test]
    fn a_wake_up_that_was_due_in_the_warm_up_is_none() {
        let due = |expiry_mono_ns| {
            Event::Activation(Activation {
                expiry_mono_ns,
                ..Activation::default()
            })
        };
        let begun = Baseline {
            begun_mono_ns: 700,
            ..Baseline::default()
        };
        assert!(begun.precedes(&due(699)));
        assert!(!begun.precedes(&due(700)));
        assert!(!Baseline::default().precedes(&due(0)));
    }
}
