//! Helpers that build streams of vCPUs. A scene is one exit, with all events of its vCPU and its
//! host meanwhile. The split of a scene is counted one nanosecond at a time, with a method that
//! vmnoise does not use.

use std::cmp::Reverse;
use std::collections::BTreeMap;

pub use vmnoise_events::fixtures::by_hand::{CPUID, HLT, INTR, IO, TID, vcpu, vcpu_facts as facts};
use vmnoise_events::*;
use vmnoise_explain::{ExitBudget, ExitExplainer, ExitsRun, TracedExit};

/// One exit, and the events during the exit.
#[derive(Debug, Clone)]
pub struct ExitScene {
    pub vcpu: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub code: u64,
    pub exit_cpu: u32,
    pub intervals: Vec<VcpuInterval>,
    pub activities: Vec<Activity>,
    /// Names of the sources, by id.
    pub names: Vec<String>,
}

/// Owner of a nanosecond: a share, and the id of a source.
pub type SceneOwner = (Share, Option<u32>);

impl ExitScene {
    /// Returns an exit of vCPU 0 on CPU 1 that nothing disturbs.
    pub fn new(code: u64, start_ns: u64, end_ns: u64) -> ExitScene {
        ExitScene {
            vcpu: 0,
            start_ns,
            end_ns,
            code,
            exit_cpu: 1,
            intervals: Vec::new(),
            activities: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Adds an activity of the host on this CPU.
    pub fn host(
        mut self,
        cpu: u32,
        kind: ActivityKind,
        name: &str,
        from: u64,
        to: u64,
    ) -> ExitScene {
        let source = self.source(name);
        self.activities.push(Activity {
            cpu,
            kind,
            start_mono_ns: from,
            end_mono_ns: to,
            source,
            steal_ns: 0,
        });
        self
    }

    /// Adds an interval of the vCPU's thread on CPU 1, where the thread then continues.
    pub fn kept(self, kind: VcpuIntervalKind, from: u64, to: u64) -> ExitScene {
        self.moved(kind, from, to, 1, 1)
    }

    /// Adds an interval of the vCPU's thread on `cpu`. The thread then continues on `to_cpu`.
    pub fn moved(
        mut self,
        kind: VcpuIntervalKind,
        from: u64,
        to: u64,
        cpu: u32,
        to_cpu: u32,
    ) -> ExitScene {
        self.intervals.push(VcpuInterval {
            vcpu: VcpuId(self.vcpu),
            kind,
            start_mono_ns: from,
            end_mono_ns: to,
            cpu,
            to_cpu,
            source: None,
        });
        self
    }

    /// Sets the waker that ended the last interval.
    pub fn woken_by(mut self, name: &str) -> ExitScene {
        let source = self.source(name);
        let last = self.intervals.last_mut().expect("something kept it");
        last.source = Some(source);
        self
    }

    fn source(&mut self, name: &str) -> SourceId {
        let known = self.names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        });
        SourceId(place as u32)
    }

    /// Returns the time of each owner in the exit, counted one nanosecond at a time.
    pub fn painted(&self) -> BTreeMap<SceneOwner, u64> {
        let mut owned = BTreeMap::new();
        for at in self.start_ns..self.end_ns {
            *owned.entry(self.owner(at)).or_default() += 1;
        }
        owned
    }

    /// Returns the owner of this nanosecond of the exit.
    pub fn owner(&self, at: u64) -> SceneOwner {
        let is_on = |start: u64, end: u64| start <= at && at < end;
        let kept = |kind| {
            self.intervals
                .iter()
                .find(|it| it.kind == kind && is_on(it.start_mono_ns, it.end_mono_ns))
        };
        let waiting = kept(VcpuIntervalKind::Waiting);
        let blocked = kept(VcpuIntervalKind::Blocked);
        let halted = kept(VcpuIntervalKind::Halted).is_some();
        let off = waiting.or(blocked);
        let sleeps_for_its_guest = waiting.is_none() && blocked.is_some() && halted;
        let cpu = off.map_or_else(|| self.cpu_at(at), |off| off.cpu);
        let host = self
            .activities
            .iter()
            .filter(|it| it.cpu == cpu && is_on(it.start_mono_ns, it.end_mono_ns))
            .filter(|it| match it.kind {
                ActivityKind::Nmi | ActivityKind::Irq | ActivityKind::Softirq => {
                    !sleeps_for_its_guest
                }
                ActivityKind::Thread => waiting.is_some() && !self.is_own(it.source),
                ActivityKind::Throttled => waiting.is_some(),
                _ => false,
            })
            .max_by_key(|it| {
                (
                    it.kind,
                    it.start_mono_ns,
                    Reverse(it.end_mono_ns),
                    it.source,
                )
            });
        if let Some(host) = host {
            let share = match host.kind {
                ActivityKind::Nmi => Share::HostNmi,
                ActivityKind::Irq => Share::HostIrq,
                ActivityKind::Softirq => Share::HostSoftirq,
                ActivityKind::Thread => Share::Preempted,
                _ => Share::Throttled,
            };
            return (share, Some(host.source.0));
        }
        match (waiting, blocked) {
            (Some(_), _) => (Share::Preempted, None),
            (None, Some(blocked)) if !halted => (Share::Blocked, blocked.source.map(|id| id.0)),
            _ if halted => (Share::Halted, None),
            _ if kept(VcpuIntervalKind::Vmm).is_some() => (Share::Vmm, None),
            _ => (Share::Kvm, None),
        }
    }

    /// Returns the CPU on which the thread would run at this time.
    pub fn cpu_at(&self, at: u64) -> u32 {
        let over = self.intervals.iter().filter(|it| it.end_mono_ns <= at);
        let off = |it: &&VcpuInterval| {
            matches!(
                it.kind,
                VcpuIntervalKind::Waiting | VcpuIntervalKind::Blocked
            )
        };
        let last = over.filter(off).max_by_key(|it| it.end_mono_ns);
        last.map_or(self.exit_cpu, |it| it.to_cpu)
    }

    fn is_own(&self, source: SourceId) -> bool {
        self.names[source.0 as usize].ends_with(&format!(":{}", TID + self.vcpu))
    }

    /// Returns the exit, with the split that the kernel would count.
    pub fn exit(&self) -> Exit {
        let owned = self.painted();
        let left_run = |it: &VcpuInterval| it.kind == VcpuIntervalKind::Vmm;
        Exit {
            start_mono_ns: self.start_ns,
            end_mono_ns: self.end_ns,
            reason: ExitReason {
                isa: Isa::Svm,
                code: self.code,
            },
            exit_cpu: self.exit_cpu,
            entry_cpu: self.cpu_at(self.end_ns),
            heavy: self.intervals.iter().any(left_run),
            split: ShareMap::only(Share::OF_EXITS, |share| {
                let of_share = owned.iter().filter(|((of, _), _)| *of == share);
                of_share.map(|(_, ns)| ns).sum()
            }),
        }
    }

    /// Returns the stream of this exit alone.
    pub fn events(&self) -> Vec<Event> {
        events_of(std::slice::from_ref(self), &[])
    }

    /// Returns the parts that vmnoise finds, with the names of their sources.
    pub fn parts(&self) -> Vec<(Share, Option<&str>, u64)> {
        let budget = self.budget();
        let named = budget.parts.iter().map(|part| {
            let name = part.source.map(|id| self.names[id.0 as usize].as_str());
            (part.share, name, part.ns)
        });
        named.collect()
    }

    /// Returns the only budget that vmnoise finds.
    pub fn budget(&self) -> ExitBudget {
        let (mut budgets, _) = explain(&facts(), &self.events());
        assert_eq!(budgets.len(), 1);
        budgets.remove(0)
    }
}

/// Returns the exit in the thesis' Figures 8 and 9: the timer fires, and a thread runs before the
/// vCPU continues.
pub fn interrupted() -> ExitScene {
    let qemu = format!("qemu-system-x86:{TID}");
    ExitScene::new(INTR, 100_000, 132_638)
        .host(1, ActivityKind::Irq, "local_timer:236", 101_491, 114_687)
        .host(1, ActivityKind::Softirq, "TIMER:1", 115_000, 116_000)
        .kept(VcpuIntervalKind::Waiting, 119_000, 127_582)
        .host(1, ActivityKind::Thread, "rcuc/0:20", 119_000, 127_582)
        .host(1, ActivityKind::Irq, "irq_work:246", 120_000, 120_411)
        .host(1, ActivityKind::Thread, &qemu, 50_000, 119_000)
}

/// Returns the stream of these scenes on one host. Each scene has its own vCPU, and all scenes
/// contain the same activities. Each event comes at its end. If `watermarks` is true at the index
/// of an event, a watermark follows the event. The last watermark is 1 s later than all events.
pub fn events_of(scenes: &[ExitScene], watermarks: &[bool]) -> Vec<Event> {
    let names = scenes[0].names.iter().enumerate();
    let mut events: Vec<Event> = names
        .map(|(id, name)| super::source(id as u32, name))
        .chain(scenes.iter().map(|scene| Event::Vcpu(vcpu(scene.vcpu))))
        .collect();
    let host = scenes[0].activities.iter();
    let mut over: Vec<(u64, Event)> = host
        .map(|it| (it.end_mono_ns, Event::Activity(*it)))
        .collect();
    for scene in scenes {
        let kept = scene.intervals.iter();
        over.extend(kept.map(|it| (it.end_mono_ns, Event::VcpuInterval(*it))));
        over.push((scene.end_ns, exit_of(scene.vcpu, scene.exit())));
    }
    over.sort_by_key(|(end_ns, event)| (*end_ns, matches!(event, Event::Exit(_))));
    let last_ns = over.last().map_or(0, |(end_ns, _)| *end_ns);
    for (place, (end_ns, event)) in over.into_iter().enumerate() {
        events.push(event);
        if watermarks.get(place) == Some(&true) {
            events.push(Event::Watermark(end_ns));
        }
    }
    events.push(Event::Watermark(last_ns + 1_000_000_000));
    events
}

/// Returns an exit of this vCPU.
pub fn exit_of(vcpu: u32, exit: Exit) -> Event {
    Event::Exit(VcpuExit {
        vcpu: VcpuId(vcpu),
        exit,
    })
}

/// Explains all events. Returns the budgets in the order in which they came, and the result.
pub fn explain(facts: &RunFacts, events: &[Event]) -> (Vec<ExitBudget>, ExitsRun) {
    let mut explainer = ExitExplainer::new(facts);
    let mut budgets = Vec::new();
    for event in events {
        explainer.push(event, &mut |budget| budgets.push(budget.clone()));
    }
    explainer.run_out(&mut |budget| budgets.push(budget.clone()));
    (budgets, explainer.finish())
}

/// Explains all events with a trace. Returns the traced exits, and the result.
pub fn traced(events: &[Event]) -> (Vec<TracedExit>, ExitsRun) {
    let mut explainer = ExitExplainer::with_trace(&facts());
    let mut trace = Vec::new();
    for event in events {
        explainer.push(event, &mut |_| {});
        trace.extend(explainer.take_trace());
    }
    explainer.run_out(&mut |_| {});
    trace.extend(explainer.take_trace());
    (trace, explainer.finish())
}
