//! A microVM that feels every gap: one vCPU on each measured CPU, polling the
//! TSC, with nothing else in it.
//!
//! The guest reads the hypervisor's steal clock at each gap and finds the host's
//! live exit counts in its memory, as the thesis proposes. The host drains gaps
//! from a ring that costs the guest nothing while it polls.

mod clock;
mod error;
mod gate;
mod guest;
mod mailbox;
mod offer;
mod stats;
mod vcpu;
mod vm;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vmnoise_events::{Gap, Policy, Tally};

pub use clock::GuestClock;
pub use error::Error;
pub use offer::{KvmOffer, offer, poll_steps};
pub use vm::SharedPages;

use crate::thread;
use gate::Gate;
use guest::Command;
use stats::ExitStat;
use vcpu::Vcpu;
use vm::Vm;

/// Writing one record takes a few hundred cycles, a few thousand when the caches
/// are cold. Longer than this, and something took the CPU meanwhile.
const MIN_BLIND_LIMIT_TSC: u64 = 10_000;
/// How long dropping a microVM waits for a thread that gets no CPU.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// One vCPU is pinned to each of these host CPUs.
    pub cpus: Vec<u32>,
    /// Gaps of at least this many cycles are recorded.
    pub threshold_tsc: u64,
    /// Policy of the vCPU threads; `None` is as inherited.
    pub policy: Option<Policy>,
    /// Live exit counts for the guests; without them gaps count none.
    pub exit_counts: Option<SharedPages>,
}

/// The host thread that runs one vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuThread {
    /// The host CPU it is pinned to.
    pub cpu: u32,
    /// Its id in the kernel (gettid(2)).
    pub tid: u32,
}

/// A prepared, running or ended microVM.
///
/// Dropping it ends its threads. A thread that gets no CPU for a second is left
/// behind; it ends by itself as soon as it runs, and keeps its memory until then.
#[derive(Debug)]
pub struct Microvm {
    vm: Arc<Vm>,
    gate: Arc<Gate>,
    threads: Vec<VcpuThread>,
    vcpus: Vec<RunningVcpu>,
    clock: GuestClock,
}

#[derive(Debug)]
struct RunningVcpu {
    handle: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<Error>>,
    clock: GuestClock,
    steal_clock: bool,
    exit_stat: Option<ExitStat>,
}

/// What a vCPU thread says once it is set up.
struct Ready {
    tid: u32,
    clock: GuestClock,
    steal_clock: bool,
    exit_stat: Option<ExitStat>,
}

impl Microvm {
    /// Creates the VM and one pinned thread per vCPU, and proves their clocks.
    /// The threads then wait for [`Microvm::start`].
    ///
    /// # Errors
    /// Every [`Error`] but [`Error::Exit`] after the start; nothing is left behind.
    pub fn prepare(config: Config) -> Result<Microvm, Error> {
        let Config {
            cpus,
            threshold_tsc,
            policy,
            exit_counts,
        } = config;
        let vm = Arc::new(Vm::create(&cpus, exit_counts)?);
        let gate = Arc::new(Gate::default());
        // From here on, an early return drops the guard, which ends the threads.
        let mut microvm = Microvm {
            gate,
            threads: Vec::new(),
            vcpus: Vec::new(),
            clock: GuestClock::UNKNOWN,
            vm,
        };
        for (index, &cpu) in cpus.iter().enumerate() {
            let orders = &microvm.vm.memory.mailbox(index).orders;
            orders.threshold_tsc.store(threshold_tsc, Ordering::Relaxed);
            let blind_limit_tsc = threshold_tsc.max(MIN_BLIND_LIMIT_TSC);
            orders
                .blind_limit_tsc
                .store(blind_limit_tsc, Ordering::Relaxed);
            microvm.add_vcpu(index, cpu, policy)?;
        }
        let clocks: Vec<GuestClock> = microvm.vcpus.iter().map(|vcpu| vcpu.clock).collect();
        microvm.clock = clock::weakest(&clocks).ok_or(Error::NoCpu)?;
        Ok(microvm)
    }

    fn add_vcpu(&mut self, index: usize, cpu: u32, policy: Option<Policy>) -> Result<(), Error> {
        let (send, ready) = mpsc::sync_channel(1);
        let failure = Arc::new(OnceLock::new());
        let life = Life {
            vm: Arc::clone(&self.vm),
            gate: Arc::clone(&self.gate),
            index,
            cpu,
            policy,
        };
        let handle = std::thread::Builder::new()
            .name(format!("vmnoise-vcpu{cpu}"))
            .spawn({
                let failure = Arc::clone(&failure);
                move || {
                    if let Err(error) = life.live(&send) {
                        // The one place that sets it.
                        let _ = failure.set(error);
                    }
                }
            })
            .map_err(|error| Error::Spawn {
                cpu,
                errno: error.raw_os_error().unwrap_or(0),
            })?;
        let Ok(Ready {
            tid,
            clock,
            steal_clock,
            exit_stat,
        }) = ready.recv()
        else {
            // It died in its set-up: the join makes its reason visible.
            let _ = handle.join();
            return Err(failure.get().cloned().unwrap_or(Error::Gone(cpu)));
        };
        self.threads.push(VcpuThread { cpu, tid });
        self.vcpus.push(RunningVcpu {
            handle: Some(handle),
            failure,
            clock,
            steal_clock,
            exit_stat,
        });
        Ok(())
    }

    /// The vCPU threads, in the order of [`Config::cpus`].
    pub fn threads(&self) -> &[VcpuThread] {
        &self.threads
    }

    /// How the guests' clocks lie on the host's TSC: the weakest statement that
    /// holds for all of them.
    pub fn clock(&self) -> GuestClock {
        self.clock
    }

    /// Whether KVM keeps a steal clock for every vCPU. If not, gaps carry no
    /// steal and no reloads, and tallies say `None`.
    pub fn has_steal_clock(&self) -> bool {
        self.vcpus.iter().all(|vcpu| vcpu.steal_clock)
    }

    /// Lets all vCPUs go. Each ends by itself at its first reading at or after
    /// `deadline_tsc` on the host's TSC. Called again, it only moves the deadline.
    ///
    /// # Errors
    /// The failure of a vCPU thread that died before the start.
    pub fn start(&mut self, deadline_tsc: Option<u64>) -> Result<(), Error> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        for (index, vcpu) in self.vcpus.iter().enumerate() {
            let guest_tsc = match deadline_tsc {
                Some(host) => to_guest(host, vcpu.clock.offset_tsc),
                None => u64::MAX,
            };
            self.vm
                .memory
                .mailbox(index)
                .orders
                .deadline_tsc
                .store(guest_tsc, Ordering::Release);
        }
        self.gate.open();
        Ok(())
    }

    /// Hands every recorded gap to `sink`, per CPU in the order of time, on the
    /// host's TSC. Call it 20 times a second or more, on a CPU not measured.
    ///
    /// Gaps of one CPU never overlap. Where [`Microvm::tallies`] is called first,
    /// every gap up to its `last_tsc` is handed out.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Gap)) {
        for (index, (thread, vcpu)) in self.threads.iter().zip(&self.vcpus).enumerate() {
            let to_host = |guest: u64| guest.wrapping_add_signed(vcpu.clock.offset_tsc);
            self.vm
                .memory
                .mailbox(index)
                .drain(self.vm.memory.ring(index), |felt| {
                    sink(Gap {
                        cpu: thread.cpu,
                        start_tsc: to_host(felt.start_tsc),
                        end_tsc: to_host(felt.end_tsc),
                        steal_ns: felt.steal_ns,
                        reloads: felt.reloads,
                        light_exits: felt.light_exits,
                        heavy_exits: felt.heavy_exits,
                    });
                });
        }
    }

    /// The counters of each CPU since the start; all zero before it. Light, heavy
    /// and outer are `None`: they are for the tracer to tell.
    pub fn tallies(&self) -> Vec<Tally> {
        let tally = |(index, (thread, vcpu)): (usize, (&VcpuThread, &RunningVcpu))| {
            let mailbox = self.vm.memory.mailbox(index);
            let (first, last) = mailbox.span_tsc();
            let to_host = |guest: u64| match guest {
                0 => 0,
                _ => guest.wrapping_add_signed(vcpu.clock.offset_tsc),
            };
            let stolen = vcpu.steal_clock.then(|| mailbox.stolen());
            Tally {
                cpu: thread.cpu,
                first_tsc: to_host(first),
                last_tsc: to_host(last),
                steal_clock_ns: stolen.map(|(ns, _)| ns),
                reloads: stolen.map(|(_, reloads)| reloads),
                kvm_stat_exits: vcpu.exit_stat.as_ref().and_then(ExitStat::read),
                ..Tally::default()
            }
        };
        self.threads
            .iter()
            .zip(&self.vcpus)
            .enumerate()
            .map(tally)
            .collect()
    }

    /// Gaps lost because a ring was full, on all CPUs since the start.
    pub fn dropped(&self) -> u64 {
        self.books(|books| books.dropped.load(Ordering::Relaxed))
            .sum()
    }

    /// Cycles each guest spent writing records since the start, in the order of
    /// [`Microvm::threads`]. Nothing is felt then: take it off the runtime.
    pub fn blind_tsc(&self) -> Vec<u64> {
        self.books(|books| books.blind_tsc.load(Ordering::Relaxed))
            .collect()
    }

    /// How often a guest's clock was behind its last reading, on all CPUs since
    /// the start. Not 0 means that the TSC is not to be trusted.
    pub fn clock_steps_back(&self) -> u64 {
        self.books(|books| books.steps_back.load(Ordering::Relaxed))
            .sum()
    }

    fn books(&self, read: impl Fn(&mailbox::Books) -> u64) -> impl Iterator<Item = u64> {
        (0..self.vcpus.len()).map(move |index| read(&self.vm.memory.mailbox(index).books))
    }

    /// Whether any vCPU thread is still there: from the preparation until the
    /// last one has reached its end.
    pub fn running(&self) -> bool {
        let running = |vcpu: &RunningVcpu| {
            vcpu.handle
                .as_ref()
                .is_some_and(|handle| !handle.is_finished())
        };
        self.vcpus.iter().any(running)
    }

    /// Why a vCPU ended early, if one did. The others go on, and what was
    /// recorded stays.
    pub fn failure(&self) -> Option<Error> {
        self.vcpus
            .iter()
            .find_map(|vcpu| vcpu.failure.get().cloned())
    }

    /// Asks all vCPUs to end now: each does at its next reading.
    pub fn stop(&mut self) {
        for index in 0..self.vcpus.len() {
            self.vm
                .memory
                .mailbox(index)
                .orders
                .deadline_tsc
                .store(0, Ordering::Release);
        }
    }

    /// Waits until every vCPU has reached its end. One that was never started
    /// has; one without a deadline ends at [`Microvm::stop`] only. Drain and read
    /// the tallies once more before the microVM is dropped.
    ///
    /// # Errors
    /// The failure of a vCPU that ended early.
    pub fn join(&mut self) -> Result<(), Error> {
        if !self.gate.is_open() {
            self.gate.close();
        }
        for (thread, vcpu) in self.threads.iter().zip(&mut self.vcpus) {
            if let Some(handle) = vcpu.handle.take()
                && handle.join().is_err()
            {
                return Err(Error::Gone(thread.cpu));
            }
        }
        self.failure().map_or(Ok(()), Err)
    }
}

impl Drop for Microvm {
    fn drop(&mut self) {
        self.stop();
        self.gate.close();
        let begin = Instant::now();
        while self.running() && begin.elapsed() < DROP_PATIENCE {
            for thread in &self.threads {
                gate::kick(thread.tid);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The life of one vCPU thread.
struct Life {
    vm: Arc<Vm>,
    gate: Arc<Gate>,
    index: usize,
    cpu: u32,
    policy: Option<Policy>,
}

impl Life {
    fn live(self, ready: &mpsc::SyncSender<Ready>) -> Result<(), Error> {
        thread::pin(&[self.cpu])?;
        let mut vcpu = Vcpu::create(&self.vm, self.index, self.cpu)?;
        if let Some(policy) = self.policy {
            thread::set_policy(policy)?;
        }
        let message = Ready {
            tid: thread::tid(),
            clock: vcpu.clock,
            steal_clock: vcpu.steal_clock,
            exit_stat: vcpu.exit_stat(),
        };
        // Nobody to hear it means that the microVM is being dropped: the gate says so.
        let _ = ready.send(message);
        if self.gate.pass() {
            vcpu.obey(Command::Poll, &|| self.gate.is_closed())?;
        }
        Ok(())
    }
}

/// A deadline of the host on a guest's clock; one before its zero has passed.
fn to_guest(host_tsc: u64, offset_tsc: i64) -> u64 {
    let guest = i128::from(host_tsc) - i128::from(offset_tsc);
    u64::try_from(guest.max(0)).unwrap_or(u64::MAX)
}
