//! Gathers for the page what took time, be it a gap, a wake-up or an exit.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, Share, SourceId, Vcpu, VcpuId, Witnesses, Workload};
use vmnoise_explain::{ExitBudget, Interval, Part, by_source};
use vmnoise_report::{Bar, Gathering, Moment, Scenes};

use super::left::Left;
use crate::commands::replay::Recording;
use crate::run::View;

/// What there was, and whose.
#[derive(Default)]
pub struct Gatherer {
    pub gathering: Gathering,
    /// Those whose exits are gathered.
    pub vcpus: HashMap<VcpuId, Vcpu>,
    /// By whom the exits are known.
    pub witnesses: Witnesses,
    /// Gaps, where it is wanted what they left.
    pub left: Option<Left>,
}

impl View for Gatherer {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Anchor(anchor) => self.gathering.time(anchor.mono_ns),
            Event::Vcpu(vcpu) => {
                self.vcpus.insert(vcpu.id, vcpu.clone());
            }
            _ => {}
        }
    }

    /// By who had the time, whatever the phase and the CPU of a host.
    fn interval(&mut self, interval: &Interval) {
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

    /// Without the sleep that its guest asked for.
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

/// A moment's lane and begin, and what ran inside it.
pub type Scene = ((usize, u64), Vec<Bar>);

/// Reads a recording once more for what ran inside its longest moments.
pub fn scenes(
    path: &Path,
    workload: Workload,
    gathering: &Gathering,
    name: impl Fn(SourceId) -> String,
) -> Result<Vec<Scene>> {
    let longest = gathering.longest();
    let mut scenes = Scenes::new(workload, &longest, |spike| {
        gathering.lane_number(spike.lane)
    });
    Recording::open_file(path)?.each(|event| {
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
