//! Slices of one track. They are kept in the order of time, and do not overlap.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::events::Begin;
use super::packets::Packets;
use crate::error::ExportError;

/// Largest number of slices that wait for arrows (about 1 MiB).
const KEPT: usize = 1 << 14;
/// Largest number of arrows of one slice, and of slices that are searched for one interval. This is
/// about a screen full. In a damaged stream each gap may contain all others, and the number of
/// arrows would grow quadratically.
const ARROWS: usize = 256;
/// Number of slices after the last arrow that are searched one by one.
const LOOK_AHEAD: usize = 8;

/// Numbers of a slice's arrows. Nearly all slices have at most one arrow.
pub(super) type Flows = SmallVec<[u64; 2]>;

/// A slice that is not yet written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Interned id of the slice's name.
    pub(super) name: u64,
    pub(super) flows: Flows,
    /// Annotations of the slice: interned id of the name, and value.
    pub(super) notes: Vec<(u64, u64)>,
    /// Parts of the slice in the order of time: interned id of the name, and length in nanoseconds.
    pub(super) inside: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(super) struct Lane {
    track: u64,
    /// Interned id of the category of all slices on the track.
    category: u64,
    waiting: VecDeque<Slice>,
    /// Instant up to which the track is written, in nanoseconds. New slices are cut there.
    written_to_ns: u64,
    /// Index at or near the slice that got the last arrow. The search for the next arrow begins
    /// here, because events are explained in the order of time.
    linked: usize,
}

impl Lane {
    pub(super) fn new(track: u64, category: u64) -> Lane {
        Lane {
            track,
            category,
            waiting: VecDeque::new(),
            written_to_ns: 0,
            linked: 0,
        }
    }

    /// Adds a slice. Slices may come in any order, and are cut where they overlap others. Returns
    /// the slice's index among the waiting slices; `None` if nothing is left of the slice.
    pub(super) fn push(&mut self, mut slice: Slice) -> Option<usize> {
        let begun = |other: &Slice| other.start_ns <= slice.start_ns;
        let place = match self.waiting.back() {
            Some(last) if !begun(last) => self.waiting.partition_point(begun),
            _ => self.waiting.len(),
        };
        let before_ns = place
            .checked_sub(1)
            .map(|before| self.waiting[before].end_ns);
        let from_ns = before_ns.unwrap_or(0).max(self.written_to_ns);
        let next_ns = self.waiting.get(place).map(|next| next.start_ns);
        let to_ns = next_ns.unwrap_or(u64::MAX);
        let was_empty = slice.start_ns == slice.end_ns;
        if slice.start_ns < from_ns {
            // The parts of a slice with a later begin would be drawn at the wrong time.
            slice.inside.clear();
            slice.start_ns = from_ns;
        }
        slice.end_ns = slice.end_ns.min(to_ns);
        let fits = slice.start_ns < slice.end_ns || was_empty && slice.start_ns == slice.end_ns;
        fits.then(|| self.waiting.insert(place, slice))?;
        Some(place)
    }

    /// Sets the arrows of the waiting slice with this index.
    pub(super) fn set_flows(&mut self, place: usize, flows: Flows) {
        if let Some(slice) = self.waiting.get_mut(place) {
            slice.flows = flows;
        }
    }

    /// Adds a new arrow to each waiting slice that overlaps the time from `start_ns` to `end_ns`,
    /// up to [`ARROWS`].
    pub(super) fn link(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        packets: &mut Packets,
        flows: &mut Flows,
    ) {
        let first = self.first_after(start_ns);
        self.linked = first;
        let overlapping = self.waiting.iter_mut().skip(first).take(ARROWS);
        let overlapping = overlapping.take_while(|slice| slice.start_ns < end_ns);
        for slice in overlapping.filter(|slice| slice.flows.len() < ARROWS) {
            let flow = packets.flow();
            slice.flows.push(flow);
            flows.push(flow);
        }
    }

    /// Returns the index of the first waiting slice that ends after this instant. Returns the
    /// number of slices if there is none.
    fn first_after(&self, at_ns: u64) -> usize {
        let is_over = |slice: &Slice| slice.end_ns <= at_ns;
        let near = self.linked.min(self.waiting.len());
        let before = near.checked_sub(1).map(|before| &self.waiting[before]);
        if before.is_none_or(is_over) {
            let mut ahead = self.waiting.iter().skip(near).take(LOOK_AHEAD);
            if let Some(steps) = ahead.position(|slice| !is_over(slice)) {
                return near + steps;
            }
        }
        self.waiting.partition_point(is_over)
    }

    /// Writes the slices that end no later than `until_ns`, and the first slices if too many wait.
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
            self.linked = self.linked.saturating_sub(1);
            self.write_slice(slice, packets)?;
        }
        Ok(())
    }

    fn write_slice(&self, slice: Slice, packets: &mut Packets) -> Result<(), ExportError> {
        let track = self.track;
        let begin = Begin {
            category: self.category,
            name: slice.name,
            flows: &slice.flows,
            notes: &slice.notes,
        };
        packets.begin(track, slice.start_ns, &begin)?;
        let mut at_ns = slice.start_ns;
        for (name, ns) in slice.inside {
            let end_ns = at_ns.saturating_add(ns).min(slice.end_ns);
            if at_ns < end_ns {
                let begin = Begin {
                    name,
                    flows: &[],
                    notes: &[],
                    ..begin
                };
                packets.begin(track, at_ns, &begin)?;
                packets.end(track, end_ns)?;
            }
            at_ns = end_ns;
        }
        packets.end(track, slice.end_ns)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    fn slice(start_ns: u64, end_ns: u64) -> Slice {
        Slice {
            start_ns,
            end_ns,
            name: 1,
            flows: Flows::new(),
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
        assert!(lane.push(slice(10, 20)).is_some());
        assert!(lane.push(slice(30, 40)).is_some());
        assert!(lane.push(slice(15, 35)).is_some(), "between the two");
        assert!(lane.push(slice(12, 18)).is_none(), "no room is left");
        assert!(lane.push(slice(40, 40)).is_some(), "an instant");
        assert!(lane.push(slice(5, 10)).is_some(), "late, and room is there");
        assert_eq!(
            spans(&lane),
            [(5, 10), (10, 20), (20, 30), (30, 40), (40, 40)]
        );
    }

    #[test]
    fn what_lost_its_begin_shows_nothing_inside() {
        let mut lane = Lane::new(1, 1);
        lane.push(slice(10, 20));
        let whole = Slice {
            inside: vec![(1, 5), (2, 5)],
            ..slice(20, 30)
        };
        assert!(lane.push(whole.clone()).is_some());
        assert!(
            lane.push(Slice {
                start_ns: 25,
                end_ns: 40,
                ..whole
            })
            .is_some()
        );
        let inside: Vec<usize> = lane
            .waiting
            .iter()
            .map(|slice| slice.inside.len())
            .collect();
        assert_eq!(inside, [0, 2, 0]);
    }

    #[test]
    fn arrows_go_to_what_overlaps() {
        let folder = tempfile::tempdir().unwrap();
        let mut packets = Packets::create(&folder.path().join("trace")).unwrap();
        let mut lane = Lane::new(1, 1);
        for start_ns in [0, 10, 20, 30] {
            lane.push(slice(start_ns, start_ns + 5));
        }
        let mut flows = Flows::new();
        lane.link((5, 25), &mut packets, &mut flows);
        assert_eq!(flows[..], [1, 2]);
        let counts: Vec<usize> = lane.waiting.iter().map(|slice| slice.flows.len()).collect();
        assert_eq!(counts, [0, 1, 1, 0]);
        lane.write(12, &mut packets).unwrap();
        assert_eq!(spans(&lane), [(10, 15), (20, 25), (30, 35)]);
        assert!(lane.push(slice(2, 4)).is_none(), "what was written stays");
    }

    #[test]
    fn arrows_are_no_more_than_a_screen_shows() {
        let folder = tempfile::tempdir().unwrap();
        let mut packets = Packets::create(&folder.path().join("trace")).unwrap();
        let mut lane = Lane::new(1, 1);
        for start_ns in 0..2 * ARROWS as u64 {
            lane.push(slice(start_ns, start_ns + 1));
        }
        let mut flows = Flows::new();
        lane.link((0, u64::MAX), &mut packets, &mut flows);
        assert_eq!(flows.len(), ARROWS);
        for _ in 0..2 * ARROWS {
            lane.link((0, 1), &mut packets, &mut flows);
        }
        assert_eq!(lane.waiting[0].flows.len(), ARROWS);
    }

    #[test]
    fn arrows_find_their_slices_in_whatever_order_they_are_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let mut packets = Packets::create(&folder.path().join("trace")).unwrap();
        let mut lane = Lane::new(1, 1);
        for start_ns in (0..1_000).step_by(10) {
            lane.push(slice(start_ns, start_ns + 5));
        }
        const AT_NS: [u64; 11] = [0, 10, 20, 500, 510, 3, 990, 985, 100, 2_000, 0];
        let linked = AT_NS.map(|at_ns| {
            let mut flows = Flows::new();
            lane.link((at_ns, at_ns + 10), &mut packets, &mut flows);
            let slices = lane.waiting.iter();
            let shares = slices.filter(|slice| slice.flows.iter().any(|it| flows.contains(it)));
            shares.map(|slice| slice.start_ns).collect::<Vec<u64>>()
        });
        let overlapping = |at_ns: u64| {
            let starts = (0..1_000).step_by(10);
            starts.filter(move |start_ns| *start_ns < at_ns + 10 && start_ns + 5 > at_ns)
        };
        assert_eq!(
            linked,
            AT_NS.map(|at_ns| overlapping(at_ns).collect::<Vec<u64>>())
        );
    }
}
