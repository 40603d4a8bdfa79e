//! Gathers for the page what took time, be it a gap, a wake-up or an exit.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, Share, SourceId, Vcpu, VcpuId, Workload};
use vmnoise_explain::{Budget, ExitBudget, Part, Wakeup, by_source};
use vmnoise_report::{Bar, Gathering, Moment, Scenes};

use crate::commands::replay::Recording;
use crate::run::View;

/// What there was, and whose.
#[derive(Default)]
pub struct Gatherer {
    pub gathering: Gathering,
    /// Those whose exits are gathered.
    pub vcpus: HashMap<VcpuId, Vcpu>,
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

    fn gap(&mut self, gap: &Budget) {
        self.gathering.see(&Moment {
            lane: gap.cpu,
            start_mono_ns: gap.start_mono_ns,
            dur_ns: gap.dur_ns,
            parts: &gap.parts,
        });
    }

    /// By who had the time, whatever the phase.
    fn wakeup(&mut self, wakeup: &Wakeup) {
        let parts = wakeup.parts.iter().map(|part| Part {
            share: part.share,
            source: part.source,
            host_cpu: None,
            ns: part.ns,
            count: 1,
        });
        let parts: Vec<Part> = parts.collect();
        self.gathering.see(&Moment {
            lane: wakeup.cpu,
            start_mono_ns: wakeup.expiry_mono_ns,
            dur_ns: wakeup.latency_ns,
            parts: &by_source(&parts),
        });
    }

    /// Without the sleep that its guest asked for.
    fn exit(&mut self, exit: &ExitBudget) {
        let asked = |part: &&Part| part.share != Share::Halted;
        let parts: Vec<Part> = exit.parts.iter().filter(asked).copied().collect();
        self.gathering.see(&Moment {
            lane: self.vcpus.get(&exit.vcpu).map_or(0, |vcpu| vcpu.tid),
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
