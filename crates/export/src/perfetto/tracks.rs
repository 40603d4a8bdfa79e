//! Tracks of a trace, and their names.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use vmnoise_events::{ActivityKind, VcpuId};

use super::TrackSide;
use super::events::Begin;
use super::lane::Lane;
use super::packets::{NameOf, Packets};
use crate::error::ExportError;

/// Group of tracks that are shown together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Group {
    /// A CPU, as the machine's kernel numbers it.
    Cpu(TrackSide, u32),
    /// The vCPU of vmnoise's own microVM that ran on this CPU.
    ObservedCpu(TrackSide, u32),
    /// A vCPU of the host.
    Vcpu(VcpuId),
}

/// Kind of track in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Row {
    Gaps,
    Wakeups,
    Exits,
    Kind(ActivityKind),
    Noise,
    Steal,
}

impl Group {
    fn name(self) -> String {
        match self {
            Group::Cpu(TrackSide::Only, cpu) => format!("CPU {cpu}"),
            Group::Cpu(TrackSide::Guest, cpu) => format!("guest CPU {cpu}"),
            Group::Cpu(TrackSide::Host, cpu) => format!("host CPU {cpu}"),
            Group::ObservedCpu(_, cpu) => format!("vCPU on CPU {cpu}"),
            Group::Vcpu(VcpuId(id)) => format!("vCPU #{id}"),
        }
    }

    /// Returns the recording whose events the group shows.
    fn side(self) -> TrackSide {
        match self {
            Group::Cpu(side, _) | Group::ObservedCpu(side, _) => side,
            Group::Vcpu(_) => TrackSide::Host,
        }
    }
}

impl Row {
    /// Number of kinds of tracks.
    const COUNT: usize = 5 + ActivityKind::ALL.len();

    pub(super) const fn index(self) -> usize {
        match self {
            Row::Gaps => 0,
            Row::Wakeups => 1,
            Row::Exits => 2,
            Row::Noise => 3,
            Row::Steal => 4,
            Row::Kind(kind) => 5 + kind as usize,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Row::Gaps => "gaps",
            Row::Wakeups => "wake-ups",
            Row::Exits | Row::Kind(ActivityKind::Exit) => "exits",
            Row::Kind(ActivityKind::Vmm) => "VMM",
            Row::Kind(ActivityKind::Throttled) => "throttled",
            Row::Kind(ActivityKind::Thread) => "tasks",
            Row::Kind(ActivityKind::Blocked) => "asleep",
            Row::Kind(ActivityKind::Stopped) => "stopped",
            Row::Kind(ActivityKind::Softirq) => "soft interrupts",
            Row::Kind(ActivityKind::Irq) => "interrupts",
            Row::Kind(ActivityKind::Nmi) => "NMIs",
            Row::Noise => "noise in a second",
            Row::Steal => "steal in a second",
        }
    }
}

/// Index of each track of a group, by [`Row::index`]; `None` for tracks without slices.
pub(super) type Places = [Option<u32>; Row::COUNT];

/// Tracks with slices, in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    places: HashMap<Group, Places>,
    lanes: Vec<(TrackSide, Lane)>,
}

impl Lanes {
    pub(super) fn places(&self, group: Group) -> Places {
        self.places.get(&group).copied().unwrap_or_default()
    }

    pub(super) fn at(&mut self, place: u32) -> &mut Lane {
        &mut self.lanes[place as usize].1
    }

    pub(super) fn get_mut(&mut self, group: Group, row: Row) -> Option<&mut Lane> {
        let place = self.places.get(&group)?[row.index()]?;
        Some(self.at(place))
    }
}

/// All tracks of a trace.
#[derive(Debug)]
pub(super) struct Tracks {
    pub(super) packets: Packets,
    pub(super) lanes: Lanes,
    groups: HashMap<Group, u64>,
    /// Number of each counter track, and the instant until which the track is written, in
    /// nanoseconds.
    counters: BTreeMap<(Group, Row), (u64, u64)>,
}

impl Tracks {
    pub(super) fn create(path: &Path) -> Result<Tracks, ExportError> {
        Ok(Tracks {
            packets: Packets::create(path)?,
            lanes: Lanes::default(),
            groups: HashMap::new(),
            counters: BTreeMap::new(),
        })
    }

    /// Returns the number of a group's track. If the group is new, creates the track with this
    /// name.
    pub(super) fn name(
        &mut self,
        group: Group,
        name: impl FnOnce() -> String,
    ) -> Result<u64, ExportError> {
        if let Some(track) = self.groups.get(&group) {
            return Ok(*track);
        }
        let track = self.packets.track(name(), None, false)?;
        self.groups.insert(group, track);
        Ok(track)
    }

    pub(super) fn lane(&mut self, group: Group, row: Row) -> Result<&mut Lane, ExportError> {
        let place = match self.lanes.places(group)[row.index()] {
            Some(place) => place,
            None => {
                let parent = self.name(group, || group.name())?;
                let name = row.name();
                let track = self.packets.track(name.to_owned(), Some(parent), false)?;
                let category = self.packets.name(NameOf::Category, name)?;
                let Lanes { places, lanes } = &mut self.lanes;
                let place = lanes.len() as u32;
                places.entry(group).or_default()[row.index()] = Some(place);
                lanes.push((group.side(), Lane::new(track, category)));
                place
            }
        };
        Ok(self.lanes.at(place))
    }

    /// Writes the slices of this recording that end no later than `until_ns`.
    pub(super) fn write(&mut self, side: TrackSide, until_ns: u64) -> Result<(), ExportError> {
        let lanes = self.lanes.lanes.iter_mut();
        for (_, lane) in lanes.filter(|(of, _)| *of == side || side == TrackSide::Only) {
            lane.write(until_ns, &mut self.packets)?;
        }
        Ok(())
    }

    /// Writes all waiting slices of a track. Call this if no later event can have an arrow to one
    /// of these slices.
    pub(super) fn write_lane(&mut self, group: Group, row: Row) -> Result<(), ExportError> {
        match self.lanes.get_mut(group, row) {
            Some(lane) => lane.write(u64::MAX, &mut self.packets),
            None => Ok(()),
        }
    }

    /// Writes a counter value that is valid between two instants.
    pub(super) fn count(
        &mut self,
        group: Group,
        row: Row,
        (start_ns, end_ns): (u64, u64),
        value: i64,
    ) -> Result<(), ExportError> {
        let track = match self.counters.get(&(group, row)) {
            Some((track, _)) => *track,
            None => {
                let parent = self.name(group, || group.name())?;
                self.packets
                    .track(row.name().to_owned(), Some(parent), true)?
            }
        };
        self.counters.insert((group, row), (track, end_ns));
        self.packets.count(track, start_ns, value)
    }

    /// Adds a mark at an instant, on a separate track with this name.
    pub(super) fn mark(&mut self, name: &str, mono_ns: u64) -> Result<(), ExportError> {
        let track = self.packets.track(name.to_owned(), None, false)?;
        let begin = Begin {
            category: self.packets.name(NameOf::Category, name)?,
            name: self.packets.name(NameOf::Slice, name)?,
            flows: &[],
            notes: &[],
        };
        self.packets.begin(track, mono_ns, &begin)?;
        self.packets.end(track, mono_ns)
    }

    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        for (_, lane) in &mut self.lanes.lanes {
            lane.write(u64::MAX, &mut self.packets)?;
        }
        for (track, end_ns) in self.counters.values() {
            self.packets.count(*track, *end_ns, 0)?;
        }
        self.packets.finish()
    }
}
