//! Causes faults and undoes them. Each fault sets the fate of the runs that it affects.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use rustix::process::Signal;
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use super::ChaosPlace;
use super::kernel_log::KernelLog;
use super::scene::{CPU, Scene, Vmm};
use super::subject::Fate;
use crate::{Disturber, NOBODY_DRAINS, Quota, hold_first_thread, schedstat};

/// One kind of fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) place: ChaosPlace,
    /// Checks that this machine allows the fault.
    pub(super) needs: fn() -> Result<()>,
    /// Causes the fault, and undoes it. Sets the fate of each run that must end or change its
    /// behavior.
    pub(super) strike: fn(&mut Scene, &mut Rng) -> Result<()>,
}

const fn anywhere(name: &'static str, strike: fn(&mut Scene, &mut Rng) -> Result<()>) -> Fault {
    Fault {
        name,
        place: ChaosPlace::Anywhere,
        needs: || Ok(()),
        strike,
    }
}

const fn in_labs(name: &'static str, strike: fn(&mut Scene, &mut Rng) -> Result<()>) -> Fault {
    Fault {
        place: ChaosPlace::Lab,
        ..anywhere(name, strike)
    }
}

/// All faults.
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

/// Capacity of the ring (tracer/src/bpf/records.bpf.h): 8 MiB. Each record has 64 bytes, and the
/// kernel's header of 8 bytes.
const RING_RECORDS: u64 = (8 << 20) / (64 + 8);

/// Limit of the memory that a run uses for data that waits to be read or written, in KiB
/// (docs/reliability.md).
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

/// Holds the first thread, which drains the ring, while the poller continues. Stopping the whole
/// process would not fill the ring, because the poller would stop too.
fn ring_flooded(scene: &mut Scene, _: &mut Rng) -> Result<()> {
    let osnoise = scene.named("osnoise")?;
    // The storm has a higher priority than other tasks. At the same priority, it would not switch
    // often enough while the thread may be held.
    let storm = Disturber::storm(CPU)?.outranking()?;
    // Each switch of a task is a record. The factor 2 is needed because a kernel may hide some
    // switches.
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

/// Steps the clock by up to a day, forward or backward.
fn clock_stepped(_: &mut Scene, dice: &mut Rng) -> Result<()> {
    let now = clock_gettime(ClockId::Realtime);
    let by = dice.i64(-86_400..86_400);
    let then = Timespec {
        tv_sec: now.tv_sec + by,
        ..now
    };
    Ok(clock_settime(ClockId::Realtime, then)?)
}

/// Lets a process take all memory until the kernel kills this process. If the memory of the process
/// is not free after a second, the kernel may also kill other processes (`oom_reap_task` in
/// mm/oom_kill.c). The kernel's log names these, and none of them may have held much memory.
fn memory_out(scene: &mut Scene, _: &mut Rng) -> Result<()> {
    let mut log = KernelLog::from_now_on()?;
    Disturber::memory()?;
    let victims = log.victims()?;
    let (hog, others) = victims.split_first().context("the kernel killed nobody")?;
    for victim in others {
        ensure!(victim.anon_kib < MOST_KIB, "{victim:?} after {hog:?}");
        println!("         {victim:?} after {hog:?}");
        let mut subjects = scene.subjects.iter_mut();
        if let Some(subject) = subjects.find(|it| it.pid() == victim.pid) {
            subject.fate = Fate::Killed;
        } else if scene.vmm.pid() == victim.pid {
            scene.vmm = Vmm::start()?;
        }
    }
    Ok(())
}
