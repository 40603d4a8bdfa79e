//! Adds arrows from lost time to its causes.

use vmnoise_events::{ActivityKind, VcpuId};
use vmnoise_explain::TraceNoise;

use super::lane::Flows;
use super::tracks::{Group, Row, Tracks};
use super::{Timeline, TrackSide};

impl Timeline {
    /// Adds arrows from lost time on this CPU to all activities that overlap this time on this CPU.
    pub(super) fn link_cpu(
        &mut self,
        side: TrackSide,
        cpu: u32,
        span_ns: (u64, u64),
        flows: &mut Flows,
    ) {
        let observed_by = self.observed_by(side, cpu);
        let kernel = match side {
            TrackSide::Guest if self.is_microvm(side) => Group::Cpu(TrackSide::Host, cpu),
            side => Group::Cpu(side, cpu),
        };
        let Tracks { packets, lanes, .. } = &mut self.tracks;
        let (kernel, observed_by) = (lanes.places(kernel), lanes.places(observed_by));
        for kind in ActivityKind::ALL {
            let places = if kind.is_interference() {
                &kernel
            } else {
                &observed_by
            };
            if let Some(place) = places[Row::Kind(kind).index()] {
                lanes.at(place).link(span_ns, packets, flows);
            }
        }
    }

    /// Adds arrows from lost time to the exits of this vCPU that overlap this time.
    pub(super) fn link_vcpu(
        &mut self,
        vcpu: Option<VcpuId>,
        span_ns: (u64, u64),
        flows: &mut Flows,
    ) {
        let Some(group) = vcpu.map(Group::Vcpu) else {
            return;
        };
        let packets = &mut self.tracks.packets;
        if let Some(exits) = self.tracks.lanes.get_mut(group, Row::Exits) {
            exits.link(span_ns, packets, flows);
        }
    }

    /// Adds arrows from an exit to the activities that took time during this exit.
    pub(super) fn link_noise(&mut self, side: TrackSide, noise: &[TraceNoise], flows: &mut Flows) {
        let Tracks { packets, lanes, .. } = &mut self.tracks;
        for noise in noise {
            let group = Group::Cpu(side, noise.cpu);
            let span_ns = (noise.start_mono_ns, noise.end_mono_ns);
            if let Some(lane) = lanes.get_mut(group, Row::Kind(noise.kind)) {
                lane.link(span_ns, packets, flows);
            }
        }
    }
}
