//! Converts the flight recorder's data to the events of a recording. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use vmnoise_events::{
    Activity, ActivityKind, Event, Exit, ExitReason, Finish, FinishReason, Loss, LossKind, Name,
    ReasonTotals, ShareMap, Source, SourceId, VcpuClock, VcpuExit, VcpuInterval, VcpuIntervalKind,
    VcpuTotals,
};
use vmnoise_tracer::{GateVcpuId, LostPiece, PieceKind, Runner};

use super::snapshots::{Snapshot, Spent};
use super::stretches::{Stretch, stretches};
use super::{Material, Member, Wanted};

/// Distance of watermarks, in ns. Events between two watermarks are explained together.
const WATERMARKS_NS: u64 = 1_000_000_000;

/// Sends the events of the wanted VMs that follow the snapshot `begin`.
pub(super) fn tell(
    material: &Material<'_>,
    pieces: Vec<LostPiece>,
    begin: &Snapshot,
    wanted: &Wanted,
    sink: &mut dyn FnMut(Event),
) {
    let from_ns = begin.anchor.mono_ns;
    let is_wanted = |member: &Member| {
        wanted.vm.as_ref().is_none_or(|vm| *vm == member.vm)
            && wanted.vmm_pid.is_none_or(|pid| pid == member.vmm_pid)
    };
    let spent = spent_since(material, begin);
    let mut teller = Teller::new(material, sink);
    teller.sink(Event::Anchor(begin.anchor));
    for snapshot in material.snapshots.after(begin) {
        teller.sink(Event::Anchor(snapshot.anchor));
    }
    teller.sink(Event::Anchor(material.now.anchor));
    for vcpu in spent.keys() {
        if let Some(member) = (material.member)(*vcpu).filter(|member| is_wanted(member)) {
            teller.define(*vcpu, &member);
        }
    }
    let mut lost = stretches(pieces, from_ns);
    lost.retain(|stretch| teller.vcpus.contains_key(&stretch.vcpu));
    let mut activities = teller.activities(&lost).into_iter().peekable();
    let mut off_cpu = BTreeMap::<GateVcpuId, Vec<Exit>>::new();
    let mut watermark_ns = from_ns;
    for stretch in &lost {
        let exit = stretch.exit();
        while let Some(activity) = activities.next_if(|it| it.end_mono_ns <= exit.end_mono_ns) {
            teller.sink(Event::Activity(activity));
        }
        teller.stretch(stretch, exit);
        // No later event of this recording ends before this instant.
        if exit.end_mono_ns > watermark_ns + WATERMARKS_NS {
            watermark_ns = exit.end_mono_ns;
            teller.sink(Event::Watermark(watermark_ns));
        }
        off_cpu.entry(stretch.vcpu).or_default().push(exit);
    }
    for (vcpu, spent) in spent {
        let exits = off_cpu.remove(&vcpu).unwrap_or_default();
        teller.totals(vcpu, &spent, &exits);
    }
    let missed = material.now.missed.saturating_sub(begin.missed);
    if missed > 0 {
        teller.sink(Event::Loss(Loss {
            kind: LossKind::Recursion,
            count: missed,
        }));
    }
    let mono_ns = material.now.anchor.mono_ns;
    teller.sink(Event::Watermark(mono_ns));
    teller.sink(Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns,
    }));
}

/// Returns the times of each vCPU since this snapshot. If a vCPU was found later, its times begin
/// there.
fn spent_since(material: &Material<'_>, begin: &Snapshot) -> BTreeMap<GateVcpuId, Spent> {
    let later = material.snapshots.after(begin).chain([&material.now]);
    let mut latest = BTreeMap::new();
    for snapshot in later {
        latest.extend(snapshot.vcpus.iter().map(|(vcpu, spent)| (*vcpu, *spent)));
    }
    for (vcpu, spent) in &mut latest {
        let before = begin.vcpus.get(vcpu);
        *spent = before.map_or(*spent, |before| spent.since(before));
    }
    latest
}

/// Sends events to `sink`. Sends the definition of each source and each vCPU before its first use.
struct Teller<'a> {
    material: &'a Material<'a>,
    sink: &'a mut dyn FnMut(Event),
    sources: BTreeMap<Name, SourceId>,
    vcpus: BTreeMap<GateVcpuId, vmnoise_events::VcpuId>,
}

impl<'a> Teller<'a> {
    fn new(material: &'a Material<'a>, sink: &'a mut dyn FnMut(Event)) -> Teller<'a> {
        Teller {
            material,
            sink,
            sources: BTreeMap::new(),
            vcpus: BTreeMap::new(),
        }
    }

    fn sink(&mut self, event: Event) {
        (self.sink)(event);
    }

    fn define(&mut self, vcpu: GateVcpuId, member: &Arc<Member>) {
        let id = vmnoise_events::VcpuId(u32::try_from(self.vcpus.len()).unwrap_or(u32::MAX));
        self.vcpus.insert(vcpu, id);
        self.sink(Event::Vcpu(member.vcpu(id)));
        for clock in (self.material.clocks)(vcpu) {
            self.sink(Event::VcpuClock(VcpuClock { vcpu: id, ..clock }));
        }
    }

    fn source(&mut self, name: Name) -> SourceId {
        if let Some(known) = self.sources.get(&name) {
            return *known;
        }
        let id = SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        self.sources.insert(name.clone(), id);
        self.sink(Event::Source(Source { id, name }));
        id
    }

    fn runner(&mut self, runner: &Runner) -> SourceId {
        let name = name_of(runner, self.material.member);
        self.source(name.as_str().into())
    }

    /// Returns the activities of CPUs while vCPUs waited for them, ordered by their ends. If two
    /// vCPUs waited for one CPU at the same time, the common part of their activities is returned
    /// only once.
    fn activities(&mut self, lost: &[Stretch]) -> Vec<Activity> {
        let mut ran = Vec::new();
        for piece in lost.iter().flat_map(|stretch| &stretch.pieces) {
            let (kind, source) = match (&piece.kind, &piece.runner) {
                (PieceKind::Ran, Some(runner)) => (ActivityKind::Thread, self.runner(runner)),
                (PieceKind::Throttled, _) => (ActivityKind::Throttled, self.source("idle".into())),
                _ => continue,
            };
            ran.push(Activity {
                cpu: piece.cpu,
                kind,
                start_mono_ns: piece.from_mono_ns,
                end_mono_ns: piece.until_mono_ns,
                source,
                steal_ns: 0,
            });
        }
        ran.sort_by_key(|it| (it.end_mono_ns, it.start_mono_ns));
        let mut told = BTreeMap::<(u32, SourceId), Vec<(u64, u64)>>::new();
        let mut once = Vec::new();
        for activity in ran {
            let told = told.entry((activity.cpu, activity.source)).or_default();
            let mut until = activity.end_mono_ns;
            let mut holes = Vec::new();
            for (start, end) in told.iter().rev() {
                if *end <= activity.start_mono_ns {
                    break;
                }
                holes.push((*end, until));
                until = *start;
            }
            holes.push((activity.start_mono_ns, until));
            for (start_mono_ns, end_mono_ns) in holes {
                if start_mono_ns < end_mono_ns {
                    once.push(Activity {
                        start_mono_ns,
                        end_mono_ns,
                        ..activity
                    });
                }
            }
            // This activity includes the earlier ones that lie within it, so they are no longer
            // needed.
            while told
                .last()
                .is_some_and(|(start, _)| *start >= activity.start_mono_ns)
            {
                told.pop();
            }
            told.push((activity.start_mono_ns, activity.end_mono_ns));
        }
        once.sort_by_key(|it| (it.end_mono_ns, it.cpu));
        once
    }

    fn stretch(&mut self, stretch: &Stretch, exit: Exit) {
        let Some(&vcpu) = self.vcpus.get(&stretch.vcpu) else {
            return;
        };
        for piece in &stretch.pieces {
            let kind = match piece.kind {
                PieceKind::Ran | PieceKind::Throttled => VcpuIntervalKind::Waiting,
                PieceKind::Blocked => VcpuIntervalKind::Blocked,
                PieceKind::Idle | PieceKind::Unsure | PieceKind::Unknown => continue,
            };
            self.sink(Event::VcpuInterval(interval(vcpu, kind, piece)));
        }
        self.sink(Event::Exit(VcpuExit { vcpu, exit }));
    }

    fn totals(&mut self, vcpu: GateVcpuId, spent: &Spent, exits: &[Exit]) {
        let Some(&vcpu) = self.vcpus.get(&vcpu) else {
            return;
        };
        let count = exits.len() as u64;
        let worst = exits.iter().max_by_key(|exit| exit.dur_ns());
        let reasons = (count > 0).then(|| of_reason(exits));
        self.sink(Event::VcpuTotals(VcpuTotals {
            vcpu,
            first_mono_ns: spent.first_mono_ns,
            last_mono_ns: spent.until_mono_ns,
            exits: count,
            heavy: 0,
            split: spent.lost,
            unseen_ns: spent.unseen_ns(),
            worst: worst.map(|exit| Box::new(*exit)),
            reasons: reasons.into_iter().collect(),
        }));
    }
}

/// Returns a unique name of a task. It consists of the task's thread id and the name of its
/// process. For a vCPU, it has the name of the VM instead.
pub(super) fn name_of(
    runner: &Runner,
    member: &dyn Fn(GateVcpuId) -> Option<Arc<Member>>,
) -> String {
    let member = runner.vcpu.and_then(member);
    let name = member.as_ref().map_or(&runner.name, |member| &member.vm);
    format!("{name}:{}", runner.tid)
}

fn interval(
    vcpu: vmnoise_events::VcpuId,
    kind: VcpuIntervalKind,
    piece: &LostPiece,
) -> VcpuInterval {
    VcpuInterval {
        vcpu,
        kind,
        start_mono_ns: piece.from_mono_ns,
        end_mono_ns: piece.until_mono_ns,
        cpu: piece.cpu,
        to_cpu: piece.cpu,
        source: None,
    }
}

/// Returns the totals of one vCPU's times off the CPU. `exits` must not be empty.
fn of_reason(exits: &[Exit]) -> ReasonTotals {
    let lengths = || exits.iter().map(Exit::dur_ns);
    let mut split = ShareMap::default();
    let mut histogram = BTreeMap::new();
    for exit in exits {
        split += exit.split;
        *histogram.entry(upper_edge_ns(exit.dur_ns())).or_insert(0) += 1;
    }
    let max_ns = lengths().max().unwrap_or(0);
    ReasonTotals {
        reason: Some(ExitReason::OFF_CPU),
        count: exits.len() as u64,
        heavy: 0,
        min_ns: lengths().min().unwrap_or(0),
        max_ns,
        split,
        histogram: histogram
            .into_iter()
            .map(|(edge, count)| (max_ns.min(edge), count))
            .collect(),
    }
}

/// Returns the upper edge in ns of the histogram bucket that holds `ns`. Each power of two is
/// divided into four buckets.
fn upper_edge_ns(ns: u64) -> u64 {
    let quarter = ns
        .checked_ilog2()
        .map_or(0, |power| power.saturating_sub(2));
    ns | ((1 << quarter) - 1)
}
