//! Random scenes of vCPUs, for property tests.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vmnoise_events::{Activity, ActivityKind, VcpuId, VcpuIntervalKind};

use super::vcpus::{ExitScene, INTR};

/// Returns any possible scene. The vCPU's thread is in one place at a time, and moves to another
/// CPU only while it is off the CPU. The activities are arbitrary.
pub fn any_scene() -> impl Strategy<Value = ExitScene> {
    let life = vec((1_u64..200, 0_u8..4, 0_u32..3), 1..12);
    let window = || option::of((0_u64..600, 1_u64..600));
    let host = vec(
        (0_u32..3, 0_u8..5, 0_u64..2_000, 0_u64..400, 0_usize..6),
        0..30,
    );
    (1_000_u64..1_500, life, window(), window(), host, 0_u32..6).prop_map(
        |(start_ns, life, vmm, halted, host, waker)| {
            let mut scene = ExitScene::new(INTR, start_ns, start_ns);
            let names = ["a:1", "b:2", "own:4170", "second:4171", "d:44", "e:5"];
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

/// Returns exits of several vCPUs on one host, close together or far apart.
pub fn any_scenes() -> impl Strategy<Value = Vec<ExitScene>> {
    let apart = 0_u64..3;
    vec((any_scene(), apart), 1..4).prop_map(|scenes| {
        let late = scenes
            .into_iter()
            .enumerate()
            .map(|(vcpu, (scene, apart))| scene.later(vcpu as u32, apart * 30_000_000));
        let mut scenes: Vec<ExitScene> = late.collect();
        let host: Vec<Activity> = scenes
            .iter()
            .flat_map(|scene| scene.activities.clone())
            .collect();
        for scene in &mut scenes {
            scene.activities.clone_from(&host);
        }
        scenes
    })
}

impl ExitScene {
    /// Returns this scene for another vCPU, `by_ns` later.
    pub fn later(mut self, vcpu: u32, by_ns: u64) -> ExitScene {
        self.vcpu = vcpu;
        let times = [&mut self.start_ns, &mut self.end_ns].into_iter();
        let of_host = self
            .activities
            .iter_mut()
            .flat_map(|it| [&mut it.start_mono_ns, &mut it.end_mono_ns]);
        let kept = self.intervals.iter_mut().flat_map(|it| {
            it.vcpu = VcpuId(vcpu);
            [&mut it.start_mono_ns, &mut it.end_mono_ns]
        });
        times.chain(of_host).chain(kept).for_each(|ns| *ns += by_ns);
        self
    }

    /// Returns the CPU on which the thread runs, waits or sleeps at this time.
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
