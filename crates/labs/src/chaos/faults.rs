//! What goes wrong: each fault is brought about and undone, and says what becomes of whom.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use rustix::process::Signal;
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use super::Place;
use super::kernel_log::KernelLog;
use super::scene::{CPU, Scene, Vmm};
use super::subject::Fate;
use crate::{Disturber, NOBODY_DRAINS, Quota, hold_first_thread, schedstat};

/// One kind of fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// Whether this machine has what it takes.
    pub(super) needs: fn() -> Result<()>,
    /// Brings it about, and undoes it. Whoever does not go on after that has another fate.
    pub(super) strike: fn(&mut Scene, &mut Rng) -> Result<()>,
}

const fn anywhere(name: &'static str, strike: fn(&mut Scene, &mut Rng) -> Result<()>) -> Fault {
    Fault {
        name,
        place: Place::Anywhere,
        needs: || Ok(()),
        strike,
    }
}

const fn in_labs(name: &'static str, strike: fn(&mut Scene, &mut Rng) -> Result<()>) -> Fault {
    Fault {
        place: Place::Lab,
        ..anywhere(name, strike)
    }
}

/// All of them.
pub(super) const FAULTS: [Fault; 10] = [
    anywhere("a VMM is killed", vmm_killed),
    anywhere("a VMM is stopped for a while", vmm_stopped),
    anywhere("vmnoise is killed", vmnoise_killed),
    anywhere("vmnoise is stopped for a while", vmnoise_stopped),
    anywhere("the disk is full", disk_full),
    anywhere("the ring is flooded", ring_flooded),
    Fault {
        needs: Quota::is_there,
        ..anywhere("a quota changes", quota_changed)
    },
    in_labs("the CPU goes offline", cpu_offline),
    in_labs("the clock is stepped", clock_stepped),
    in_labs("memory runs out", memory_out),
];

/// What the ring has room for (tracer/src/bpf/records.bpf.h): 8 MiB of records of 64 bytes, each
/// with the kernel's header of 8.
const RING_RECORDS: u64 = (8 << 20) / (64 + 8);

/// What a run may hold that waits to be read or written (docs/reliability.md).
const MOST_KIB: u64 = 80 << 10;

fn a_while(dice: &mut Rng) -> Duration {
    Duration::from_millis(dice.u64(50..2_000))
}

fn vmm_killed(scene: &mut Scene, _: &mut Rng) -> Result<()> {
    scene.vmm.signal(Signal::KILL)?;
    scene.vmm = Vmm::start()?;
    Ok(())
}

fn vmm_stopped(scene: &mut Scene, dice: &mut Rng) -> Result<()> {
    scene.vmm.signal(Signal::STOP)?;
    sleep(a_while(dice));
    scene.vmm.signal(Signal::CONT)
}

fn vmnoise_killed(scene: &mut Scene, dice: &mut Rng) -> Result<()> {
    let subject = dice.choice(&mut scene.subjects).context("nobody runs")?;
    println!("         {}", subject.command);
    subject.signal(Signal::KILL)?;
    subject.fate = Fate::Killed;
    Ok(())
}

fn vmnoise_stopped(scene: &mut Scene, dice: &mut Rng) -> Result<()> {
    let subject = dice.choice(&mut scene.subjects).context("nobody runs")?;
    println!("         {}", subject.command);
    subject.stop(a_while(dice))
}

fn disk_full(scene: &mut Scene, _: &mut Rng) -> Result<()> {
    const SAYS: &str = "No space left on device";
    scene.disk.fill()?;
    for subject in &mut scene.subjects {
        subject.wait_until_it_says(SAYS).context(subject.command)?;
        subject.fate = Fate::StopsRecording(SAYS);
    }
    scene.disk.clear()
}

/// Nobody drains while the first thread is held, and the poller polls on: a whole process that is
/// stopped has no ring to flood.
fn ring_flooded(scene: &mut Scene, _: &mut Rng) -> Result<()> {
    let osnoise = scene.named("osnoise")?;
    // Beside other tasks it would not make as many turns in the time for which the thread may be held.
    let storm = Disturber::storm(CPU)?.outranking()?;
    // Each turn of a task is a record. Twice as many as there is room for: a kernel may hide some.
    let enough = schedstat::switches(storm.pid())? + 2 * RING_RECORDS;
    let is_flooded = || schedstat::switches(storm.pid()).is_ok_and(|switches| switches >= enough);
    hold_first_thread(osnoise.pid(), NOBODY_DRAINS, is_flooded)?;
    let made = schedstat::switches(storm.pid())?;
    ensure!(
        made >= enough,
        "the storm has made {made} turns of {enough}"
    );
    drop(storm);
    osnoise.fate = Fate::Loses("ring_full");
    Ok(())
}

fn quota_changed(scene: &mut Scene, dice: &mut Rng) -> Result<()> {
    let osnoise = scene.named("osnoise")?.pid();
    let pid = if dice.bool() {
        osnoise
    } else {
        scene.vmm.pid()
    };
    let quota = Quota::of(pid, dice.u32(10..50))?;
    sleep(a_while(dice));
    quota.set(dice.u32(50..100))?;
    sleep(a_while(dice));
    Ok(())
}

fn cpu_offline(scene: &mut Scene, dice: &mut Rng) -> Result<()> {
    const SAYS: &str = "CPU 1 went offline or left this process's cpuset";
    let online = format!("/sys/devices/system/cpu/cpu{CPU}/online");
    fs::write(&online, "0").with_context(|| online.clone())?;
    sleep(a_while(dice));
    fs::write(&online, "1").with_context(|| online.clone())?;
    for subject in scene.on_the_cpu() {
        subject.fate = Fate::Ends(SAYS);
    }
    Ok(())
}

/// Up to a day, to either side.
fn clock_stepped(_: &mut Scene, dice: &mut Rng) -> Result<()> {
    let now = clock_gettime(ClockId::Realtime);
    let by = dice.i64(-86_400..86_400);
    let then = Timespec {
        tv_sec: now.tv_sec + by,
        ..now
    };
    Ok(clock_settime(ClockId::Realtime, then)?)
}

/// A process takes all that there is, until the kernel ends it. Where its memory is not back after a second,
/// the kernel may end others too (`oom_reap_task` in mm/oom_kill.c), and says so; but none that held it.
fn memory_out(scene: &mut Scene, _: &mut Rng) -> Result<()> {
    let mut log = KernelLog::from_now_on()?;
    Disturber::memory()?;
    let victims = log.victims()?;
    let (hog, others) = victims.split_first().context("the kernel killed nobody")?;
    for victim in others {
        ensure!(victim.anon_kib < MOST_KIB, "{victim:?} beside {hog:?}");
        println!("         {victim:?} beside {hog:?}");
        let mut subjects = scene.subjects.iter_mut();
        if let Some(subject) = subjects.find(|it| it.pid() == victim.pid) {
            subject.fate = Fate::Killed;
        } else if scene.vmm.pid() == victim.pid {
            scene.vmm = Vmm::start()?;
        }
    }
    Ok(())
}
