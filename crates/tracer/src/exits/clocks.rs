//! Finds the clocks of guests, and the instants at which they changed. The sources are readings of
//! KVM's state, and writes of TSC offsets that KVM reports.

use std::collections::{BTreeMap, BTreeSet};

use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::{Vcpu, VcpuClock, VcpuId};

use super::wire::WireTscWrite;
use crate::{KnownVms, VmSearch};
use vmnoise_host::GuestTsc;

/// A reading of KVM's clocks. It was made at an unknown instant between two known instants
/// (CLOCK_MONOTONIC).
#[derive(Debug)]
pub struct ClockLook {
    before_mono_ns: u64,
    after_mono_ns: u64,
    /// Clock of each vCPU, with the vCPU's thread id and number.
    seen: Vec<(u32, u32, GuestTsc)>,
}

impl ClockLook {
    /// Reads the clocks of the guests of these VMs. This may take some time if debugfs is used.
    pub fn at(known: &KnownVms) -> ClockLook {
        ClockLook::over(known.search(), &known.processes())
    }

    /// Reads the clocks of the guests of these processes by `search`.
    pub(super) fn over(search: &VmSearch, processes: &[u32]) -> ClockLook {
        let before_mono_ns = mono_ns();
        let seen = search.guest_tscs(processes);
        ClockLook {
            before_mono_ns,
            after_mono_ns: mono_ns(),
            seen,
        }
    }

    /// Returns the end of the reading, CLOCK_MONOTONIC in ns.
    pub fn at_mono_ns(&self) -> u64 {
        self.after_mono_ns
    }

    /// Returns the clock of each vCPU, with the vCPU's thread id and number.
    pub fn seen(&self) -> &[(u32, u32, GuestTsc)] {
        &self.seen
    }

    /// Returns the clock of this vCPU. Compares thread id and number, because a thread may run
    /// several vCPUs one after the other.
    fn of(&self, vcpu: &Vcpu) -> Option<GuestTsc> {
        let is_it =
            |tid: u32, number: u32| tid == vcpu.tid && vcpu.number.is_none_or(|it| it == number);
        let mut seen = self.seen.iter();
        Some(seen.find(|(tid, number, _)| is_it(*tid, *number))?.2)
    }
}

/// The clocks that were last reported, and the writes since the last reading.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    reported: BTreeMap<VcpuId, Reported>,
    /// Writes up to the last reading, by process id and number of the vCPU.
    writes: BTreeMap<(u32, u32), Writes>,
    /// Writes after the last reading.
    later: Vec<WireTscWrite>,
}

#[derive(Debug)]
struct Reported {
    tsc: GuestTsc,
    /// First instant at which the guest is known to have this clock. `seen_mono_ns` is the last
    /// such instant. Both are CLOCK_MONOTONIC in ns.
    from_mono_ns: u64,
    seen_mono_ns: u64,
}

/// A sequence of writes of one vCPU's offset, as `kvm:kvm_write_tsc_offset` reports them. This
/// event fires before the offset is written, and never while the guest runs.
#[derive(Debug, Clone, Copy)]
struct Writes {
    first_mono_ns: u64,
    last_mono_ns: u64,
    /// Offset before the first write.
    previous_tsc: i64,
    /// Offset after the last write.
    next_tsc: i64,
    /// Whether a write between the first and the last write changed the offset.
    moved: bool,
}

impl Writes {
    fn of(write: &WireTscWrite) -> Writes {
        Writes {
            first_mono_ns: write.mono_ns,
            last_mono_ns: write.mono_ns,
            previous_tsc: write.previous_tsc.cast_signed(),
            next_tsc: write.next_tsc.cast_signed(),
            moved: false,
        }
    }

    fn and(self, later: Writes) -> Writes {
        Writes {
            last_mono_ns: later.last_mono_ns,
            next_tsc: later.next_tsc,
            moved: self.moved || later.next_tsc != self.next_tsc,
            ..self
        }
    }
}

impl Clocks {
    /// Returns the clocks of these vCPUs that are new or have changed in this reading. `writes` are
    /// all writes that were reported since the last call. Writes after this reading are kept for
    /// the next call.
    pub(super) fn look(
        &mut self,
        vcpus: &[Vcpu],
        look: &ClockLook,
        writes: &[WireTscWrite],
    ) -> Vec<VcpuClock> {
        self.later.extend_from_slice(writes);
        let is_due = |write: &mut WireTscWrite| write.mono_ns <= look.after_mono_ns;
        for write in self.later.extract_if(.., is_due) {
            let later = Writes::of(&write);
            self.writes
                .entry((write.tgid, write.vcpu))
                .and_modify(|earlier| *earlier = earlier.and(later))
                .or_insert(later);
        }
        let seen: Vec<(&Vcpu, GuestTsc)> = vcpus
            .iter()
            .filter_map(|vcpu| Some((vcpu, look.of(vcpu)?)))
            .collect();
        let mut vcpus_of_number = BTreeMap::new();
        for key in seen.iter().filter_map(|(vcpu, _)| key(vcpu)) {
            *vcpus_of_number.entry(key).or_insert(0) += 1;
        }
        let clocks = seen.iter().filter_map(|&(vcpu, tsc)| {
            // If a process has several VMs, several of its vCPUs may have the same number.
            let key = key(vcpu).filter(|key| vcpus_of_number[key] == 1);
            self.clock(vcpu.id, tsc, key, look)
        });
        clocks.collect()
    }

    /// Forgets the vCPUs that are not in `vcpus`.
    pub(super) fn keep(&mut self, vcpus: &[Vcpu]) {
        let vcpus: BTreeSet<VcpuId> = vcpus.iter().map(|vcpu| vcpu.id).collect();
        self.reported.retain(|vcpu, _| vcpus.contains(vcpu));
    }

    /// Returns the clock of one vCPU's guest; `None` if it is neither new nor changed.
    fn clock(
        &mut self,
        vcpu: VcpuId,
        tsc: GuestTsc,
        key: Option<(u32, u32)>,
        look: &ClockLook,
    ) -> Option<VcpuClock> {
        let witness = key.and_then(|key| self.witness(key, tsc, look));
        let news = match (self.reported.get_mut(&vcpu), witness) {
            (Some(before), _) => {
                let news = before.until_next(tsc, witness, look);
                before.seen_mono_ns = look.before_mono_ns;
                news?
            }
            (None, Some(writes)) => (0, writes.last_mono_ns),
            (None, None) => (look.after_mono_ns, look.after_mono_ns),
        };
        let (before_until_mono_ns, from_mono_ns) = news;
        let reported = Reported {
            tsc,
            from_mono_ns,
            seen_mono_ns: look.before_mono_ns,
        };
        self.reported.insert(vcpu, reported);
        Some(VcpuClock {
            vcpu,
            before_until_mono_ns,
            from_mono_ns,
            offset_tsc: tsc.offset_tsc,
            ratio: tsc.ratio,
            ratio_frac_bits: tsc.ratio_frac_bits,
        })
    }

    /// Returns the writes that explain the offset in this reading, and removes them. Under kvm_pvm,
    /// some writes report offsets that never take effect. If a write may be later than the reading,
    /// returns `None` and keeps all writes.
    fn witness(&mut self, key: (u32, u32), tsc: GuestTsc, look: &ClockLook) -> Option<Writes> {
        let writes = *self.writes.get(&key)?;
        let came_to_be = writes.next_tsc == tsc.offset_tsc;
        let before_end = match came_to_be {
            true => look.after_mono_ns,
            false => look.before_mono_ns,
        };
        if writes.last_mono_ns > before_end {
            return None;
        }
        self.writes.remove(&key).filter(|_| came_to_be)
    }
}

impl Reported {
    /// Returns two instants: until when the reported clock was valid at least, and from when on the
    /// new clock is valid. `None` if the clock has not changed. Instants are CLOCK_MONOTONIC in ns.
    fn until_next(
        &self,
        tsc: GuestTsc,
        writes: Option<Writes>,
        look: &ClockLook,
    ) -> Option<(u64, u64)> {
        // No event reports when the ratio was written.
        let same_scale = self.tsc.with_offset(0) == tsc.with_offset(0);
        let writes = writes.filter(|_| same_scale);
        let moved = writes.is_some_and(|writes| writes.moved);
        if self.tsc == tsc && !moved {
            return None;
        }
        let (until_ns, from_ns) = match writes {
            None => (self.seen_mono_ns, look.after_mono_ns),
            Some(writes) if writes.previous_tsc == self.tsc.offset_tsc => {
                (writes.first_mono_ns, writes.last_mono_ns)
            }
            Some(writes) => (self.seen_mono_ns, writes.last_mono_ns),
        };
        Some((
            until_ns.max(self.from_mono_ns),
            from_ns.max(self.from_mono_ns),
        ))
    }
}

fn key(vcpu: &Vcpu) -> Option<(u32, u32)> {
    Some((vcpu.vmm_pid, vcpu.number?))
}

fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the clock counts from boot");
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("nanoseconds of a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of a clock: the last time at which the earlier clock was valid, the first time at
    /// which the new clock is valid, and the new offset.
    type News = Vec<(u64, u64, i64)>;

    fn vcpu(id: u32, tid: u32, number: Option<u32>) -> Vcpu {
        Vcpu {
            id: VcpuId(id),
            tid,
            vmm_pid: 9,
            number,
            vm: 0,
            vm_name: "web".into(),
            identity: Default::default(),
            sees_kvm: true,
        }
    }

    /// Returns a reading of debugfs that took 5 ns. `seen` has thread id, number and offset of each
    /// vCPU.
    fn look(at_mono_ns: u64, seen: &[(u32, u32, i64)]) -> ClockLook {
        let clock = |&(tid, number, offset_tsc)| {
            let tsc = GuestTsc {
                offset_tsc,
                ratio: 1,
                ratio_frac_bits: 0,
            };
            (tid, number, tsc)
        };
        ClockLook {
            before_mono_ns: at_mono_ns,
            after_mono_ns: at_mono_ns + 5,
            seen: seen.iter().map(clock).collect(),
        }
    }

    /// Returns KVM's report of a write at `mono_ns` that replaced the offset `previous` by `next`.
    fn write(mono_ns: u64, previous: i64, next: i64) -> WireTscWrite {
        WireTscWrite {
            mono_ns,
            previous_tsc: previous.cast_unsigned(),
            next_tsc: next.cast_unsigned(),
            tgid: 9,
            vcpu: 3,
        }
    }

    fn news(clocks: Vec<VcpuClock>) -> News {
        let reported = |it: VcpuClock| (it.before_until_mono_ns, it.from_mono_ns, it.offset_tsc);
        clocks.into_iter().map(reported).collect()
    }

    /// Clocks of one vCPU, which is read repeatedly.
    #[derive(Default)]
    struct Web(Clocks);

    impl Web {
        fn looked_at(offset: i64) -> Web {
            let mut web = Web::default();
            assert_eq!(web.look(100, offset, &[]), [(105, 105, offset)]);
            web
        }

        fn look(&mut self, at: u64, offset: i64, writes: &[WireTscWrite]) -> News {
            let vcpus = [vcpu(0, 80, Some(3))];
            news(self.0.look(&vcpus, &look(at, &[(80, 3, offset)]), writes))
        }
    }

    #[test]
    fn a_change_lies_between_the_looks_that_saw_one_and_the_other() {
        let mut web = Web::looked_at(-7);
        assert_eq!(web.look(200, -7, &[]), []);
        assert_eq!(web.look(300, 9, &[]), [(200, 305, 9)]);
        assert_eq!(web.look(400, -7, &[]), [(305, 405, -7)]);
    }

    #[test]
    fn a_write_that_came_to_be_dates_its_change() {
        let mut web = Web::looked_at(-7);
        assert_eq!(web.look(200, 9, &[write(150, -7, 9)]), [(150, 150, 9)]);
        assert_eq!(web.look(300, 9, &[]), []);
        // The reading overlaps a write. In the first case it has the offset after the write, in the
        // second case the offset before the write.
        assert_eq!(web.look(400, 5, &[write(402, 9, 5)]), [(402, 402, 5)]);
        assert_eq!(web.look(500, 5, &[write(502, 5, 6)]), []);
        assert_eq!(web.look(600, 6, &[]), [(502, 502, 6)]);
    }

    #[test]
    fn several_writes_leave_open_what_held_between_them() {
        let mut web = Web::looked_at(0);
        let away_and_back = [write(120, 0, 8), write(130, 8, 0)];
        assert_eq!(web.look(200, 0, &away_and_back), [(120, 130, 0)]);
        assert_eq!(web.look(300, 0, &[write(210, 0, 0), write(220, 0, 0)]), []);
        // It is unknown which writes were lost before the first reported write.
        let lost_one = [write(320, 5, 6), write(330, 6, 7)];
        assert_eq!(web.look(400, 7, &lost_one), [(300, 330, 7)]);
    }

    #[test]
    fn a_write_that_did_not_come_to_be_reports_nothing() {
        let mut web = Web::looked_at(0);
        assert_eq!(web.look(200, 0, &[write(150, 0, -99)]), []);
        assert_eq!(web.look(300, 4, &[write(250, 0, -99)]), [(200, 305, 4)]);
    }

    #[test]
    fn before_a_write_that_made_the_first_clock_nothing_is_known() {
        let mut web = Web::default();
        let made = [write(50, 0, -99), write(60, -99, 0)];
        assert_eq!(web.look(100, 0, &made), [(0, 60, 0)]);
        assert_eq!(web.look(200, 0, &[]), []);
    }

    #[test]
    fn what_is_written_after_a_look_is_for_the_next_one() {
        let mut web = Web::looked_at(0);
        // The writes are received before the reading is evaluated.
        let both = [write(150, 0, 4), write(230, 4, 5)];
        assert_eq!(web.look(200, 4, &both), [(150, 150, 4)]);
        assert_eq!(web.look(300, 5, &[]), [(230, 230, 5)]);
    }

    #[test]
    fn no_write_reports_a_scale() {
        let mut web = Web::looked_at(0);
        let mut scaled = look(200, &[(80, 3, 4)]);
        scaled.seen[0].2.ratio_frac_bits = 1;
        let clocks = web
            .0
            .look(&[vcpu(0, 80, Some(3))], &scaled, &[write(150, 0, 4)]);
        assert_eq!(news(clocks), [(105, 205, 4)]);
    }

    #[test]
    fn clocks_follow_each_other_whatever_a_look_missed() {
        let mut web = Web::looked_at(0);
        // The reading began before both writes, and has the offset after the first write.
        let both = [write(201, 0, 4), write(203, 4, 5)];
        assert_eq!(web.look(200, 4, &both), [(105, 205, 4)]);
        assert_eq!(web.look(300, 5, &[]), [(205, 205, 5)]);
    }

    #[test]
    fn vcpus_are_told_apart_by_thread_and_number() {
        let both = look(100, &[(80, 3, 1), (80, 4, 2), (81, 3, 5)]);
        let of = |vcpu| news(Clocks::default().look(&[vcpu], &both, &[]));
        assert_eq!(of(vcpu(0, 80, Some(4))), [(105, 105, 2)]);
        assert_eq!(of(vcpu(1, 81, None)), [(105, 105, 5)]);
        assert_eq!(of(vcpu(2, 82, Some(3))), []);
        // If one process has two VMs, it is unknown to which vCPU a write belongs.
        let twins = [vcpu(0, 80, Some(3)), vcpu(1, 81, Some(3))];
        let clocks = Clocks::default().look(&twins, &both, &[write(50, 0, 1)]);
        assert_eq!(news(clocks), [(105, 105, 1), (105, 105, 5)]);
    }

    #[test]
    fn a_look_that_misses_a_vcpu_ends_no_clock() {
        let mut web = Web::looked_at(1);
        let clocks = web.0.look(&[vcpu(0, 80, Some(3))], &look(200, &[]), &[]);
        assert_eq!(news(clocks), []);
        assert_eq!(web.look(300, 2, &[]), [(105, 305, 2)]);
    }
}
