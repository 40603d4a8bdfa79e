//! A microVM that feels every gap: one vCPU on each measured CPU, polling the
//! TSC, with nothing else in it.
//!
//! The guest reads the hypervisor's steal clock at each gap and finds the host's
//! live exit counts in its memory, as the thesis proposes. The host drains gaps
//! from a ring that costs the guest nothing while it polls.

mod clock;
mod error;
pub mod exercise;
mod guest;
mod layout;
mod offer;
mod shared_pages;
mod stats;
mod vcpu;
mod vm;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmnoise_events::{Gap, Policy, Tally};

pub use clock::GuestClock;
pub use error::Error;
pub use offer::{KvmOffer, offer, poll_steps};
pub use shared_pages::SharedPages;

use crate::lease::Lease;
use crate::start_barrier::StartBarrier;
use crate::thread;
use vm::Vm;
use worker::{Assignment, Worker};

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
    barrier: Arc<StartBarrier>,
    lease: Arc<Lease>,
    workers: Vec<Worker>,
    threads: Vec<VcpuThread>,
    clock: GuestClock,
}

impl Microvm {
    /// Creates the VM and one pinned thread per vCPU, and proves their clocks.
    /// The threads then wait for [`Microvm::start`].
    ///
    /// # Errors
    /// What this machine lacks, with the remedy; nothing is left behind.
    pub fn prepare(config: Config) -> Result<Microvm, crate::Error> {
        let Config {
            cpus,
            threshold_tsc,
            policy,
            exit_counts,
        } = config;
        let mut microvm = Microvm {
            vm: Arc::new(Vm::create(&cpus, exit_counts)?),
            barrier: Arc::new(StartBarrier::default()),
            lease: Arc::default(),
            workers: Vec::new(),
            threads: Vec::new(),
            clock: GuestClock::UNKNOWN,
        };
        for (index, &cpu) in cpus.iter().enumerate() {
            microvm
                .vm
                .memory
                .mailbox(index)
                .set_threshold(threshold_tsc);
            let (vm, barrier) = (Arc::clone(&microvm.vm), Arc::clone(&microvm.barrier));
            // An error drops what there is of the microVM, and that ends its threads.
            let worker = Worker::spawn(Assignment {
                vm,
                barrier,
                lease: Arc::clone(&microvm.lease),
                index,
                cpu,
                policy,
            })?;
            microvm.threads.push(worker.thread);
            microvm.workers.push(worker);
        }
        let clocks: Vec<GuestClock> = microvm.workers.iter().map(|worker| worker.clock).collect();
        microvm.clock = clock::weakest(&clocks).ok_or(thread::Error::NoCpu)?;
        Ok(microvm)
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
        self.workers.iter().all(|worker| worker.steal_clock)
    }

    /// Lets all vCPUs go. Each ends by itself at its first reading at or after
    /// `end_tsc` on the host's TSC. Called again, it only moves that.
    ///
    /// # Errors
    /// The failure of a vCPU thread that has died already.
    pub fn start(&mut self, end_tsc: Option<u64>) -> Result<(), crate::Error> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.lease.end_at(end_tsc.unwrap_or(u64::MAX));
        self.tell_deadline();
        self.barrier.open();
        Ok(())
    }

    /// The guests may poll until `until_tsc` on the host's TSC; then their threads sleep until
    /// it is moved, which is blind time. Without this they poll until their end.
    pub fn renew(&mut self, until_tsc: u64) {
        self.lease.renew(until_tsc);
        self.tell_deadline();
    }

    fn tell_deadline(&self) {
        for worker in &self.workers {
            worker.set_deadline(self.lease.deadline_tsc());
        }
    }

    /// Hands every recorded gap to `sink`, per CPU in the order of time, on the
    /// host's TSC. Call it 20 times a second or more, on a CPU not measured.
    ///
    /// Gaps of one CPU never overlap; two may touch. Where [`Microvm::tallies`] is
    /// called first, every gap up to its `last_tsc` is handed out.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Gap)) {
        for worker in &self.workers {
            worker.drain(sink);
        }
    }

    /// The counters of each CPU since the start; all zero before it. Light, heavy
    /// and outer are `None`: they are for the tracer to tell.
    pub fn tallies(&self) -> Vec<Tally> {
        self.workers.iter().map(Worker::tally).collect()
    }

    /// Gaps lost because a ring was full, on all CPUs since the start.
    pub fn dropped(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.mailbox().count(|counters| &counters.dropped))
            .sum()
    }

    /// How often a guest's clock was behind its last reading, on all CPUs since
    /// the start. Not 0 means that the TSC is not to be trusted.
    pub fn clock_steps_back(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.mailbox().count(|counters| &counters.steps_back))
            .sum()
    }

    /// Whether any vCPU thread is still there: from the preparation until the
    /// last one has reached its end.
    pub fn running(&self) -> bool {
        self.workers.iter().any(Worker::running)
    }

    /// Why a vCPU ended early, if one did, or lost its CPU (offline, or out of the
    /// cpuset) and feels another's gaps since. The others go on, and what was
    /// recorded stays.
    pub fn failure(&self) -> Option<crate::Error> {
        self.workers.iter().find_map(Worker::failure)
    }

    /// Asks all vCPUs to end now: each does at its next reading.
    pub fn stop(&mut self) {
        self.lease.end_at(0);
        self.tell_deadline();
    }

    /// Waits until every vCPU has reached its end. One that was never started
    /// has; one without a deadline ends at [`Microvm::stop`] only. Drain and read
    /// the tallies once more before the microVM is dropped.
    ///
    /// # Errors
    /// The failure of a vCPU that ended early, once all have ended.
    pub fn join(&mut self) -> Result<(), crate::Error> {
        if !self.barrier.is_open() {
            self.barrier.close();
        }
        let ends: Vec<_> = self.workers.iter_mut().map(Worker::join).collect();
        ends.into_iter().collect()
    }
}

impl Drop for Microvm {
    fn drop(&mut self) {
        self.stop();
        self.barrier.close();
        let begin = Instant::now();
        while self.running() && begin.elapsed() < DROP_PATIENCE {
            self.workers.iter().for_each(Worker::kick);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod kvm {
    use std::sync::atomic::Ordering;

    use super::*;

    fn endless(cpus: &[u32]) -> Microvm {
        let cpus = cpus.to_vec();
        Microvm::prepare(Config {
            cpus,
            threshold_tsc: 2_500,
            policy: None,
            exit_counts: None,
        })
        .unwrap()
    }

    fn wait_until(mut done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(30), "not yet");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_guest_that_faults_is_named_and_the_others_go_on() {
        let mut microvm = endless(&[0, 1]);
        // An address that no page table maps: without an IDT, a shutdown.
        microvm
            .vm
            .memory
            .mailbox(0)
            .control
            .exit_counts
            .store(1 << 40, Ordering::Relaxed);
        microvm.start(None).unwrap();
        wait_until(|| microvm.failure().is_some());
        let failure = microvm.failure().unwrap();
        assert!(
            failure.to_string().contains("KVM_EXIT_SHUTDOWN"),
            "{failure}"
        );
        wait_until(|| microvm.tallies()[1].first_tsc > 0);
        assert!(microvm.running() && microvm.start(None).is_err());
        microvm.stop();
        assert_eq!(microvm.join(), Err(failure));
        assert!(!microvm.running());
    }

    #[test]
    fn a_signal_is_a_gap_and_no_end() {
        let mut microvm = endless(&[1]);
        microvm.start(None).unwrap();
        wait_until(|| microvm.tallies()[0].first_tsc > 0);
        for _ in 0..20 {
            let seen = microvm.tallies()[0];
            microvm.workers[0].kick();
            // Entered again, with its steal clock brought up to date.
            wait_until(|| {
                let now = microvm.tallies()[0];
                now.last_tsc > seen.last_tsc
                    && (now.reloads.is_none() || now.reloads > seen.reloads)
            });
        }
        assert_eq!(microvm.failure(), None);
        assert!(microvm.running());
    }

    #[test]
    fn a_guest_that_ignores_its_deadline_is_called_out() {
        let mut microvm = endless(&[1]);
        microvm.start(None).unwrap();
        microvm.barrier.close();
        wait_until(|| {
            microvm.workers[0].kick();
            !microvm.running()
        });
        assert_eq!(microvm.join(), Ok(()));
    }
}
