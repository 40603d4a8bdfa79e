//! Collects gaps, wake-ups and exits for the page.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, MeasuringCommand, Share, SourceId, Vcpu, VcpuId, Witnesses};
use vmnoise_explain::{ExitBudget, Interval, Part, by_source};
use vmnoise_report::{Bar, Gathering, Moment, Scenes};
use vmnoise_views::News;

use super::left::Left;
use crate::commands::replay::ReplayedRecording;

/// Moments of a run, and the vCPUs that they belong to.
#[derive(Default)]
pub struct Gatherer {
    pub gathering: Gathering,
    /// vCPUs whose exits are collected.
    pub vcpus: HashMap<VcpuId, Vcpu>,
    /// Probes of the run.
    pub witnesses: Witnesses,
    /// Gaps for the curve of the time left, if the page has one.
    pub left: Option<Left>,
}

impl Gatherer {
    /// Takes an event before it is explained.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Anchor(anchor) => self.gathering.time(anchor.mono_ns),
            Event::Vcpu(vcpu) => {
                self.vcpus.insert(vcpu.id, vcpu.clone());
            }
            _ => {}
        }
    }

    /// Adds an explained gap, wake-up or exit.
    pub fn see(&mut self, news: News<'_>) {
        match news {
            News::Interval(interval) => self.interval(interval),
            News::Exit(exit) => self.exit(exit),
            _ => {}
        }
    }

    /// Adds an interval. Sums its parts by culprit, over all phases and all CPUs of the host.
    pub fn interval(&mut self, interval: &Interval) {
        if let Some(left) = &mut self.left {
            left.see(interval);
        }
        let is_whole = |part: &Part| part.phase.is_none() && part.host_cpu.is_none();
        let together: Vec<Part>;
        let parts = match interval.parts.iter().all(is_whole) {
            true => &interval.parts,
            false => {
                let of_any = interval.parts.iter().map(|part| Part {
                    phase: None,
                    ..*part
                });
                together = by_source(&of_any.collect::<Vec<Part>>());
                &together
            }
        };
        self.gathering.see(&Moment {
            lane: interval.cpu,
            start_mono_ns: interval.start_mono_ns,
            dur_ns: interval.dur_ns,
            parts,
        });
    }

    /// Adds an exit, without the guest's own halts.
    fn exit(&mut self, exit: &ExitBudget) {
        let Some(vcpu) = self.vcpus.get(&exit.vcpu) else {
            return;
        };
        let mut parts = exit.known_parts(vcpu, &self.witnesses);
        parts.retain(|part| part.share != Share::Halted);
        self.gathering.see(&Moment {
            lane: exit.vcpu.0,
            start_mono_ns: exit.exit.start_mono_ns,
            dur_ns: parts.iter().map(|part| part.ns).sum(),
            parts: &parts,
        });
    }
}

/// Lane and start of a moment, and a bar for each activity during the moment.
pub type MomentScene = ((usize, u64), Vec<Bar>);

/// Reads a recording again, and returns the activities during its longest moments.
pub fn scenes(
    path: &Path,
    workload: MeasuringCommand,
    gathering: &Gathering,
    name: impl Fn(SourceId) -> String,
) -> Result<Vec<MomentScene>> {
    let longest = gathering.longest();
    let mut scenes = Scenes::new(workload, &longest, |spike| {
        gathering.lane_number(spike.lane)
    });
    ReplayedRecording::open_file(path)?.each(|event| {
        if let Event::Activity(activity) = event {
            scenes.see(activity);
        }
        Ok(())
    })?;
    let places = longest
        .iter()
        .map(|spike| (spike.lane, spike.start_mono_ns));
    Ok(places.zip(scenes.finish(name)).collect())
}
