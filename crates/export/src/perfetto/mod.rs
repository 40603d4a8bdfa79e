//! Writes a timeline for Perfetto. The timeline shows the activity of each CPU, the lost time, and
//! arrows from lost time to its causes.

mod arrows;
mod events;
mod labels;
mod lane;
mod packets;
mod proto;
mod tracks;

use std::path::Path;

use vmnoise_events::{Activity, Event, MeasuringCommand, RunFacts, Share, SourceId, VcpuId};
use vmnoise_explain::{Detail, Interval, Part, PeriodLine, Phase, TracedExit};

use crate::error::ExportError;
use crate::wall_clock::WallClock;
use labels::{Labels, asked, label, vcpu_name};
use lane::{Flows, Slice};
use packets::NameOf;
use tracks::{Group, Row, Tracks};

/// Time for which a slice waits for arrows from events that are reported later, in nanoseconds.
const HOLD_NS: u64 = 10_000_000_000;
/// Name of the track and the slice that mark the zero point of times in other outputs.
const ORIGIN: &str = "0 s of text, JSON and page";
const UNDEFINED: &str = "undefined";

/// Recording to which an event belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackSide {
    /// The only recording, if no guest is joined with its host.
    Only,
    /// The guest's recording of a join.
    Guest,
    /// The host's recording of a join.
    Host,
}

/// Facts about one of the recordings.
#[derive(Debug)]
struct Scene {
    observed_by: MeasuringCommand,
    /// Interned ids of the recording's source names, by source id.
    sources: Vec<u64>,
}

/// A trace of one run, or of a guest and its host. All times are on one CLOCK_MONOTONIC. The caller
/// must convert other times.
#[derive(Debug)]
pub struct Timeline {
    tracks: Tracks,
    /// Facts about the recordings: first the only recording, or that of the guest; then that of the
    /// host.
    scenes: [Scene; 2],
    wall_clock: WallClock,
    has_clock: bool,
    /// Description of the exit filter for track names; empty if all exits were requested.
    asked: String,
    /// Names of gaps, by the largest part of a gap. `part_labels` names the parts of gaps, and
    /// `phase_labels` the parts of each phase of a wake-up.
    gap_labels: Labels,
    part_labels: Labels,
    phase_labels: [Labels; Phase::ALL.len() + 1],
    /// Number of slices that were dropped because other slices on their track covered their time.
    crowded_out: u64,
}

impl Timeline {
    /// Creates a trace in this file. Times are those of the machine with these facts. For a join,
    /// `guest` has the facts of the guest.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(
        path: &Path,
        facts: &RunFacts,
        guest: Option<&RunFacts>,
    ) -> Result<Timeline, ExportError> {
        let scene = |facts: &RunFacts| Scene {
            observed_by: facts.workload,
            sources: Vec::new(),
        };
        Ok(Timeline {
            tracks: Tracks::create(path)?,
            scenes: [scene(guest.unwrap_or(facts)), scene(facts)],
            wall_clock: WallClock::new(facts),
            has_clock: false,
            asked: asked(facts),
            gap_labels: Labels::new(NameOf::Slice),
            part_labels: Labels::new(NameOf::Annotation),
            phase_labels: std::array::from_fn(|_| Labels::new(NameOf::Annotation)),
            crowded_out: 0,
        })
    }

    /// Adds an event of a recording. The caller must have converted the event to the trace's clock.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn see(&mut self, side: TrackSide, event: &Event) -> Result<(), ExportError> {
        match event {
            Event::Source(source) => {
                let name = self.tracks.packets.name(NameOf::Slice, &source.name)?;
                let sources = &mut self.scene_mut(side).sources;
                if sources.len() == source.id.0 as usize {
                    sources.push(name);
                }
            }
            Event::Activity(activity) => {
                self.clock(activity.start_mono_ns)?;
                self.activity(side, activity)?;
            }
            Event::Anchor(anchor) if side != TrackSide::Guest => self.clock(anchor.mono_ns)?,
            Event::Watermark(mono_ns) => {
                self.clock(*mono_ns)?;
                self.tracks.write(side, mono_ns.saturating_sub(HOLD_NS))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a gap or a wake-up with its begin and end. For a join, `vcpu` is the host's vCPU that
    /// runs the guest's CPU.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn interval<'n>(
        &mut self,
        side: TrackSide,
        interval: &Interval,
        span_ns: (u64, u64),
        vcpu: Option<VcpuId>,
        name: &dyn Fn(SourceId) -> &'n str,
    ) -> Result<(), ExportError> {
        let sources = self.scene(side).sources.len();
        let packets = &mut self.tracks.packets;
        let mut called = |labels: &mut Labels, part: &Part, phase: &str| {
            let text = || phase.to_owned() + &label(part.share, part.source.map(name));
            labels.number(packets, (part.share, part.source), sources, text)
        };
        let mut inside = Vec::new();
        let (notes, name, row) = match &interval.detail {
            Detail::Gap(_) => {
                let parts = interval.parts.iter();
                let notes =
                    parts.map(|part| Ok((called(&mut self.part_labels, part, "")?, part.ns)));
                let notes = notes.collect::<Result<_, ExportError>>()?;
                let name = match interval.parts.first() {
                    Some(largest) => called(&mut self.gap_labels, largest, "")?,
                    None => packets.name(NameOf::Slice, "")?,
                };
                (notes, name, Row::Gaps)
            }
            Detail::Wakeup(wakeup) => {
                let notes = interval.parts.iter().map(|part| {
                    let place = part.phase.map_or(Phase::ALL.len(), |phase| phase as usize);
                    let phase = format!("{}: ", part.phase.map_or("?", Phase::name));
                    let called = called(&mut self.phase_labels[place], part, &phase)?;
                    Ok((called, part.ns))
                });
                let notes = notes.collect::<Result<_, ExportError>>()?;
                // After a phase of unknown length, the begins of further phases are unknown.
                let known = Phase::ALL.map(|phase| Some((phase, wakeup.phase_ns(phase)?)));
                for (phase, ns) in known.into_iter().map_while(|phase| phase) {
                    inside.push((packets.name(NameOf::Slice, phase.name())?, ns));
                }
                (notes, packets.name(NameOf::Slice, "wake-up")?, Row::Wakeups)
            }
        };
        let group = self.observed_by(side, interval.cpu);
        let slice = Slice {
            inside,
            ..slice(span_ns, name, notes)
        };
        if let Some(place) = self.push(group, row, slice)? {
            let mut flows = Flows::new();
            self.link_cpu(side, interval.cpu, span_ns, &mut flows);
            self.link_vcpu(vcpu, span_ns, &mut flows);
            self.tracks.lane(group, row)?.set_flows(place, flows);
        }
        self.tracks.write_lane(group, row)
    }

    /// Adds an exit of a vCPU.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn exit(&mut self, side: TrackSide, reported: &TracedExit) -> Result<(), ExportError> {
        let (vcpu, exit) = (&reported.exit.vcpu, &reported.exit.exit);
        let packets = &mut self.tracks.packets;
        let notes = reported.exit.parts.iter().map(|part| {
            let text = label(part.share, part.source.as_deref());
            Ok((packets.name(NameOf::Annotation, &text)?, part.ns))
        });
        let notes = notes.collect::<Result<_, ExportError>>()?;
        // An exit that only KVM handled is not divided into parts.
        let is_divided = reported
            .pieces
            .iter()
            .any(|piece| piece.share != Share::Kvm);
        let pieces = reported.pieces.iter().filter(|_| is_divided).map(|piece| {
            let text = label(piece.share, piece.name.as_deref());
            Ok((packets.name(NameOf::Slice, &text)?, piece.dur_ns()))
        });
        let inside = pieces.collect::<Result<_, ExportError>>()?;
        let name = packets.name(NameOf::Slice, &exit.reason.name())?;
        let group = Group::Vcpu(vcpu.id);
        let asked = &self.asked;
        self.tracks.name(group, || vcpu_name(vcpu) + asked)?;
        let span_ns = (exit.start_mono_ns, exit.end_mono_ns);
        let slice = Slice {
            inside,
            ..slice(span_ns, name, notes)
        };
        if let Some(place) = self.push(group, Row::Exits, slice)? {
            let mut flows = Flows::new();
            self.link_noise(side, &reported.noise, &mut flows);
            self.tracks.lane(group, Row::Exits)?.set_flows(place, flows);
        }
        Ok(())
    }

    /// Adds the sums of each CPU for the time between two instants.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn period(
        &mut self,
        side: TrackSide,
        lines: &[PeriodLine],
        span_ns: (u64, u64),
    ) -> Result<(), ExportError> {
        // Runs of periodic tasks measure no gaps.
        let has_gaps = self.scenes[0].observed_by != MeasuringCommand::Timerlat;
        let length_ns = span_ns.1.saturating_sub(span_ns.0);
        for line in lines.iter().filter(|_| has_gaps) {
            let group = self.observed_by(side, line.cpu);
            let counters = [
                (Row::Noise, Some(line.noise_ns)),
                (Row::Steal, line.shares[Share::Steal]),
            ];
            for (row, ns) in counters {
                let a_second = |ns: u64| u128::from(ns) * 1_000_000_000 / u128::from(length_ns);
                let rate = ns.filter(|_| length_ns > 0).map(a_second);
                if let Some(rate) = rate.and_then(|rate| i64::try_from(rate).ok()) {
                    self.tracks.count(group, row, span_ns, rate)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a mark at the zero point of times in text, JSON and page. The instant is on the trace's
    /// clock.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn origin(&mut self, mono_ns: u64) -> Result<(), ExportError> {
        self.clock(mono_ns)?;
        self.tracks.mark(ORIGIN, mono_ns)
    }

    /// Ends the trace. Returns the number of slices that were dropped because other slices covered
    /// their time. Only damaged streams cause dropped slices.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<u64, ExportError> {
        self.tracks.finish()?;
        Ok(self.crowded_out)
    }

    fn clock(&mut self, mono_ns: u64) -> Result<(), ExportError> {
        if self.has_clock {
            return Ok(());
        }
        self.has_clock = true;
        let real_us = self.wall_clock.started_us();
        let real_us = real_us.and_then(|us| u64::try_from(us).ok());
        let real_ns = real_us.map(|us| us.saturating_mul(1_000));
        self.tracks.packets.clock(mono_ns, real_ns)
    }

    fn activity(&mut self, side: TrackSide, activity: &Activity) -> Result<(), ExportError> {
        let kind = activity.kind;
        let is_interference = kind.is_interference();
        // The host's recording contains the activity on the CPU of a microVM.
        if side == TrackSide::Guest && self.is_microvm(side) && is_interference {
            return Ok(());
        }
        let group = match is_interference {
            true => Group::Cpu(side, activity.cpu),
            false => self.observed_by(side, activity.cpu),
        };
        let sources = &self.scene(side).sources;
        let name = match sources.get(activity.source.0 as usize) {
            Some(name) => *name,
            None => self.tracks.packets.name(NameOf::Slice, UNDEFINED)?,
        };
        let span_ns = (activity.start_mono_ns, activity.end_mono_ns);
        let slice = slice(span_ns, name, Vec::new());
        self.push(group, Row::Kind(kind), slice)?;
        Ok(())
    }

    /// Adds a slice to a track. Returns the slice's index on the track; `None` if the slice was
    /// dropped. An arrow must not point to a dropped slice.
    fn push(&mut self, group: Group, row: Row, slice: Slice) -> Result<Option<usize>, ExportError> {
        let place = match slice.start_ns <= slice.end_ns {
            true => self.tracks.lane(group, row)?.push(slice),
            false => None,
        };
        self.crowded_out += u64::from(place.is_none());
        Ok(place)
    }

    /// Returns the group of tracks that shows the gaps of this CPU. For a microVM this is the group
    /// of its vCPU, not that of the host's CPU.
    fn observed_by(&self, side: TrackSide, cpu: u32) -> Group {
        match self.is_microvm(side) {
            true => Group::ObservedCpu(side, cpu),
            false => Group::Cpu(side, cpu),
        }
    }

    fn is_microvm(&self, side: TrackSide) -> bool {
        side != TrackSide::Host && self.scenes[0].observed_by == MeasuringCommand::Microvm
    }

    fn scene(&self, side: TrackSide) -> &Scene {
        &self.scenes[usize::from(side == TrackSide::Host)]
    }

    fn scene_mut(&mut self, side: TrackSide) -> &mut Scene {
        &mut self.scenes[usize::from(side == TrackSide::Host)]
    }
}

fn slice((start_ns, end_ns): (u64, u64), name: u64, notes: Vec<(u64, u64)>) -> Slice {
    Slice {
        start_ns,
        end_ns,
        name,
        flows: Flows::new(),
        notes,
        inside: Vec::new(),
    }
}
