//! Which groups of events `exits` has as witnesses, and what is lost without the others.

use std::collections::BTreeMap;

use libbpf_rs::{Link, Object};
use vmnoise_events::{Rung, Witnesses};

use super::load::Plan;
use crate::error::TraceError;
use crate::log::quietly;
use crate::probes::{Group, Kernel, Probe};

/// The groups, as far as they are loaded and attached.
#[derive(Debug)]
pub(super) struct Watched {
    plan: Plan,
    absent: BTreeMap<Group, String>,
    limits: BTreeMap<Group, String>,
}

impl Watched {
    /// Those that are loaded.
    pub(super) fn new(plan: Plan, absent: BTreeMap<Group, String>, kernel: &Kernel<'_>) -> Watched {
        let limits = Plan::GROUPS.map(|group| (group, group.limit(kernel)));
        Watched {
            plan,
            absent,
            limits: limits.into(),
        }
    }

    /// Attaches them group by group: whole, or not at all.
    pub(super) fn attach(&mut self, object: &Object) -> Result<Vec<Link>, TraceError> {
        let mut links: BTreeMap<Option<Group>, Vec<Link>> = BTreeMap::new();
        for program in object.progs_mut().filter(|program| program.autoload()) {
            let section = program.section().to_string_lossy();
            let group = Probe::from_section(&section).map(|probe| probe.group);
            if group.is_some_and(|group| self.absent.contains_key(&group)) {
                continue;
            }
            match (quietly(|| program.attach()).0, group) {
                (Ok(link), group) => links.entry(group).or_default().push(link),
                (Err(error), Some(group)) => {
                    self.absent
                        .insert(group, format!("{section} refuses: {error:#}"));
                    links.remove(&Some(group));
                }
                (Err(error), None) => {
                    return Err(TraceError::NothingAttached(format!("{section}: {error:#}")));
                }
            }
        }
        match self.plan.lacks(&self.absent) {
            Some((_, why)) => Err(TraceError::NothingAttached(why.clone())),
            None => Ok(links.into_values().flatten().collect()),
        }
    }

    pub(super) fn witnesses(&self) -> Witnesses {
        let has = |group| !self.absent.contains_key(&group);
        Witnesses {
            irq: has(Group::Irq),
            softirq: has(Group::Softirq),
            nmi: has(Group::Nmi),
            sched: has(Group::Sched),
            kvm_run: has(Group::KvmRun),
            kvm_exit: has(Group::KvmExit) && !self.plan.kvm_run_only,
            ..Witnesses::default()
        }
    }

    /// Of the groups that tell what the host does: exits themselves have rungs of their own.
    pub(super) fn rungs(&self) -> Vec<Rung> {
        let of_host = Plan::GROUPS
            .into_iter()
            .take_while(|&group| group != Group::KvmRun);
        of_host
            .map(|group| {
                let absent = self.absent.get(&group).map(String::as_str);
                let limit = self.limits.get(&group).cloned().unwrap_or_default();
                group.rung(absent, limit)
            })
            .collect()
    }
}
