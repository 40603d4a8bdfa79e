//! Random lives of two vCPUs on three CPUs: everything that a kernel could do with them, ordered by
//! time. Some events are lost.

use super::harness::{CPUID, HLT, IDLE, IO, VCPU};
use super::lives::Choice;
use super::moment::{Left, Moment, What};

/// Number of CPUs.
pub(super) const CPUS: u64 = 3;
/// Number of the task of CPU 0. Each CPU has its own task, whose number is this number plus the
/// number of the CPU.
const TASKS: u64 = 7;
/// Number of interruptions after which a halt ends as soon as possible. Together with interruptions
/// in progress there are at most seven. BPF can separate this many from earlier interruptions
/// (docs/exits.md).
const ENDS_HALT: u32 = 5;

/// Bits of `begins` in [`live`]. If all of them are set, the life has as many exits as possible.
pub(super) const BRISK: u64 = 0x700;

/// Place of a vCPU's thread in the life cycle of an exit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// The thread runs its guest. `left`: whether the host has had the CPU since the entry, so that
    /// an exit follows.
    Guest {
        left: bool,
    },
    Kvm,
    Vmm,
    Halt {
        since: u64,
        slept: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Thread {
    On,
    Runnable,
    Asleep,
}

#[derive(Debug)]
struct Vcpu {
    tid: u64,
    place: Place,
    thread: Thread,
    cpu: u64,
    /// Number of interruptions since the vCPU's halt began.
    interruptions: u32,
}

#[derive(Debug)]
struct Cpu {
    task: u64,
    irq: bool,
    softirq: bool,
}

/// State of the simulated machine.
#[derive(Debug)]
struct Life {
    reported: Vec<Moment>,
    now: u64,
    step: u64,
    lost: bool,
    /// Whether kvm_exit and kvm_entry never fire.
    kvm_run_only: bool,
    /// Whether vCPUs rarely get time between interruptions.
    stormy: bool,
    /// Whether vCPUs rarely do anything except exits and entries.
    brisk: bool,
    cpus: Vec<Cpu>,
    vcpus: Vec<Vcpu>,
}

/// Returns the events that follow from these choices. The stream begins at a random point in the
/// lives of the vCPUs, and ends when every halt is over.
pub(super) fn live(begins: u64, choices: &[Choice], kvm_run_only: bool) -> Vec<Moment> {
    let mut life = Life::begin(begins, kvm_run_only);
    for (step, choice, lost) in choices {
        (life.step, life.lost) = (*step, *lost);
        life.now += step;
        life.go_on(*choice);
    }
    (life.step, life.lost) = (3, false);
    life.rest();
    life.reported
}

impl Life {
    fn begin(begins: u64, kvm_run_only: bool) -> Life {
        let place = |choice: u64| match choice % 4 {
            0 if !kvm_run_only => Place::Guest { left: false },
            1 => Place::Vmm,
            2 => Place::Halt {
                since: 900,
                slept: false,
            },
            _ => Place::Kvm,
        };
        let vcpu = |number: u64, choice| Vcpu {
            tid: VCPU + number,
            place: place(choice),
            thread: Thread::On,
            cpu: number,
            interruptions: 0,
        };
        let cpu = |task| Cpu {
            task,
            irq: false,
            softirq: false,
        };
        let mut life = Life {
            reported: Vec::new(),
            now: 1_000,
            step: 0,
            lost: false,
            kvm_run_only,
            stormy: (begins >> 8).is_multiple_of(4),
            brisk: begins & BRISK == BRISK,
            cpus: vec![cpu(VCPU), cpu(VCPU + 1), cpu(TASKS + 2)],
            vcpus: vec![vcpu(0, begins), vcpu(1, begins / 4)],
        };
        life.switch(2, IDLE, Left::Slept);
        life
    }

    fn report(&mut self, cpu: u64, what: What) {
        let at = self.now;
        self.reported.push(Moment { at, cpu, what });
    }

    /// Reports an event, unless the choice is to lose it. Returns whether the event was reported.
    fn report_perhaps(&mut self, cpu: u64, what: What) -> bool {
        if !self.lost {
            self.report(cpu, what);
        }
        !self.lost
    }

    fn vcpu_on(&mut self, cpu: u64) -> Option<&mut Vcpu> {
        let task = self.cpus[cpu as usize].task;
        self.vcpus.iter_mut().find(|vcpu| vcpu.tid == task)
    }

    /// Notes that the host works on this CPU for a moment.
    fn host_begins(&mut self, cpu: u64) {
        if let Some(Vcpu {
            place: Place::Guest { left },
            ..
        }) = self.vcpu_on(cpu)
        {
            *left = true;
        }
    }

    fn host_ends(&mut self, cpu: u64) {
        if let Some(vcpu) = self.vcpu_on(cpu) {
            vcpu.interruptions += 1;
        }
    }

    fn go_on(&mut self, choice: u64) {
        let (cpu, choice) = ([0, 0, 0, 1, 1, 2][choice as usize % 6], choice / 6);
        let Cpu { irq, softirq, .. } = self.cpus[cpu as usize];
        let halt = self.vcpu_on(cpu).and_then(|vcpu| {
            let ends = vcpu.interruptions >= ENDS_HALT;
            (ends && matches!(vcpu.place, Place::Halt { .. })).then_some((vcpu.tid, vcpu.place))
        });
        let (seldom, of_vcpu) = (choice / 256 % 16, choice / 16);
        let brisk = self.brisk && seldom != 0 && self.vcpu_on(cpu).is_some();
        let of_vcpu = if brisk { of_vcpu & !3 } else { of_vcpu };
        let what = match choice % 16 {
            _ if brisk => 7,
            what @ 8..=14 if self.stormy => [0, 4, 5, 6, 0, 4, 6][what as usize - 8],
            what => what,
        };
        match (what, halt) {
            (_, Some(_)) if irq => self.exit(cpu, What::IrqExit),
            (_, Some(_)) if softirq => self.exit(cpu, What::SoftirqExit),
            (_, Some((tid, place))) => self.vcpu_goes_on(cpu, tid, place, 2),
            (0, _) => self.nmi(cpu, choice / 16),
            (1 | 2, _) => self.wake(cpu, choice / 16),
            (3, _) => self.migrate(choice / 16),
            (4, _) if !irq => self.entry(cpu, What::IrqEntry),
            _ if irq => self.exit(cpu, What::IrqExit),
            (5, _) if !softirq => self.entry(cpu, What::SoftirqEntry),
            _ if softirq => self.exit(cpu, What::SoftirqExit),
            (6, _) => self.switch_any(cpu, Left::Preempted, choice / 16),
            _ => match self.vcpu_on(cpu).map(|vcpu| (vcpu.tid, vcpu.place)) {
                Some((tid, place)) => self.vcpu_goes_on(cpu, tid, place, of_vcpu),
                None => self.switch_any(cpu, Left::Slept, choice / 16),
            },
        }
    }

    fn nmi(&mut self, cpu: u64, choice: u64) {
        self.host_begins(cpu);
        if self.report_perhaps(cpu, What::Nmi(1 + choice % self.step)) {
            self.host_ends(cpu);
        }
    }

    fn entry(&mut self, cpu: u64, what: What) {
        self.host_begins(cpu);
        let host = &mut self.cpus[cpu as usize];
        *(if what == What::IrqEntry {
            &mut host.irq
        } else {
            &mut host.softirq
        }) = true;
        self.report(cpu, what);
    }

    fn exit(&mut self, cpu: u64, what: What) {
        let host = &mut self.cpus[cpu as usize];
        *(if what == What::IrqExit {
            &mut host.irq
        } else {
            &mut host.softirq
        }) = false;
        self.report(cpu, what);
        self.host_ends(cpu);
    }

    fn wake(&mut self, cpu: u64, choice: u64) {
        let mut asleep = self.vcpus.iter_mut();
        let asleep = match choice % 2 {
            0 => asleep.find(|it| it.thread == Thread::Asleep),
            _ => asleep.rfind(|it| it.thread == Thread::Asleep),
        };
        if let Some(vcpu) = asleep {
            vcpu.thread = Thread::Runnable;
            let tid = vcpu.tid;
            self.report_perhaps(cpu, What::Waking(tid));
        }
    }

    fn migrate(&mut self, choice: u64) {
        let mut waits = self.vcpus.iter_mut();
        let waits = waits.find(|it| it.thread == Thread::Runnable && it.tid % 2 == choice % 2);
        if let Some(vcpu) = waits {
            vcpu.cpu = (vcpu.cpu + 1 + choice / 2 % (CPUS - 1)) % CPUS;
            let (tid, cpu) = (vcpu.tid, vcpu.cpu);
            let on = std::array::from_fn(|cpu| self.cpus[cpu].task);
            self.report_perhaps(cpu, What::Migrate(tid, on));
        }
    }

    fn switch_any(&mut self, cpu: u64, left: Left, choice: u64) {
        let (which, left) = match left {
            Left::Preempted if choice % 2 == 1 => (choice / 2, Left::Yielded),
            _ => (choice / 2, left),
        };
        let mut waits = self.vcpus.iter();
        let waits = waits.find(|it| it.thread == Thread::Runnable && it.cpu == cpu);
        let next = match (which % 4, waits) {
            (1.., Some(vcpu)) => vcpu.tid,
            (0, _) => IDLE,
            _ => TASKS + cpu,
        };
        self.switch(cpu, next, left);
    }

    fn switch(&mut self, cpu: u64, next: u64, left: Left) {
        let prev = self.cpus[cpu as usize].task;
        if prev == next {
            return;
        }
        self.host_begins(cpu);
        if let Some(vcpu) = self.vcpu_on(cpu) {
            vcpu.thread = match left {
                Left::Slept => Thread::Asleep,
                _ => Thread::Runnable,
            };
        }
        self.cpus[cpu as usize].task = next;
        self.report(cpu, What::Switch(prev, next, left));
        if let Some(vcpu) = self.vcpu_on(cpu) {
            vcpu.thread = Thread::On;
            vcpu.interruptions += 1;
        }
    }

    /// Chooses the next step of a thread that has a CPU and is not interrupted.
    fn vcpu_goes_on(&mut self, cpu: u64, tid: u64, place: Place, choice: u64) {
        let next = match (place, choice % 4) {
            (Place::Guest { .. }, _) => {
                let code = [CPUID, IO, HLT][choice as usize / 4 % 3];
                self.report_perhaps(cpu, What::Exit(tid, code));
                Place::Kvm
            }
            (Place::Kvm, 0) if !self.kvm_run_only => {
                self.report_perhaps(cpu, What::Entry(tid));
                Place::Guest { left: false }
            }
            (Place::Kvm, 0 | 1) => {
                self.report_perhaps(cpu, What::RunLeave(tid));
                Place::Vmm
            }
            (Place::Kvm, 2) => {
                self.halt_begins(tid);
                Place::Halt {
                    since: self.now,
                    slept: false,
                }
            }
            (Place::Halt { since, .. }, 0 | 1) => {
                self.sleep(cpu, choice);
                Place::Halt { since, slept: true }
            }
            (Place::Halt { since, slept }, _) => {
                self.report_perhaps(cpu, What::Halted(tid, self.now - since, slept));
                Place::Kvm
            }
            (Place::Kvm | Place::Vmm, 3) => {
                self.sleep(cpu, choice);
                place
            }
            (Place::Kvm, _) => place,
            (Place::Vmm, _) => {
                self.report_perhaps(cpu, What::RunEnter(tid));
                Place::Kvm
            }
        };
        let mut vcpus = self.vcpus.iter_mut();
        if let Some(vcpu) = vcpus.find(|vcpu| vcpu.tid == tid) {
            vcpu.place = next;
        }
    }

    fn sleep(&mut self, cpu: u64, choice: u64) {
        let next = if (choice / 4).is_multiple_of(2) {
            IDLE
        } else {
            TASKS + cpu
        };
        self.switch(cpu, next, Left::Slept);
    }

    fn halt_begins(&mut self, tid: u64) {
        let mut vcpus = self.vcpus.iter_mut();
        if let Some(vcpu) = vcpus.find(|vcpu| vcpu.tid == tid) {
            vcpu.interruptions = 0;
        }
    }

    /// Ends all halts, interrupts and waits, without losses.
    fn rest(&mut self) {
        for cpu in 0..CPUS {
            self.now += self.step;
            if self.cpus[cpu as usize].irq {
                self.exit(cpu, What::IrqExit);
            }
            self.now += self.step;
            if self.cpus[cpu as usize].softirq {
                self.exit(cpu, What::SoftirqExit);
            }
        }
        for number in 0..self.vcpus.len() {
            let tid = self.vcpus[number].tid;
            if self.vcpus[number].thread == Thread::Asleep {
                self.now += self.step;
                self.wake(0, tid);
            }
            let cpu = self.vcpus[number].cpu;
            if self.vcpus[number].thread == Thread::Runnable {
                self.now += self.step;
                self.switch(cpu, tid, Left::Preempted);
            }
            loop {
                let place = self.vcpus[number].place;
                if place == (Place::Guest { left: false }) {
                    break;
                }
                self.now += self.step;
                let choice = if place == Place::Kvm { 0 } else { 2 };
                self.vcpu_goes_on(cpu, tid, place, choice);
                if self.kvm_run_only && place == Place::Vmm {
                    break;
                }
            }
        }
    }
}
