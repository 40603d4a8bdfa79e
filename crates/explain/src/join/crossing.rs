//! Converts times between the host's CLOCK_MONOTONIC and a guest's, through the counters of both.

use super::clock_epochs::ClockEpochs;
use super::guest_clock::{GuestClock, Held, host_tsc};
use crate::clockmap::ClockMap;

/// Clocks that convert the times of one vCPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crossing<'a> {
    pub(super) host: &'a ClockEpochs,
    pub(super) guest: &'a ClockEpochs,
    pub(super) clock: &'a GuestClock,
}

/// Indices of the host's epoch and of the guest's clock that converted a time. The conversion is
/// linear between times with equal indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    epoch: usize,
    clock: usize,
}

/// Time that both recordings cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Overlap {
    pub(super) ns: u64,
    /// Number of the guest's clocks in force during the overlap.
    pub(super) clocks: u32,
}

impl Crossing<'_> {
    /// Returns the guest's counter at this time of the host's CLOCK_MONOTONIC, and the line of the
    /// conversion. Returns `None` also if the counter showed this reading twice.
    pub(super) fn guest_tsc(&self, host_mono_ns: u64) -> Option<(Line, u64)> {
        let (epoch, tsc) = self.host.tsc(host_mono_ns)?;
        let (clock, in_force) = self.clock.at(host_mono_ns)?;
        let guest_tsc = in_force.guest_tsc(tsc)?;
        let line = Line { epoch, clock };
        let is_known = self.shows_once(line, guest_tsc, guest_tsc);
        is_known.then_some((line, guest_tsc))
    }

    /// Returns the guest's CLOCK_MONOTONIC at this time of the host's, both in nanoseconds.
    pub(super) fn guest_mono_ns(&self, host_mono_ns: u64) -> Option<u64> {
        let (_, guest_tsc) = self.guest_tsc(host_mono_ns)?;
        self.guest.mono_ns(guest_tsc)
    }

    /// Returns the host's CLOCK_MONOTONIC in nanoseconds at this reading of the guest's counter,
    /// and the line of the conversion. Returns `None` also if the counter showed this reading twice.
    pub(super) fn host_mono_ns(&self, guest_tsc: u64) -> Option<(Line, u64)> {
        let (line, mono_ns) = self
            .lines()
            .find_map(|(line, held, map, (from_ns, until_ns))| {
                let mono_ns = map.mono_ns(host_tsc(&held.clock, guest_tsc)?);
                let holds = (from_ns..=until_ns).contains(&mono_ns);
                holds.then_some((line, mono_ns))
            })?;
        let is_known = self.shows_once(line, guest_tsc, guest_tsc);
        is_known.then_some((line, mono_ns))
    }

    /// Returns whether the guest's counter showed each reading between `first_tsc` and `last_tsc`
    /// only once, as far as both recordings show. Both readings must lie on `line`.
    pub(super) fn shows_once(&self, line: Line, first_tsc: u64, last_tsc: u64) -> bool {
        let mut others = self.lines().filter(|(other, ..)| *other != line);
        let is_twice = others.any(|(_, held, map, (from_ns, until_ns))| {
            let reading = |mono_ns| held.clock.guest_tsc(map.tsc(mono_ns));
            // The counter has no reading before the guest starts.
            let shown = reading(until_ns).map(|to_tsc| (reading(from_ns).unwrap_or(0), to_tsc));
            shown.is_some_and(|(from_tsc, to_tsc)| from_tsc <= last_tsc && first_tsc <= to_tsc)
        });
        !is_twice && !self.guest.shows_twice(first_tsc, last_tsc)
    }

    /// Returns the lines, each with its clocks and the time of the host's CLOCK_MONOTONIC for which
    /// it holds.
    fn lines(&self) -> impl Iterator<Item = (Line, &Held, &ClockMap, (u64, u64))> {
        self.clock.iter().flat_map(move |(clock, held)| {
            let epochs = self.host.iter();
            epochs.filter_map(move |(epoch, map, (first_ns, last_ns))| {
                let from_ns = held.from_mono_ns.max(first_ns);
                let until_ns = held.until_mono_ns.min(last_ns);
                let line = Line { epoch, clock };
                (from_ns <= until_ns).then_some((line, held, map, (from_ns, until_ns)))
            })
        })
    }

    /// Returns the overlap of the guest's recording with the host's. The guest's recording lies
    /// between these readings of its counter. The host's recording is complete until `until_ns`.
    pub(super) fn overlap(&self, (first_tsc, last_tsc): (u64, u64), until_ns: u64) -> Overlap {
        let mut overlap = Overlap::default();
        for (_, held) in self.clock.iter() {
            let of_clock = self
                .host
                .iter()
                .map(|(_, map, (epoch_from_ns, epoch_until_ns))| {
                    let (start_ns, end_ns) = extended(map, held, first_tsc, last_tsc);
                    let from_ns = start_ns.max(epoch_from_ns).max(held.from_mono_ns);
                    let ends = [epoch_until_ns, held.until_mono_ns, until_ns];
                    let to_ns = ends.into_iter().fold(end_ns, u64::min);
                    to_ns.saturating_sub(from_ns)
                });
            let ns = of_clock.fold(0, u64::saturating_add);
            overlap.ns = overlap.ns.saturating_add(ns);
            overlap.clocks += u32::from(ns > 0);
        }
        overlap
    }

    /// Returns the start and end of the guest's recording on the host's CLOCK_MONOTONIC, in
    /// nanoseconds. Extends the last known clock, even far beyond the host's recording.
    pub(super) fn placed(&self, (first_tsc, last_tsc): (u64, u64)) -> Option<(u64, u64)> {
        let (_, held) = self.clock.iter().next_back()?;
        let (_, map, _) = self.host.iter().next_back()?;
        Some(extended(map, held, first_tsc, last_tsc))
    }
}

/// Converts both readings of the guest's counter to the host's CLOCK_MONOTONIC, as if this epoch
/// and this clock had no end.
fn extended(map: &ClockMap, held: &Held, first_tsc: u64, last_tsc: u64) -> (u64, u64) {
    let place = |guest_tsc| {
        let is_before = i128::from(guest_tsc) < i128::from(held.clock.offset_tsc);
        let beyond = if is_before { 0 } else { u64::MAX };
        map.mono_ns(host_tsc(&held.clock, guest_tsc).unwrap_or(beyond))
    };
    (place(first_tsc), place(last_tsc))
}
