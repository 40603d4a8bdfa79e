//! What the gate has booked of a vCPU.

use vmnoise_events::Name;

use super::lengths::WaitLengths;
use super::state::VcpuState;
use super::wire::{STATES, WireVcpu};

/// A vCPU's place in the gate's table. One vCPU after the other may have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(pub u32);

/// What one vCPU is called by the gate, and no other ever: later ones have larger ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VcpuId(pub u32);

/// Somebody who had the CPU for which a vCPU waited. Tasks of one name in one cgroup are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// The task's.
    pub name: Name,
    /// The id of its cgroup in the unified hierarchy; that of the root where there is only the old
    /// one.
    pub cgroup: u64,
    /// If it is a vCPU: which.
    pub vcpu: Option<VcpuId>,
    /// Whether it is a thread of the vCPU's own VMM.
    pub is_own: bool,
    /// How long.
    pub ns: u64,
    /// Its name as the kernel has it: two that are not the same may be shown alike.
    pub comm: [u64; 2],
}

impl Culprit {
    /// Whether it is the same one, looked at again.
    pub fn is(&self, other: &Culprit) -> bool {
        (self.comm, self.cgroup, self.vcpu, self.is_own)
            == (other.comm, other.cgroup, other.vcpu, other.is_own)
    }
}

/// What a vCPU did since it was found. Times are CLOCK_MONOTONIC in ns, lengths are ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuBooks {
    /// What it did last, since `since_mono_ns`: what it has done from then on is in none of the sums.
    pub state: VcpuState,
    /// When its books begin.
    pub first_mono_ns: u64,
    /// Until when they are kept.
    pub since_mono_ns: u64,
    /// The last instant at which a walk over all tasks found it in this state, without a missed departure.
    pub confirmed_mono_ns: u64,
    /// Whether the last walk found that a departure of its thread from a CPU was missed since.
    pub has_missed: bool,
    /// By state, as `VcpuState` counts them: all together the time from the first event until then.
    pub spent_ns: [u64; STATES],
    /// Of its waiting: nobody ran, and no throttle was seen. The CPU was on its way out of idle, as a rule.
    pub idle_ns: u64,
    /// Of its waiting: nobody ran, for its group or its class had used up its time.
    pub throttled_ns: u64,
    /// Of its waiting: it was throttled at first or meanwhile, so nobody knows whether it could have run
    /// instead of those that did.
    pub unsure_ns: u64,
    /// Of its waiting: others ran, who are not among the culprits (any more).
    pub unnamed_ns: u64,
    /// How long the wait under way had lasted at `since_mono_ns`: it is for another CPU since then.
    pub waited_ns: u64,
    /// Who had its CPU while it waited, as far as there is room for them.
    pub culprits: Vec<Culprit>,
    /// Its waits that are over.
    pub waits: WaitLengths,
}

impl VcpuBooks {
    pub(super) fn read(wire: &WireVcpu) -> VcpuBooks {
        let known = VcpuState::ALL
            .into_iter()
            .find(|state| *state as u32 == wire.state.0);
        let culprits = wire.culprits.iter().filter(|culprit| culprit.ns > 0);
        VcpuBooks {
            state: known.unwrap_or(VcpuState::Unseen),
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
                .map(|culprit| Culprit {
                    name: name(culprit.who.comm),
                    cgroup: culprit.who.cgroup,
                    vcpu: (culprit.who.vcpu > 0).then_some(VcpuId(culprit.who.vcpu)),
                    is_own: culprit.who.tgid != 0,
                    ns: culprit.ns,
                    comm: culprit.who.comm,
                })
                .collect(),
            waits: WaitLengths::new(wire.counts),
        }
    }

    /// Returns until when its time is final, at an instant before it was read. Later events change
    /// nothing before it. A current wait is not final, nor is a state since a walk last confirmed it.
    pub fn final_until_ns(&self, mono_ns: u64) -> u64 {
        let final_ns = match self.state {
            VcpuState::Waiting | VcpuState::Ended => self.since_mono_ns,
            VcpuState::Unseen => mono_ns,
            _ if self.has_missed => mono_ns,
            _ => self.confirmed_mono_ns,
        };
        final_ns.max(self.since_mono_ns)
    }

    /// Returns how long it was in this state, as far as that is final at an instant before it was read.
    /// Once a walk has noticed a missed departure, the time since the walk before is unseen.
    pub fn spent_until_ns(&self, state: VcpuState, mono_ns: u64) -> u64 {
        let final_ns = self.final_until_ns(mono_ns);
        let state_ends_ns = match self.has_missed && final_ns > self.since_mono_ns {
            true => self.confirmed_mono_ns.clamp(self.since_mono_ns, final_ns),
            false => final_ns,
        };
        let mut spent_ns = self.spent_ns(state);
        if state == self.state {
            spent_ns += state_ends_ns - self.since_mono_ns;
        }
        if state == VcpuState::Unseen {
            spent_ns += final_ns - state_ends_ns;
        }
        spent_ns
    }

    /// How long it was in this state, all together, without what goes on now.
    pub fn spent_ns(&self, state: VcpuState) -> u64 {
        self.spent_ns[state as usize]
    }

    /// Whether the books balance: all states are the time since the first event, and what is known
    /// of its waiting is all of it.
    #[cfg(test)]
    pub(super) fn balance(&self) -> bool {
        let culprits: u64 = self.culprits.iter().map(|culprit| culprit.ns).sum();
        let waited = self.idle_ns + self.throttled_ns + self.unsure_ns + self.unnamed_ns + culprits;
        let all: u64 = self.spent_ns.iter().sum();
        all == self.since_mono_ns - self.first_mono_ns
            && waited == self.spent_ns(VcpuState::Waiting)
    }
}

pub(super) fn name(comm: [u64; 2]) -> Name {
    let bytes: Vec<u8> = comm.into_iter().flat_map(u64::to_ne_bytes).collect();
    let letters = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Name::new(&String::from_utf8_lossy(letters))
}
