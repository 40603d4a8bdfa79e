//! The contents of a recording of exits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use vmnoise_events::{Event, FinishReason, LossKind, RunFacts, VcpuTotals};
use vmnoise_explain::ExitExplainer;
use vmnoise_recording::{RecordingEnd, RecordingReader};

/// Contents of a recording of exits: the recorded VMs, the counts and the losses.
pub struct RecordedExits {
    pub facts: RunFacts,
    /// Process ids of the recorded vCPUs.
    pub processes: BTreeSet<u32>,
    pub names: BTreeSet<String>,
    pub exits: u64,
    pub interrupts: u64,
    pub totals: Vec<VcpuTotals>,
    pub lost: BTreeMap<LossKind, u64>,
    pub is_cut_short: bool,
    pub summary: vmnoise_explain::ExitsRun,
}

impl RecordedExits {
    pub fn of(path: &Path) -> RecordedExits {
        let mut reader = RecordingReader::new(File::open(path).unwrap()).unwrap();
        let facts = reader.facts().clone();
        let mut explainer = ExitExplainer::new(&facts);
        let (mut processes, mut names) = (BTreeSet::new(), BTreeSet::new());
        let (mut exits, mut interrupts) = (0, 0);
        let (mut totals, mut lost) = (Vec::new(), BTreeMap::new());
        let mut is_cut_short = false;
        let ending = loop {
            match reader.next_event().unwrap() {
                ControlFlow::Break(ending) => break ending,
                ControlFlow::Continue(event) => {
                    match &event {
                        Event::Vcpu(vcpu) => {
                            processes.insert(vcpu.vmm_pid);
                            names.insert(vcpu.vm_name.to_string());
                        }
                        Event::Exit(_) => exits += 1,
                        Event::Activity(it) if it.kind == vmnoise_events::ActivityKind::Irq => {
                            interrupts += 1;
                        }
                        Event::VcpuTotals(it) => totals.push(it.clone()),
                        Event::Finish(finish) => {
                            is_cut_short = finish.reason != FinishReason::Duration;
                        }
                        Event::Loss(loss) => _ = lost.insert(loss.kind, loss.count),
                        _ => {}
                    }
                    explainer.push(&event, &mut |_| {});
                }
            }
        };
        assert_eq!(ending, RecordingEnd::Complete);
        let summary = explainer.finish();
        assert_eq!(summary.late_events, 0, "events are in order");
        RecordedExits {
            facts,
            processes,
            names,
            exits,
            interrupts,
            totals,
            lost,
            is_cut_short,
            summary,
        }
    }

    /// Returns whether the limit of a probe status names this file.
    pub fn names_file(&self, name: &str) -> bool {
        let mut statuses = self.facts.probe_statuses.iter();
        statuses.any(|it| it.limit.contains(name))
    }
}
