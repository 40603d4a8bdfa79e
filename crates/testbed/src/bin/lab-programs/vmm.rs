//! `lab-vmm STEP... -- COMMAND...` starts a VMM with this command, and performs the steps on it one
//! after the other. It prints the steps, their times, and the kernel's counts of the VM as JSON.
//! [`VmmStep`] describes the steps.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use vmnoise_testbed::bed::GuestFiles;
use vmnoise_testbed::kvm_stat::{self, exits};
use vmnoise_testbed::vmm::{self, wait_for};
use vmnoise_testbed::vmm_steps::{
    CompletedStep, Counts, TURNS, ThreadSchedstat, Treatment, VcpuCounts, VmmStep,
};
use vmnoise_testbed::{Disturber, placed, schedstat, undisturbed, urgency};
use vmnoise_workload::thread::set_fifo;
use vmnoise_workload::tsc;

const CGROUPS: &str = "/tmp/cgroup";

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut parts = arguments.splitn(2, |word| word == "--");
    let steps = parts.next().unwrap_or_default();
    let mut treated = Vmm {
        command: parts.next().unwrap_or_default().to_vec(),
        ..Vmm::default()
    };
    let mut done = Vec::new();
    for word in steps {
        let step = VmmStep::from_word(word)?;
        let begin_mono_ns = mono_ns();
        let counts = treated.carry_out(&step).with_context(|| word.clone())?;
        done.push(CompletedStep {
            step: word.clone(),
            begin_mono_ns,
            end_mono_ns: mono_ns(),
            counts,
            hog: treated.hog.as_ref().map(Disturber::source).transpose()?,
            undisturbed: treated.undisturbed.take(),
            looks: std::mem::take(&mut treated.looks),
        });
    }
    let treatment = Treatment {
        pid: treated.child.as_ref().map_or(0, Child::id),
        said: treated.said,
        steps: done,
    };
    println!("{}", serde_json::to_string(&treatment)?);
    Ok(())
}

#[derive(Default)]
struct Vmm {
    command: Vec<String>,
    child: Option<Child>,
    said: String,
    hog: Option<Disturber>,
    undisturbed: Option<Duration>,
    looks: Vec<ThreadSchedstat>,
    group: Option<String>,
}

impl Vmm {
    fn carry_out(&mut self, step: &VmmStep) -> Result<Option<Counts>> {
        match *step {
            VmmStep::Traced => wait_for("a process to trace", || Ok(tracer().is_some()))?,
            VmmStep::Start => self.start()?,
            VmmStep::Run(time) => thread::sleep(time),
            VmmStep::Undisturbed(cpu, time) => self.undisturbed = Some(undisturbed(cpu, time)?),
            VmmStep::Exits(count) => {
                let id = self.id()?;
                let enough = exits(id)? + count;
                wait_for("exits", || Ok(exits(id)? >= enough))?;
            }
            VmmStep::Quiet(time) => {
                let id = self.id()?;
                wait_until_steady("the guest to come to rest", time, || exits(id).map(Some))?;
            }
            VmmStep::Waited(time) => {
                let id = self.id()?;
                let enough_ns = waited_ns(id)? + u64::try_from(time.as_nanos())?;
                wait_for("a vCPU to wait", || Ok(waited_ns(id)? >= enough_ns))?;
            }
            VmmStep::Reported(count, guest) => GuestFiles::of(guest).wait(count)?,
            VmmStep::Looks(count) => self.looks = Watched::of(self.id()?)?.looks(count)?,
            VmmStep::Stop => vmm::stop(self.id()?)?,
            VmmStep::Continue => vmm::signal(self.id()?, Signal::CONT)?,
            VmmStep::Read => return Ok(Some(self.read()?)),
            VmmStep::Kill => {
                vmm::signal(self.id()?, Signal::KILL)?;
                self.child()?.wait()?;
            }
            VmmStep::End => self.end()?,
            VmmStep::Hog(cpu) => self.hog = Some(Disturber::busy(cpu)?),
            VmmStep::Litter(cpu) => self.hog = Some(Disturber::litter(cpu)?),
            VmmStep::Turns(cpu, burst, every) => {
                self.hog = Some(Disturber::turns(cpu, burst, every, Path::new(TURNS))?);
            }
            VmmStep::Unhog => {
                if let Some(mut hog) = self.hog.take() {
                    hog.has_worked()?;
                }
            }
            VmmStep::Migrate(times, every) => {
                let mut left = times;
                self.migrate(every, || {
                    let goes_on = left > 0;
                    left = left.saturating_sub(1);
                    Ok(goes_on)
                })?;
            }
            VmmStep::Moves(count, every) => {
                let guest = GuestFiles::of(0);
                self.migrate(every, || Ok(!guest.has_reported(count)?))?;
            }
            VmmStep::Pin(cpu) => placed::pin(self.first_vcpu()?, cpu)?,
            VmmStep::Fifo(priority) => {
                let vcpus = kvm_stat::vcpus(self.id()?)?;
                ensure!(!vcpus.is_empty(), "no vCPU has run");
                for (_, tid) in vcpus {
                    set_fifo(tid, priority)?;
                }
            }
            VmmStep::VmmFifo(priority) => urgency::set_fifo(self.id()?, priority)?,
            VmmStep::Calls(cpu) => self.hog = Some(Disturber::calls(cpu)?),
            VmmStep::StressNg(cpu) => self.hog = Some(Disturber::stress_ng(cpu)?),
            VmmStep::Quota(quota_us, period_us) => self.quota(quota_us, period_us)?,
            VmmStep::Untrace => {
                let tracer = tracer().context("no process traces")?;
                vmm::signal(tracer, Signal::INT)?;
                let is_gone = || matches!(schedstat::state(tracer, tracer), None | Some('Z'));
                wait_for("the tracer to end", || Ok(is_gone()))?;
            }
        }
        Ok(None)
    }

    fn start(&mut self) -> Result<()> {
        let [program, arguments @ ..] = &self.command[..] else {
            anyhow::bail!("no command after --");
        };
        let child = Command::new(format!("/bin/{program}"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let id = child.id();
        self.child = Some(child);
        wait_for("the guest to leave", || Ok(exits(id)? > 0))
    }

    fn read(&mut self) -> Result<Counts> {
        let id = self.id()?;
        let vcpu = |(vcpu, tid)| {
            let times = schedstat::read(id, tid)?;
            anyhow::Ok(VcpuCounts {
                vcpu,
                tid,
                on_cpu_ns: times.on_cpu_ns,
                run_delay_ns: times.run_delay_ns,
                migrations: schedstat::migrations(id, tid)?,
            })
        };
        let vcpus = kvm_stat::vcpus(id)?.into_iter().map(vcpu);
        Ok(Counts {
            kvm: kvm_stat::counters(id)?,
            vcpus: vcpus.collect::<Result<_>>()?,
            throttled_ns: self.group.as_deref().map(throttled_ns).transpose()?,
        })
    }

    /// Waits until the VMM ends. Reads the pipe to its end first, because a full pipe would block
    /// the VMM.
    fn end(&mut self) -> Result<()> {
        let mut stdout = self.child()?.stdout.take().context("its stdout")?;
        stdout.read_to_string(&mut self.said)?;
        let status = self.child()?.wait()?;
        ensure!(status.success(), "the VMM ended with {status}");
        Ok(())
    }

    fn migrate(
        &mut self,
        every: Duration,
        mut goes_on: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let watched = Watched::of(self.id()?)?;
        let vcpu = self.first_vcpu()?;
        let mut cpus = [0, 1].into_iter().cycle();
        while goes_on()? {
            placed::pin(vcpu, cpus.next().unwrap_or(0))?;
            self.looks.push(watched.look()?);
            thread::sleep(every);
        }
        Ok(())
    }

    fn first_vcpu(&self) -> Result<u32> {
        let vcpus = kvm_stat::vcpus(self.id()?)?;
        let &(_, tid) = vcpus.first().context("no vCPU has run")?;
        Ok(tid)
    }

    fn quota(&mut self, quota_us: u32, period_us: u32) -> Result<()> {
        if !Path::new(CGROUPS).is_dir() {
            fs::create_dir(CGROUPS)?;
            mount("cgroup2", CGROUPS, "cgroup2", MountFlags::empty(), None)
                .context("mounting cgroup2")?;
        }
        let write = |file: &str, text: &str| {
            let path = format!("{CGROUPS}/{file}");
            fs::write(&path, text).with_context(|| format!("writing {text} to {path}"))
        };
        let id = self.id()?.to_string();
        write("cgroup.subtree_control", "+cpu")?;
        let group = format!("vmm-{id}");
        fs::create_dir_all(format!("{CGROUPS}/{group}"))?;
        write(
            &format!("{group}/cpu.max"),
            &format!("{quota_us} {period_us}"),
        )?;
        write(&format!("{group}/cgroup.procs"), &id)?;
        self.group = Some(group);
        Ok(())
    }

    fn id(&self) -> Result<u32> {
        let child = self.child.as_ref().context("before `start`")?;
        Ok(child.id())
    }

    fn child(&mut self) -> Result<&mut Child> {
        self.child.as_mut().context("before `start`")
    }
}

/// The thread of a guest's first vCPU. The times of reads are on the guest's clock.
struct Watched {
    pid: u32,
    tid: u32,
    offset_tsc: i64,
}

impl Watched {
    fn of(pid: u32) -> Result<Watched> {
        let vcpus = kvm_stat::vcpus(pid)?;
        let &(vcpu, tid) = vcpus.first().context("no vCPU has run")?;
        let offset_tsc = kvm_stat::tsc_offset(pid, vcpu)?;
        Ok(Watched {
            pid,
            tid,
            offset_tsc,
        })
    }

    fn look(&self) -> Result<ThreadSchedstat> {
        let guest_tsc = || tsc::now().wrapping_add_signed(self.offset_tsc);
        let begin_tsc = guest_tsc();
        let run_delay_ns = schedstat::read(self.pid, self.tid)?.run_delay_ns;
        Ok(ThreadSchedstat {
            begin_tsc,
            end_tsc: guest_tsc(),
            run_delay_ns,
        })
    }

    /// Reads the thread's counts again and again until `count` commands of the guest have ended.
    fn looks(&self, count: usize) -> Result<Vec<ThreadSchedstat>> {
        // With one CPU, each read takes CPU time from the guest.
        const EVERY: Duration = Duration::from_millis(25);
        let mut looks = Vec::new();
        let guest = GuestFiles::of(0);
        while !guest.has_reported(count)? {
            thread::sleep(EVERY);
            looks.push(self.look()?);
        }
        Ok(looks)
    }
}

/// Returns for how long all vCPU threads of this VMM have waited for a CPU in total, nanoseconds.
fn waited_ns(id: u32) -> Result<u64> {
    let vcpus = kvm_stat::vcpus(id)?.into_iter();
    let delays = vcpus.map(|(_, tid)| Ok(schedstat::read(id, tid)?.run_delay_ns));
    delays.sum()
}

/// Returns the process ID of a process that has attached all of its BPF programs.
fn tracer() -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.into_iter().find_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        vmm::traces(id).then_some(id)
    })
}

/// Waits until `it` has returned the same value for longer than `time`.
fn wait_until_steady<T: PartialEq>(
    what: &str,
    time: Duration,
    mut it: impl FnMut() -> Result<Option<T>>,
) -> Result<()> {
    let (mut before, mut since) = (None, Instant::now());
    wait_for(what, || {
        let now = it()?;
        if now != before {
            (before, since) = (now, Instant::now());
        }
        Ok(before.is_some() && since.elapsed() > time)
    })
}

/// Returns `throttled_usec` of `cpu.stat` in nanoseconds (Documentation/admin-guide/cgroup-v2.rst).
fn throttled_ns(group: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("{CGROUPS}/{group}/cpu.stat"))?;
    let us = text
        .lines()
        .find_map(|line| line.strip_prefix("throttled_usec "));
    let us: u64 = us.context("cpu.stat without throttled_usec")?.parse()?;
    Ok(us * 1_000)
}

fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
