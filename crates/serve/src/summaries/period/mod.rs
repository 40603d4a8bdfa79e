//! A period: an hour of UTC, or what of it this process is there for. Its sums are the books at its end without
//! those at its begin, so the sums of all periods are the books. Pure: no clock, no BPF.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vmnoise_events::Name;
use vmnoise_export::HostHour;

use super::hour;
use super::sums::Sums;
use crate::ledger::VmTotals;

const HOUR_S: i64 = 3_600;
const HOUR_NS: u64 = 3_600_000_000_000;
/// A look a second finds that an hour is over, and a clock is slewed by 500 ppm at most (adjtimex(2)), which is
/// 1.8 s an hour.
const SLACK_S: i64 = 2;
const SLACK_NS: u64 = 4_000_000_000;
/// VMs that have ended in a period and keep their names in it; later ones are told of together.
const ENDED: usize = 1_024;

/// Now, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instant {
    pub(super) utc: Timestamp,
    pub(super) mono_ns: u64,
}

/// What this process came to by an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Itself {
    pub(super) missed_events: u64,
    /// At this instant.
    pub(super) vcpus_without_room: u32,
    pub(super) self_cpu_ns: u64,
    pub(super) probe_ns: u64,
}

/// The one that is under way.
#[derive(Debug)]
pub(super) struct Period {
    begin: Instant,
    itself: Itself,
    /// What the VMs that there are had come to by its begin, as far as they were there.
    earlier: BTreeMap<Name, Sums>,
    /// What those came to in it that have ended; `None` is all for which no name was left.
    ended: BTreeMap<Option<Name>, Sums>,
}

impl Period {
    pub(super) fn begin<'a>(
        begin: Instant,
        itself: Itself,
        present: impl Iterator<Item = &'a VmTotals>,
    ) -> Period {
        Period {
            begin,
            itself,
            earlier: present.map(|vm| (vm.label.clone(), Sums::of(vm))).collect(),
            ended: BTreeMap::new(),
        }
    }

    /// Whether the clock shows another hour.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        hour_of(now) != hour_of(self.begin.utc)
    }

    /// A VM has ended, with these as its last sums.
    pub(super) fn vm_ended(&mut self, vm: &VmTotals) {
        let sums = self.of(vm);
        // Another one of its name has nothing to do with it.
        self.earlier.remove(&vm.label);
        let name = Some(vm.label.clone());
        let has_name = self.ended.len() < ENDED || self.ended.contains_key(&name);
        let name = name.filter(|_| has_name);
        self.ended.entry(name).or_insert_with(Sums::none).add(&sums);
    }

    pub(super) fn end<'a>(
        mut self,
        end: Instant,
        itself: Itself,
        present: impl Iterator<Item = &'a VmTotals>,
    ) -> HostHour {
        let mut vms = Vec::new();
        for vm in present {
            let mut sums = self.of(vm);
            if let Some(of_the_same_name) = self.ended.remove(&Some(vm.label.clone())) {
                sums.add(&of_the_same_name);
            }
            let name = vm.label.as_str().to_owned();
            vms.push(hour::of_vm(Some(name), vm.vcpus(), &sums));
        }
        for (name, sums) in &self.ended {
            let name = name.as_ref().map(|name| name.as_str().to_owned());
            vms.push(hour::of_vm(name, 0, sums));
        }
        let before = &self.itself;
        HostHour {
            begin: self.begin.utc,
            end: end.utc,
            period_ns: self.length_ns(end),
            is_whole: self.is_whole(end),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            missed_events: itself.missed_events.saturating_sub(before.missed_events),
            vcpus_without_room: itself.vcpus_without_room.into(),
            self_cpu_ns: itself.self_cpu_ns.saturating_sub(before.self_cpu_ns),
            probe_ns: itself.probe_ns.saturating_sub(before.probe_ns),
            vms,
        }
    }

    /// What this VM came to since the begin.
    fn of(&self, vm: &VmTotals) -> Sums {
        let sums = Sums::of(vm);
        match self.earlier.get(&vm.label) {
            Some(earlier) => sums.since(earlier),
            None => sums,
        }
    }

    fn length_ns(&self, end: Instant) -> u64 {
        end.mono_ns.saturating_sub(self.begin.mono_ns)
    }

    /// Whether it began with its hour and ended with it, and no clock was set meanwhile.
    fn is_whole(&self, end: Instant) -> bool {
        let after = |time: Timestamp| time.as_second().rem_euclid(HOUR_S);
        after(self.begin.utc) < SLACK_S
            && after(end.utc) < SLACK_S
            && hour_of(end.utc) == hour_of(self.begin.utc) + 1
            && self.length_ns(end).abs_diff(HOUR_NS) < SLACK_NS
    }
}

/// Full hours since 1970.
fn hour_of(time: Timestamp) -> i64 {
    time.as_second().div_euclid(HOUR_S)
}

#[cfg(test)]
mod tests;
