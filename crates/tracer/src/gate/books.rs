//! Times of a vCPU as the gate counts them.

use vmnoise_events::Name;

use super::lengths::WaitLengths;
use super::state::VcpuThreadState;
use super::wire::{STATES, WireVcpu};

/// Index of a vCPU in the gate's table. Several vCPUs may use an index, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateSlot(pub u32);

/// Unique id of a vCPU in the gate. A vCPU that is found later has a larger id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateVcpuId(pub u32);

/// A task that had the CPU for which a vCPU waited. Tasks with the same name in the same cgroup are
/// one culprit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCulprit {
    /// Name of the task's process.
    pub name: Name,
    /// Id of the task's cgroup in the unified hierarchy. If there is only the old hierarchy, the id
    /// of its root group.
    pub cgroup: u64,
    /// Id of the vCPU, if the culprit is the thread of a vCPU.
    pub vcpu: Option<GateVcpuId>,
    /// Whether the task is a thread of the vCPU's own VMM.
    pub is_own: bool,
    /// Time for which the culprit had the CPU, in ns.
    pub ns: u64,
    /// The kernel's name of the task. Two different kernel names may have the same `name`.
    pub comm: [u64; 2],
}

impl WaitCulprit {
    /// Returns whether `self` and `other` are readings of the same culprit.
    pub fn is(&self, other: &WaitCulprit) -> bool {
        (self.comm, self.cgroup, self.vcpu, self.is_own)
            == (other.comm, other.cgroup, other.vcpu, other.is_own)
    }
}

/// Times of a vCPU since it was found. Instants are CLOCK_MONOTONIC in ns, durations are in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuBooks {
    /// The state since `since_mono_ns`. No sum contains the time after `since_mono_ns`.
    pub state: VcpuThreadState,
    /// Begin of the counted time: the instant at which the vCPU was found.
    pub first_mono_ns: u64,
    /// End of the counted time: the begin of `state`.
    pub since_mono_ns: u64,
    /// Last instant at which a walk over all tasks confirmed the state of the vCPU.
    pub confirmed_mono_ns: u64,
    /// Whether the last walk over all tasks showed that the vCPU's thread left a CPU without an
    /// event.
    pub has_missed: bool,
    /// Time in each state, indexed by [`VcpuThreadState`]. The sum is the counted time.
    pub spent_ns: [u64; STATES],
    /// Part of the waiting time in which the CPU idled and the vCPU was not throttled. Usually the
    /// CPU was about to run the vCPU.
    pub idle_ns: u64,
    /// Part of the waiting time in which the CPU idled because the group or class of the vCPU had
    /// used up its quota.
    pub throttled_ns: u64,
    /// Part of the waiting time in which the vCPU was throttled, at first or later, while other
    /// tasks ran. It is unknown whether the vCPU could have run instead of them.
    pub unsure_ns: u64,
    /// Part of the waiting time in which tasks ran that are not, or no longer, in `culprits`.
    pub unnamed_ns: u64,
    /// Time between the begin of the current wait and `since_mono_ns`. It is 0 unless the vCPU
    /// moved to another CPU during the wait.
    pub waited_ns: u64,
    /// Tasks that had the CPU while the vCPU waited. Tasks for which there was no room are missing.
    pub culprits: Vec<WaitCulprit>,
    /// Number of finished waits by length.
    pub waits: WaitLengths,
}

impl VcpuBooks {
    pub(super) fn read(wire: &WireVcpu) -> VcpuBooks {
        let known = VcpuThreadState::ALL
            .into_iter()
            .find(|state| *state as u32 == wire.state.0);
        let culprits = wire.culprits.iter().filter(|culprit| culprit.ns > 0);
        VcpuBooks {
            state: known.unwrap_or(VcpuThreadState::Unseen),
            first_mono_ns: wire.first,
            since_mono_ns: wire.since,
            confirmed_mono_ns: wire.confirmed,
            has_missed: wire.has_missed(),
            spent_ns: wire.spent,
            idle_ns: wire.idle_ns,
            throttled_ns: wire.throttled_ns,
            unsure_ns: wire.unsure_ns,
            unnamed_ns: wire.unnamed_ns,
            waited_ns: wire.waited,
            culprits: culprits
                .map(|culprit| WaitCulprit {
                    name: name(culprit.who.comm),
                    cgroup: culprit.who.cgroup,
                    vcpu: (culprit.who.vcpu > 0).then_some(GateVcpuId(culprit.who.vcpu)),
                    is_own: culprit.who.tgid != 0,
                    ns: culprit.ns,
                    comm: culprit.who.comm,
                })
                .collect(),
            waits: WaitLengths::new(wire.counts),
        }
    }

    /// Returns the instant until which the vCPU's times are final, so that no later event changes
    /// them. `mono_ns` is an instant before this reading. A current wait is not final. An unseen
    /// state, or a state after a missed departure, is final until `mono_ns`. Any other state is
    /// final until its last confirmation by a walk.
    pub fn final_until_ns(&self, mono_ns: u64) -> u64 {
        let final_ns = match self.state {
            VcpuThreadState::Waiting | VcpuThreadState::Ended => self.since_mono_ns,
            VcpuThreadState::Unseen => mono_ns,
            _ if self.has_missed => mono_ns,
            _ => self.confirmed_mono_ns,
        };
        final_ns.max(self.since_mono_ns)
    }

    /// Returns the time in `state` that is final at `mono_ns`, an instant before this reading. If
    /// the last walk showed a missed departure, the time since the last confirmation counts as
    /// unseen.
    pub fn spent_until_ns(&self, state: VcpuThreadState, mono_ns: u64) -> u64 {
        let final_ns = self.final_until_ns(mono_ns);
        let state_ends_ns = match self.has_missed && final_ns > self.since_mono_ns {
            true => self.confirmed_mono_ns.clamp(self.since_mono_ns, final_ns),
            false => final_ns,
        };
        let mut spent_ns = self.spent_ns(state);
        if state == self.state {
            spent_ns += state_ends_ns - self.since_mono_ns;
        }
        if state == VcpuThreadState::Unseen {
            spent_ns += final_ns - state_ends_ns;
        }
        spent_ns
    }

    /// Returns the time in `state` until `since_mono_ns`, in ns.
    pub fn spent_ns(&self, state: VcpuThreadState) -> u64 {
        self.spent_ns[state as usize]
    }

    /// Returns whether the sums are consistent: the states add up to the counted time, and the
    /// parts of the waiting time add up to the waiting time.
    #[cfg(test)]
    pub(super) fn balance(&self) -> bool {
        let culprits: u64 = self.culprits.iter().map(|culprit| culprit.ns).sum();
        let waited = self.idle_ns + self.throttled_ns + self.unsure_ns + self.unnamed_ns + culprits;
        let all: u64 = self.spent_ns.iter().sum();
        all == self.since_mono_ns - self.first_mono_ns
            && waited == self.spent_ns(VcpuThreadState::Waiting)
    }
}

pub(super) fn name(comm: [u64; 2]) -> Name {
    let bytes: Vec<u8> = comm.into_iter().flat_map(u64::to_ne_bytes).collect();
    let letters = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Name::new(&String::from_utf8_lossy(letters))
}
