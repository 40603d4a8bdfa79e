//! What the tests need to build streams of vCPUs by hand or at random. A scene is one exit
//! with all that its vCPU and its host did meanwhile; its split is found by painting each
//! nanosecond, which shares no method with the product.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::{ExitBudget, ExitExplainer, ExitsRun};

/// The thread of the vCPU 0 of the VM `web`, whose VMM is process 4168.
pub const TID: u32 = 4170;
/// SVM's codes.
pub const CPUID: u64 = 0x72;
pub const IO: u64 = 0x7b;
pub const INTR: u64 = 0x60;
pub const HLT: u64 = 0x78;

/// The host of vCPUs: everything witnessed, every exit told, three listed.
pub fn facts() -> RunFacts {
    let mut facts = super::facts();
    facts.workload = Workload::Vcpus;
    facts.options.cpus = vec![];
    facts.options.threshold_ns = 0;
    facts.options.exits = Some(ExitFilter::default());
    facts
}

/// A vCPU of the VM `web`.
pub fn vcpu(id: u32) -> Vcpu {
    Vcpu {
        id: VcpuId(id),
        tid: TID + id,
        vmm_pid: 4168,
        number: Some(id),
        vm: 1,
        vm_name: "web".to_string(),
        sees_kvm: true,
    }
}

/// One exit of vCPU 0, and what happened meanwhile.
#[derive(Debug, Clone)]
pub struct Scene {
    pub start_ns: u64,
    pub end_ns: u64,
    pub code: u64,
    pub exit_cpu: u32,
    pub intervals: Vec<VcpuInterval>,
    pub activities: Vec<Activity>,
    /// By source id.
    pub names: Vec<String>,
}

/// Who owns a nanosecond.
pub type Owner = (Share, Option<u32>);

impl Scene {
    /// An exit that nothing disturbs, on CPU 1.
    pub fn new(code: u64, start_ns: u64, end_ns: u64) -> Scene {
        Scene {
            start_ns,
            end_ns,
            code,
            exit_cpu: 1,
            intervals: Vec::new(),
            activities: Vec::new(),
            names: Vec::new(),
        }
    }

    /// The host did something on this CPU.
    pub fn host(mut self, cpu: u32, kind: ActivityKind, name: &str, from: u64, to: u64) -> Scene {
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

    /// Something kept the vCPU's thread, which went on where it was.
    pub fn kept(self, kind: VcpuIntervalKind, from: u64, to: u64) -> Scene {
        self.moved(kind, from, to, 1, 1)
    }

    /// Something kept it on one CPU, and it went on on another.
    pub fn moved(
        mut self,
        kind: VcpuIntervalKind,
        from: u64,
        to: u64,
        cpu: u32,
        to_cpu: u32,
    ) -> Scene {
        self.intervals.push(VcpuInterval {
            vcpu: VcpuId(0),
            kind,
            start_mono_ns: from,
            end_mono_ns: to,
            cpu,
            to_cpu,
            source: None,
        });
        self
    }

    /// Who ended the last thing that kept it.
    pub fn woken_by(mut self, name: &str) -> Scene {
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

    /// Who owns each nanosecond of the exit: the law, one instant at a time.
    pub fn painted(&self) -> BTreeMap<Owner, u64> {
        let mut owned = BTreeMap::new();
        for at in self.start_ns..self.end_ns {
            *owned.entry(self.owner(at)).or_default() += 1;
        }
        owned
    }

    fn owner(&self, at: u64) -> Owner {
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

    /// Where its thread is while it has a CPU.
    fn cpu_at(&self, at: u64) -> u32 {
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
        self.names[source.0 as usize].ends_with(&format!(":{TID}"))
    }

    /// The exit, with the split that the kernel would have counted.
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
            split: ExitSplit::from_fn(|share| {
                let of_share = owned.iter().filter(|((of, _), _)| *of == share);
                of_share.map(|(_, ns)| ns).sum()
            }),
        }
    }

    /// The stream of this exit alone: everything when it is over, then the exit, then a
    /// watermark far behind it.
    pub fn events(&self) -> Vec<Event> {
        let names = self.names.iter().enumerate();
        let mut events: Vec<Event> = names
            .map(|(id, name)| super::source(id as u32, name))
            .chain([Event::Vcpu(vcpu(0))])
            .collect();
        let mut over: Vec<(u64, Event)> = self
            .activities
            .iter()
            .map(|it| (it.end_mono_ns, Event::Activity(*it)))
            .chain(
                self.intervals
                    .iter()
                    .map(|it| (it.end_mono_ns, Event::VcpuInterval(*it))),
            )
            .collect();
        over.push((self.end_ns, exit_of(0, self.exit())));
        over.sort_by_key(|(end_ns, event)| (*end_ns, matches!(event, Event::Exit(_))));
        events.extend(over.into_iter().map(|(_, event)| event));
        events.push(Event::Watermark(self.end_ns + 1_000_000_000));
        events
    }

    /// The parts that the product finds, by the names of their sources.
    pub fn parts(&self) -> Vec<(Share, Option<&str>, u64)> {
        let budget = self.budget();
        let named = budget.parts.iter().map(|part| {
            let name = part.source.map(|id| self.names[id.0 as usize].as_str());
            (part.share, name, part.ns)
        });
        named.collect()
    }

    /// The one budget that the product finds.
    pub fn budget(&self) -> ExitBudget {
        let (mut budgets, _) = explain(&facts(), &self.events());
        assert_eq!(budgets.len(), 1);
        budgets.remove(0)
    }
}

/// An exit of this vCPU.
pub fn exit_of(vcpu: u32, exit: Exit) -> Event {
    Event::Exit(VcpuExit {
        vcpu: VcpuId(vcpu),
        exit,
    })
}

/// Feeds everything; the budgets in the order in which they came, and the result.
pub fn explain(facts: &RunFacts, events: &[Event]) -> (Vec<ExitBudget>, ExitsRun) {
    let mut explainer = ExitExplainer::new(facts);
    let mut budgets = Vec::new();
    for event in events {
        explainer.feed(event, &mut |budget| budgets.push(budget.clone()));
    }
    (budgets, explainer.finish())
}

/// Any scene that could be: a thread is in one place at a time, and goes from CPU to CPU
/// only while it is off them. Activities are any.
pub fn any_scene() -> impl Strategy<Value = Scene> {
    let life = vec((1_u64..200, 0_u8..4, 0_u32..3), 1..12);
    let window = || option::of((0_u64..600, 1_u64..600));
    let host = vec(
        (0_u32..3, 0_u8..5, 0_u64..2_000, 0_u64..400, 0_usize..6),
        0..30,
    );
    (1_000_u64..1_500, life, window(), window(), host, 0_u32..6).prop_map(
        |(start_ns, life, vmm, halted, host, waker)| {
            let mut scene = Scene::new(INTR, start_ns, start_ns);
            let names = ["a:1", "b:2", "own:4170", "c:3", "d:44", "e:5"];
            scene.names = names.map(String::from).to_vec();
            let mut cpu = scene.exit_cpu;
            for (len, doing, to_cpu) in life {
                let (from, to) = (scene.end_ns, scene.end_ns + len);
                scene.end_ns = to;
                let kind = match doing {
                    0 => VcpuIntervalKind::Waiting,
                    1 => VcpuIntervalKind::Blocked,
                    _ => continue,
                };
                scene = scene.moved(kind, from, to, cpu, to_cpu);
                if kind == VcpuIntervalKind::Blocked && waker > 0 {
                    scene = scene.woken_by(names[waker as usize]);
                }
                cpu = to_cpu;
            }
            let end_ns = scene.end_ns;
            for (kind, window) in [
                (VcpuIntervalKind::Vmm, vmm),
                (VcpuIntervalKind::Halted, halted),
            ] {
                let Some((after, len)) = window else { continue };
                let from = start_ns + after;
                let to = (from + len).min(end_ns);
                if from < to {
                    let (cpu, to_cpu) = (scene.place_at(from), scene.place_at(to));
                    scene = scene.moved(kind, from, to, cpu, to_cpu);
                }
            }
            for (cpu, kind, after, len, source) in host {
                let kind = [
                    ActivityKind::Nmi,
                    ActivityKind::Irq,
                    ActivityKind::Softirq,
                    ActivityKind::Thread,
                    ActivityKind::Throttled,
                ][usize::from(kind)];
                let from = start_ns.saturating_sub(300) + after;
                scene = scene.host(cpu, kind, names[source], from, from + len);
            }
            scene
        },
    )
}

impl Scene {
    /// Where its thread is, or waits, or sleeps.
    fn place_at(&self, at: u64) -> u32 {
        let off = self.intervals.iter().find(|it| {
            let is_off = matches!(
                it.kind,
                VcpuIntervalKind::Waiting | VcpuIntervalKind::Blocked
            );
            is_off && it.start_mono_ns <= at && at < it.end_mono_ns
        });
        off.map_or_else(|| self.cpu_at(at), |off| off.cpu)
    }
}
