//! Which vCPU is which CPU of the guest, and the one clock that both sides share.

use vmnoise_events::VcpuId;

use super::crossing::Crossing;
use super::eras::Eras;
use super::guest_clock::GuestClock;
use super::result::Pair;

/// The CPUs of a guest as vCPUs of its host. Times of the guest are those that its own
/// anchors give to readings of its counter; nanoseconds of either side's CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct Pairs {
    pub(super) host: Eras,
    /// Everything that ended before has been told, where it was not lost.
    pub(super) host_until_ns: u64,
    pub(super) guest: Eras,
    /// As in `pairs`.
    pub(super) vcpus: Vec<(VcpuId, GuestClock)>,
    pub(super) pairs: Vec<Pair>,
}

impl Pairs {
    /// The pairs, ascending by the guest's CPU.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Which CPU of the guest this vCPU is.
    pub fn cpu_of(&self, vcpu: VcpuId) -> Option<u32> {
        let place = self.vcpus.iter().position(|(id, _)| *id == vcpu)?;
        Some(self.pairs[place].cpu)
    }

    /// The guest's time at this instant of its host; `None` where no clock is known to hold,
    /// or either side had not begun or had ended. Monotone as long as one clock holds.
    pub fn lay(&self, vcpu: VcpuId, host_mono_ns: u64) -> Option<u64> {
        let (_, clock) = self.vcpus.iter().find(|(id, _)| *id == vcpu)?;
        self.crossing(clock).guest_mono_ns(host_mono_ns)
    }

    /// The host's time at this instant of a guest's CPU, the last if there are several;
    /// `None` as for [`Self::lay`].
    pub fn host_mono_ns(&self, cpu: u32, guest_mono_ns: u64) -> Option<u64> {
        let (_, guest_tsc) = self.guest.tsc(guest_mono_ns)?;
        let (_, host_mono_ns) = self.crossing(self.clock_of(cpu)?).host_mono_ns(guest_tsc)?;
        Some(host_mono_ns)
    }

    /// Whether the host recorded all of that time of the guest, on one known clock.
    pub fn witnessed(&self, cpu: u32, start_mono_ns: u64, end_mono_ns: u64) -> bool {
        let line = |guest_mono_ns| {
            let (era, guest_tsc) = self.guest.tsc(guest_mono_ns)?;
            let (line, host_mono_ns) =
                self.crossing(self.clock_of(cpu)?).host_mono_ns(guest_tsc)?;
            (host_mono_ns <= self.host_until_ns).then_some((era, line))
        };
        let lines = line(start_mono_ns).zip(line(end_mono_ns));
        start_mono_ns <= end_mono_ns && lines.is_some_and(|(start, end)| start == end)
    }

    /// Bound of the error of [`Self::lay`] on this CPU, in nanoseconds; `None` without a pair.
    pub fn bound_ns(&self, cpu: u32) -> Option<u64> {
        let pair = self.pairs.iter().find(|pair| pair.cpu == cpu)?;
        Some(pair.bound_ns)
    }

    fn clock_of(&self, cpu: u32) -> Option<&GuestClock> {
        let place = self.pairs.iter().position(|pair| pair.cpu == cpu)?;
        Some(&self.vcpus[place].1)
    }

    fn crossing<'a>(&'a self, clock: &'a GuestClock) -> Crossing<'a> {
        Crossing {
            host: &self.host,
            guest: &self.guest,
            clock,
        }
    }
}
