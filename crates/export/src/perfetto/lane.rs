//! The slices of one track: in the order of time, and never two at once.

use std::collections::VecDeque;

use super::packets::Packets;
use crate::error::ExportError;

/// Slices that wait for arrows at most (some 1 MiB).
const KEPT: usize = 1 << 14;

/// One slice until it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Its name, interned.
    pub(super) name: u64,
    pub(super) flows: Vec<u64>,
    /// Interned names with their values.
    pub(super) notes: Vec<(u64, u64)>,
    /// What it consists of, from its begin on: interned names and lengths.
    pub(super) inside: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(super) struct Lane {
    track: u64,
    /// Of all its slices, interned.
    category: u64,
    waiting: VecDeque<Slice>,
    /// Nothing before is written any more.
    written_to_ns: u64,
}

impl Lane {
    pub(super) fn new(track: u64, category: u64) -> Lane {
        Lane {
            track,
            category,
            waiting: VecDeque::new(),
            written_to_ns: 0,
        }
    }

    /// Takes a slice, in whatever order; where another one is already, it is cut. Returns
    /// whether anything is left of it.
    pub(super) fn push(&mut self, mut slice: Slice) -> bool {
        let begun = |other: &Slice| other.start_ns <= slice.start_ns;
        let place = self.waiting.partition_point(begun);
        let before_ns = place
            .checked_sub(1)
            .map(|before| self.waiting[before].end_ns);
        let from_ns = before_ns.unwrap_or(0).max(self.written_to_ns);
        let next_ns = self.waiting.get(place).map(|next| next.start_ns);
        let to_ns = next_ns.unwrap_or(u64::MAX);
        let was_empty = slice.start_ns == slice.end_ns;
        slice.start_ns = slice.start_ns.max(from_ns);
        slice.end_ns = slice.end_ns.min(to_ns);
        let fits = slice.start_ns < slice.end_ns || was_empty && slice.start_ns == slice.end_ns;
        if fits {
            self.waiting.insert(place, slice);
        }
        fits
    }

    /// Gives each slice that waits and overlaps this time a flow of its own.
    pub(super) fn link(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        packets: &mut Packets,
        flows: &mut Vec<u64>,
    ) {
        let first = self
            .waiting
            .partition_point(|slice| slice.end_ns <= start_ns);
        let overlapping = self.waiting.iter_mut().skip(first);
        for slice in overlapping.take_while(|slice| slice.start_ns < end_ns) {
            let flow = packets.flow();
            slice.flows.push(flow);
            flows.push(flow);
        }
    }

    /// Writes what ended by this instant, and what there is no room for.
    pub(super) fn write(
        &mut self,
        until_ns: u64,
        packets: &mut Packets,
    ) -> Result<(), ExportError> {
        while let Some(slice) = self.waiting.front()
            && (slice.end_ns <= until_ns || self.waiting.len() > KEPT)
            && let Some(slice) = self.waiting.pop_front()
        {
            self.written_to_ns = slice.end_ns;
            self.write_slice(slice, packets)?;
        }
        Ok(())
    }

    fn write_slice(&self, slice: Slice, packets: &mut Packets) -> Result<(), ExportError> {
        let track = self.track;
        let names = (self.category, slice.name);
        packets.begin(track, slice.start_ns, names, slice.flows, &slice.notes)?;
        let mut at_ns = slice.start_ns;
        for (name, ns) in slice.inside {
            let end_ns = at_ns.saturating_add(ns).min(slice.end_ns);
            if at_ns < end_ns {
                packets.begin(track, at_ns, (self.category, name), Vec::new(), &[])?;
                packets.end(track, end_ns)?;
            }
            at_ns = end_ns;
        }
        packets.end(track, slice.end_ns)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;

    fn slice(start_ns: u64, end_ns: u64) -> Slice {
        Slice {
            start_ns,
            end_ns,
            name: 1,
            flows: Vec::new(),
            notes: Vec::new(),
            inside: Vec::new(),
        }
    }

    fn spans(lane: &Lane) -> Vec<(u64, u64)> {
        let waiting = lane.waiting.iter();
        waiting
            .map(|slice| (slice.start_ns, slice.end_ns))
            .collect()
    }

    #[test]
    fn no_two_slices_are_at_once_whatever_comes() {
        let mut lane = Lane::new(1, 1);
        assert!(lane.push(slice(10, 20)));
        assert!(lane.push(slice(30, 40)));
        assert!(lane.push(slice(15, 35)), "between the two");
        assert!(!lane.push(slice(12, 18)), "no room is left");
        assert!(lane.push(slice(40, 40)), "an instant");
        assert!(lane.push(slice(5, 10)), "late, and room is there");
        assert_eq!(
            spans(&lane),
            [(5, 10), (10, 20), (20, 30), (30, 40), (40, 40)]
        );
    }

    #[test]
    fn arrows_go_to_what_overlaps() {
        let folder = tempfile::tempdir().unwrap();
        let mut packets = Packets::create(&folder.path().join("trace")).unwrap();
        let mut lane = Lane::new(1, 1);
        for start_ns in [0, 10, 20, 30] {
            lane.push(slice(start_ns, start_ns + 5));
        }
        let mut flows = Vec::new();
        lane.link((5, 25), &mut packets, &mut flows);
        assert_eq!(flows, [1, 2]);
        let counts: Vec<usize> = lane.waiting.iter().map(|slice| slice.flows.len()).collect();
        assert_eq!(counts, [0, 1, 1, 0]);
        lane.write(12, &mut packets).unwrap();
        assert_eq!(spans(&lane), [(10, 15), (20, 25), (30, 35)]);
        assert!(!lane.push(slice(2, 4)), "what was written stays");
    }
}
