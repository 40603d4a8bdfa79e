//! The budget of one gap: who took which part of it.

use vmnoise_events::{Share, SourceId};

use crate::interference::Interference;

/// What one source (or a residual) took of one gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Under which name it is booked.
    pub share: Share,
    /// Who it was; `None` where nobody is named (steal, residual, a source the
    /// stream never defined).
    pub source: Option<SourceId>,
    /// The CPU of the host on which that was, where the host's recording tells; `None` of the
    /// guest's own and of what belongs to the vCPU wherever it is.
    pub host_cpu: Option<u32>,
    /// Net time, in nanoseconds; never 0.
    pub ns: u64,
    /// How many activities it adds up; 0 for steal and the residual, which are
    /// differences and no activities.
    pub count: u32,
}

/// Adds the pieces of each source on each CPU of a host up, and puts them in the order of
/// shares and sources.
pub(crate) fn add_up(parts: &mut Vec<Part>) {
    let who = |part: &Part| (part.share, part.source, part.host_cpu);
    parts.sort_unstable_by_key(who);
    parts.dedup_by(|piece, sum| {
        let same = who(piece) == who(sum);
        if same {
            sum.ns += piece.ns;
            sum.count = sum.count.saturating_add(piece.count);
        }
        same
    });
}

/// Puts the largest first; equal ones stay in their order.
pub(crate) fn largest_first(parts: &mut [Part]) {
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
}

/// The same parts whichever CPU of a host they were on, largest first.
pub fn by_source(parts: &[Part]) -> Vec<Part> {
    let on_any = |part: &Part| Part {
        host_cpu: None,
        ..*part
    };
    let mut parts: Vec<Part> = parts.iter().map(on_any).collect();
    add_up(&mut parts);
    largest_first(&mut parts);
    parts
}

/// One gap, explained. The `ns` of all parts add up to `dur_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budget {
    /// The CPU whose time was missing.
    pub cpu: u32,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Begin, as the workload stamped it: cycles of the host's TSC.
    pub start_tsc: u64,
    /// End on the same clock.
    pub end_tsc: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Largest first; equal ones in the order of [`Share`], then of their sources.
    pub parts: Vec<Part>,
    /// Raw advance of the hypervisor's steal clock over the gap, in nanoseconds;
    /// no share. 0 where the run has no steal clock.
    pub steal_clock_ns: u64,
    /// Exits handled in the host kernel; 0 where nothing shows them. One that a host's
    /// recording lays into two gaps counts in the first.
    pub light_exits: u32,
    /// Exits that went to the VMM; the same rule.
    pub heavy_exits: u32,
    /// Reloads of the vCPU by the hypervisor.
    pub reloads: u32,
    /// Whether the recording of a host tells of all of it.
    pub witnessed: bool,
    /// Exits that the host's recording lays into it, at least in part.
    pub exits_below: u32,
    /// What is booked as `kvm` of exits in which others had part, and could not be held against
    /// what KVM usually takes: too few exits had shown it. Nanoseconds; of an exit that the
    /// host's recording tells, its whole `kvm`, in the first gap that meets it.
    pub unbounded_kvm_ns: u64,
    /// How many activities overlapped it, by class.
    pub interference: Interference,
    /// Interferences that the workload's counter saw in it and no activity shows:
    /// their records were lost, so what is booked to the kernel's own work is a lower
    /// bound. `None` where there was no counter.
    pub lost_activities: Option<u64>,
}

impl Budget {
    /// Whether an interference lay in it that no activity shows.
    pub fn is_incomplete(&self) -> bool {
        self.lost_activities.is_some_and(|lost| lost > 0)
    }

    /// Whether nobody witnessed anything in this gap: all of it is residual.
    pub fn is_bare(&self) -> bool {
        !self.is_incomplete()
            && self.exits_below == 0
            && matches!(self.parts.as_slice(), [only] if only.share.is_residual() && only.count == 0)
    }

    /// Whether the vCPU left its guest in this gap, by its own counters or a witness.
    pub fn holds_exit(&self) -> bool {
        let handled = |part: &Part| matches!(part.share, Share::Kvm | Share::Vmm);
        self.exits_below > 0
            || self.light_exits > 0
            || self.heavy_exits > 0
            || self.reloads > 0
            || self.parts.iter().any(handled)
    }

    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub fn end_mono_ns(&self) -> u64 {
        self.start_mono_ns.saturating_add(self.dur_ns)
    }

    /// What is booked under `share`, in nanoseconds.
    pub fn ns_of(&self, share: Share) -> u64 {
        let booked = self.parts.iter().filter(|part| part.share == share);
        booked.map(|part| part.ns).sum()
    }

    /// What no witness explains, in nanoseconds.
    pub fn residual_ns(&self) -> u64 {
        self.parts
            .iter()
            .filter(|part| part.share.is_residual())
            .map(|part| part.ns)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_on_two_cpus_of_a_host_is_two_parts_and_may_be_one() {
        let part = |source, host_cpu, ns| Part {
            share: Share::Preempted,
            source: Some(SourceId(source)),
            host_cpu,
            ns,
            count: 1,
        };
        let mut parts = vec![
            part(7, Some(3), 40),
            part(8, Some(3), 60),
            part(7, Some(1), 30),
            part(7, Some(3), 10),
        ];
        add_up(&mut parts);
        let told = |parts: &[Part]| -> Vec<(u32, Option<u32>, u64, u32)> {
            let parts = parts.iter();
            let told =
                parts.map(|it| (it.source.map_or(0, |id| id.0), it.host_cpu, it.ns, it.count));
            told.collect()
        };
        let apart = [
            (7, Some(1), 30, 1),
            (7, Some(3), 50, 2),
            (8, Some(3), 60, 1),
        ];
        assert_eq!(told(&parts), apart);
        assert_eq!(
            told(&by_source(&parts)),
            [(7, None, 80, 3), (8, None, 60, 1)]
        );
    }
}
