//! Groups of events that a tracer observes, and what the results lack without the other groups.

use std::collections::BTreeMap;

use libbpf_rs::Link;
use vmnoise_events::{ProbeStatus, Witnesses};

use crate::log::quietly;
use crate::object::Programs;
use crate::probes::{Group, Kernel};

/// The requested groups, with the information which of them are loaded and attached.
#[derive(Debug)]
pub(crate) struct Watched {
    groups: Vec<Group>,
    absent: BTreeMap<Group, String>,
    limits: BTreeMap<Group, String>,
    kvm_pvm: bool,
    hides_vectors: bool,
}

impl Watched {
    /// Creates the list. `absent` has the groups that are not loaded, and why.
    pub(crate) fn new(
        groups: &[Group],
        absent: BTreeMap<Group, String>,
        kernel: &Kernel,
    ) -> Watched {
        let limits = groups.iter().map(|group| (*group, group.limit(kernel)));
        Watched {
            groups: groups.to_vec(),
            absent,
            limits: limits.collect(),
            kvm_pvm: kernel.kvm_pvm,
            hides_vectors: !kernel.unhooked_vectors.is_empty(),
        }
    }

    /// Attaches the groups one by one. A group is attached completely, or not at all.
    pub(crate) fn attach(&mut self, programs: &Programs) -> Vec<Link> {
        let mut links: BTreeMap<Group, Vec<Link>> = BTreeMap::new();
        for (probe, program) in programs.at_tracepoints() {
            if self.absent.contains_key(&probe.group) {
                continue;
            }
            match quietly(|| program.attach()).0 {
                Ok(link) => links.entry(probe.group).or_default().push(link),
                Err(error) => {
                    let why = format!("tracepoint {} refuses: {error:#}", probe.tracepoint);
                    self.absent.insert(probe.group, why);
                    links.remove(&probe.group);
                }
            }
        }
        links.into_values().flatten().collect()
    }

    /// Returns why groups are absent.
    pub(crate) fn absent(&self) -> &BTreeMap<Group, String> {
        &self.absent
    }

    /// Returns which events are observed. The result does not cover steal time.
    pub(crate) fn witnesses(&self) -> Witnesses {
        let has = |group| self.groups.contains(&group) && !self.absent.contains_key(&group);
        Witnesses {
            irq: has(Group::Irq),
            softirq: has(Group::Softirq),
            nmi: has(Group::Nmi),
            sched: has(Group::Sched),
            kvm_run: has(Group::KvmRun),
            kvm_exit: has(Group::KvmExit) && !self.kvm_pvm,
            timer: has(Group::Timer),
            hides_vectors: self.hides_vectors,
            ..Witnesses::default()
        }
    }

    /// Returns the status of each group.
    pub(crate) fn probe_statuses(&self) -> impl Iterator<Item = (Group, ProbeStatus)> {
        self.groups.iter().map(|&group| {
            let absent = self.absent.get(&group).map(String::as_str);
            let limit = self.limits.get(&group).cloned().unwrap_or_default();
            (group, group.probe_status(absent, limit))
        })
    }
}
