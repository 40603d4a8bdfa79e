//! The host thread that runs one vCPU, from its set-up to its end.

use std::sync::Arc;

use vmnoise_events::{Gap, Policy, Tally};

use super::guest::Command;
use super::stats::{EXITS, VcpuStat};
use super::vcpu::{Return, Vcpu};
use super::vm::Vm;
use super::{GuestClock, VcpuThread};
use crate::Error;
use crate::kick;
use crate::lease::Lease;
use crate::mailbox::{Known, Mailbox};
use crate::measuring_thread::{MeasuringThread, SetUp};
use crate::start_barrier::StartBarrier;
use crate::thread;

/// A thread at the barrier, in the guest, or at its end.
#[derive(Debug)]
pub struct Worker {
    vm: Arc<Vm>,
    index: usize,
    pub thread: VcpuThread,
    pub clock: GuestClock,
    pub steal_clock: bool,
    /// Counts from the end of the set-up.
    exit_stat: Option<VcpuStat>,
    life: MeasuringThread,
}

/// What the thread is given.
pub struct Assignment {
    pub vm: Arc<Vm>,
    pub barrier: Arc<StartBarrier>,
    pub lease: Arc<Lease>,
    /// Which vCPU of the VM it runs.
    pub index: usize,
    /// Where it is pinned.
    pub cpu: u32,
    pub policy: Option<Policy>,
}

/// What the thread says once it is set up.
struct Ready {
    tid: u32,
    clock: GuestClock,
    steal_clock: bool,
    exit_stat: Option<VcpuStat>,
}

impl Worker {
    /// Starts the thread and waits until it stands at the barrier.
    pub fn spawn(assignment: Assignment) -> Result<Worker, Error> {
        let (vm, index, cpu) = (Arc::clone(&assignment.vm), assignment.index, assignment.cpu);
        let name = format!("vmnoise-vcpu{cpu}");
        let (life, ready) =
            MeasuringThread::spawn(name, cpu, move |set_up| assignment.carry_out(set_up))?;
        let Ready {
            tid,
            clock,
            steal_clock,
            exit_stat,
        } = ready;
        Ok(Worker {
            vm,
            index,
            thread: VcpuThread { cpu, tid },
            clock,
            steal_clock,
            exit_stat,
            life,
        })
    }

    /// Says when the guest comes back, on the host's TSC; `u64::MAX` is never.
    pub fn set_deadline(&self, host_tsc: u64) {
        let guest_tsc = match host_tsc {
            u64::MAX => u64::MAX,
            host_tsc => self.clock.to_guest(host_tsc),
        };
        self.mailbox().set_deadline(guest_tsc);
    }

    /// Hands out every recorded gap on the host's TSC.
    pub fn drain(&self, sink: &mut dyn FnMut(Gap)) {
        let ring = self.vm.memory.ring(self.index);
        self.mailbox().drain(ring, |record| {
            let gap = record.gap(self.thread.cpu, self.known());
            sink(Gap {
                start_tsc: self.clock.to_host(gap.start_tsc),
                end_tsc: self.clock.to_host(gap.end_tsc),
                ..gap
            });
        });
    }

    /// The counters so far; light, heavy and outer are not known here.
    pub fn tally(&self) -> Tally {
        let mut tally = self.mailbox().tally(self.thread.cpu, self.known());
        if tally.first_tsc > 0 {
            tally.first_tsc = self.clock.to_host(tally.first_tsc);
            tally.last_tsc = self.clock.to_host(tally.last_tsc);
        }
        tally.kvm_stat_exits = self.exit_stat.as_ref().and_then(VcpuStat::read);
        tally
    }

    fn known(&self) -> Known {
        Known {
            steal_clock: self.steal_clock,
            reloads: self.steal_clock,
            interference: false,
        }
    }

    /// What is shared with the guest.
    pub fn mailbox(&self) -> &Mailbox {
        self.vm.memory.mailbox(self.index)
    }

    /// Makes the thread leave KVM_RUN once, to look at the barrier.
    pub fn kick(&self) {
        kick::kick(self.thread.tid);
    }

    /// Whether the thread is still there.
    pub fn running(&self) -> bool {
        self.life.running()
    }

    /// Why the thread ended early, if it did, or lost its CPU: the guest cannot know
    /// on which it runs.
    pub fn failure(&self) -> Option<Error> {
        let unpinned = || thread::still_pinned(self.thread.tid, self.thread.cpu).err();
        self.life.failure().or_else(|| unpinned().map(Error::from))
    }

    /// Waits for the thread's end.
    pub fn join(&mut self) -> Result<(), Error> {
        self.life.join()
    }
}

impl Assignment {
    fn carry_out(self, set_up: &SetUp<Ready>) -> Result<(), Error> {
        thread::pin(&[self.cpu])?;
        let mut vcpu = Vcpu::create(&self.vm, self.index, self.cpu)?;
        if let Some(policy) = self.policy {
            thread::set_policy(policy)?;
        }
        let message = Ready {
            tid: thread::tid(),
            clock: vcpu.clock,
            steal_clock: vcpu.steal_clock,
            exit_stat: vcpu.stat(EXITS),
        };
        set_up.is_done(message)?;
        if !self.barrier.wait() {
            return Ok(());
        }
        let mut command = Command::Poll;
        loop {
            let came_back = vcpu.obey(command, &|| self.barrier.is_closed())?;
            if came_back == Return::Abandoned || !self.lease.goes_on() {
                return Ok(());
            }
            command = Command::GoOn;
        }
    }
}
