//! From looks at KVM's debugfs to the clocks of guests, and when they changed.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::{Vcpu, VcpuClock, VcpuId};

use crate::host::{GuestTsc, Host};

/// What debugfs said, somewhere between two instants of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct Look {
    before_mono_ns: u64,
    after_mono_ns: u64,
    /// With thread and number of their vCPUs.
    seen: Vec<(u32, u32, GuestTsc)>,
}

impl Look {
    pub(super) fn at(host: &Host) -> Look {
        let before_mono_ns = mono_ns();
        let seen = host.guest_tscs();
        Look {
            before_mono_ns,
            after_mono_ns: mono_ns(),
            seen,
        }
    }

    /// Threads take up one vCPU after the other.
    fn of(&self, vcpu: &Vcpu) -> Option<GuestTsc> {
        let is_it =
            |tid: u32, number: u32| tid == vcpu.tid && vcpu.number.is_none_or(|it| it == number);
        let mut seen = self.seen.iter();
        Some(seen.find(|(tid, number, _)| is_it(*tid, *number))?.2)
    }
}

/// The clocks as they were told last.
#[derive(Debug, Default)]
pub(super) struct Clocks(BTreeMap<VcpuId, Told>);

#[derive(Debug)]
struct Told {
    tsc: GuestTsc,
    /// It still held then, CLOCK_MONOTONIC in nanoseconds.
    seen_mono_ns: u64,
}

impl Clocks {
    /// What this look has to tell of the clock of a vCPU's guest.
    pub(super) fn look(&mut self, vcpu: &Vcpu, look: &Look) -> Option<VcpuClock> {
        let tsc = look.of(vcpu)?;
        let before = self.0.insert(
            vcpu.id,
            Told {
                tsc,
                seen_mono_ns: look.before_mono_ns,
            },
        );
        let before_until_mono_ns = match before {
            Some(before) if before.tsc == tsc => return None,
            Some(before) => before.seen_mono_ns,
            None => look.after_mono_ns,
        };
        Some(VcpuClock {
            vcpu: vcpu.id,
            before_until_mono_ns,
            from_mono_ns: look.after_mono_ns,
            offset_tsc: tsc.offset_tsc,
            ratio: tsc.ratio,
            ratio_frac_bits: tsc.ratio_frac_bits,
        })
    }
}

fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the clock counts from boot");
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("nanoseconds of a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vcpu(id: u32, tid: u32, number: Option<u32>) -> Vcpu {
        Vcpu {
            id: VcpuId(id),
            tid,
            vmm_pid: 9,
            number,
            vm: 0,
            vm_name: "web".to_owned(),
            sees_kvm: true,
        }
    }

    fn look(at_mono_ns: u64, seen: &[(u32, u32, i64)]) -> Look {
        let clock = |&(tid, number, offset_tsc)| {
            let tsc = GuestTsc {
                offset_tsc,
                ratio: 1,
                ratio_frac_bits: 0,
            };
            (tid, number, tsc)
        };
        Look {
            before_mono_ns: at_mono_ns,
            after_mono_ns: at_mono_ns + 5,
            seen: seen.iter().map(clock).collect(),
        }
    }

    /// Until when the clock before held, since when this one does, and its offset.
    fn told(clock: Option<VcpuClock>) -> Option<(u64, u64, i64)> {
        clock.map(|it| (it.before_until_mono_ns, it.from_mono_ns, it.offset_tsc))
    }

    #[test]
    fn a_change_lies_between_the_looks_that_saw_one_and_the_other() {
        let web = vcpu(0, 80, Some(3));
        let mut clocks = Clocks::default();
        let mut look = |at, offset| told(clocks.look(&web, &look(at, &[(80, 3, offset)])));
        assert_eq!(look(100, -7), Some((105, 105, -7)));
        assert_eq!(look(200, -7), None);
        assert_eq!(look(300, 9), Some((200, 305, 9)));
        assert_eq!(look(400, -7), Some((300, 405, -7)));
    }

    #[test]
    fn a_vcpu_is_found_by_its_thread_and_its_number() {
        let mut clocks = Clocks::default();
        let both = look(100, &[(80, 3, 1), (80, 4, 2), (81, 3, 5)]);
        let mut of = |vcpu: Vcpu| told(clocks.look(&vcpu, &both)).map(|(.., offset)| offset);
        assert_eq!(of(vcpu(0, 80, Some(4))), Some(2));
        assert_eq!(of(vcpu(1, 81, None)), Some(5));
        assert_eq!(of(vcpu(2, 82, Some(3))), None);
    }

    #[test]
    fn a_look_that_misses_a_vcpu_ends_no_clock() {
        let web = vcpu(0, 80, Some(3));
        let mut clocks = Clocks::default();
        assert!(clocks.look(&web, &look(100, &[(80, 3, 1)])).is_some());
        assert_eq!(told(clocks.look(&web, &look(200, &[]))), None);
        let changed = told(clocks.look(&web, &look(300, &[(80, 3, 2)])));
        assert_eq!(changed, Some((100, 305, 2)));
    }
}
