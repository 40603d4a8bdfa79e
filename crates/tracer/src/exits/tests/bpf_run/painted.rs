//! Computes the shares from the events in a second way. Each nanosecond gets an owner by the
//! definitions of docs/exits.md. The painter keeps no sums, and does not use the handlers' code.

use vmnoise_events::{Exit, ExitReason, Isa, Share, ShareMap};

use super::harness::IDLE;
use super::life::CPUS;
use super::moment::{Left, Moment, What};

/// Same as in bpf/exits_test.bpf.c. If the host does nothing for longer than this time after an
/// NMI, the guest ran.
const ENTRY_NS: u64 = 30;

/// Bits for the work on a CPU at an instant.
const NMI: u8 = 1;
const IRQ: u8 = 2;
const SOFTIRQ: u8 = 4;
const IDLES: u8 = 8;

/// State of a vCPU's thread at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Thread {
    On,
    Waits,
    Sleeps,
}

/// Owner of an instant in the life of a vCPU.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Owner {
    /// The guest, or KVM.
    Own,
    Vmm,
    Preempted,
    Blocked,
    Throttled,
    Irq,
    Softirq,
    Nmi,
    Halted,
}

/// Expected counts of a vCPU, in ns.
#[derive(Debug, Default)]
pub(super) struct Painted {
    /// The exits, ordered by time.
    pub(super) exits: Vec<Exit>,
    /// Split of the time outside exits, if not all exits are seen. The share `kvm` is 0.
    pub(super) inside_run: ShareMap<u64>,
    /// Times inside KVM_RUN of which `inside_run` is the sum: begin, end and split. Here, `kvm` has
    /// the time of KVM and the guest.
    pub(super) stays: Vec<(u64, u64, ShareMap<u64>)>,
    /// Time between two entries without a counted exit between them.
    pub(super) unseen_ns: u64,
    pub(super) first_mono_ns: u64,
    pub(super) last_mono_ns: u64,
}

/// State of one vCPU at each instant, beginning at `base`.
struct Canvas<'a> {
    moments: &'a [Moment],
    tid: u64,
    base: u64,
    /// Work of each CPU at each instant.
    work: Vec<Vec<u8>>,
    thread: Vec<(Thread, u64)>,
    halted: Vec<bool>,
    in_vmm: Vec<bool>,
}

/// Computes the counts of the vCPU with this thread from the events.
pub(super) fn paint(moments: &[Moment], tid: u64, kvm_run_only: bool) -> Painted {
    let (first, last) = (moments[0].at, moments[moments.len() - 1].at);
    let len = (last - first + 1) as usize;
    let mut canvas = Canvas {
        moments,
        tid,
        base: first,
        work: (0..CPUS).map(|_| vec![0; len]).collect(),
        thread: vec![(Thread::On, 0); len],
        halted: vec![false; len],
        in_vmm: vec![false; len],
    };
    for cpu in 0..CPUS {
        canvas.paint_work(cpu);
    }
    // Before KVM names the thread, it is unknown that the thread is a vCPU.
    let of_kvm = |it: &&Moment| match it.what {
        What::RunLeave(it) | What::RunEnter(it) | What::Exit(it, _) | What::Entry(it) => it == tid,
        _ => false,
    };
    let Some(known) = moments.iter().find(of_kvm).copied() else {
        return Painted::default();
    };
    canvas.paint_thread(known);
    canvas.paint_vmm();
    canvas.paint_halts(known.at);
    match kvm_run_only {
        true => canvas.runs(known.at),
        false => canvas.exits(),
    }
}

impl<'a> Canvas<'a> {
    fn place(&self, at: u64) -> usize {
        (at - self.base) as usize
    }

    fn on(&self, cpu: u64) -> impl Iterator<Item = &'a Moment> + use<'a> {
        let moments = self.moments.iter();
        moments.filter(move |it| it.cpu == cpu && !matches!(it.what, What::Migrate(..)))
    }

    fn paint_bit(&mut self, cpu: u64, bit: u8, from: u64, to: u64) {
        let range = self.place(from.max(self.base))..self.place(to);
        self.work[cpu as usize][range]
            .iter_mut()
            .for_each(|work| *work |= bit);
    }

    fn paint_work(&mut self, cpu: u64) {
        let end = self.base + self.halted.len() as u64;
        let (mut irq, mut softirq, mut idle) = (None, None, None);
        for Moment { at, what, .. } in self.on(cpu) {
            match what {
                What::IrqEntry => irq = Some(*at),
                What::SoftirqEntry => softirq = Some(*at),
                What::IrqExit => self.paint_bit(cpu, IRQ, irq.take().unwrap_or(*at), *at),
                What::SoftirqExit => {
                    self.paint_bit(cpu, SOFTIRQ, softirq.take().unwrap_or(*at), *at);
                }
                What::Nmi(ns) => self.paint_bit(cpu, NMI, at - ns, *at),
                What::Switch(_, next, _) => {
                    self.paint_bit(cpu, IDLES, idle.take().unwrap_or(*at), *at);
                    idle = (*next == IDLE).then_some(*at);
                }
                _ => {}
            }
        }
        for (bit, since) in [(IRQ, irq), (SOFTIRQ, softirq), (IDLES, idle)] {
            self.paint_bit(cpu, bit, since.unwrap_or(end), end);
        }
    }

    fn does(&self, cpu: u64, at: u64, bit: u8) -> bool {
        self.work[cpu as usize][self.place(at)] & bit != 0
    }

    fn paint_thread(&mut self, known: Moment) {
        let (mut since, mut cpu, mut thread) = (known.at, known.cpu, Thread::On);
        let mut woken = None;
        for it in self.moments.iter().filter(|it| it.at > known.at) {
            let next = match it.what {
                What::Switch(prev, _, left) if prev == self.tid => {
                    let slept = left == Left::Slept;
                    (it.cpu, if slept { Thread::Sleeps } else { Thread::Waits })
                }
                What::Switch(_, next, _) if next == self.tid => (it.cpu, Thread::On),
                // The thread already waits, and continues to wait for another CPU.
                What::Migrate(tid, _)
                    if tid == self.tid
                        && it.cpu != cpu
                        && (thread == Thread::Waits
                            || thread == Thread::Sleeps && woken.is_some()) =>
                {
                    (it.cpu, thread)
                }
                What::Waking(tid) if tid == self.tid && thread == Thread::Sleeps => {
                    woken = woken.or(Some(it.at));
                    continue;
                }
                _ => continue,
            };
            self.paint_stay(since, it.at, cpu, thread, woken);
            (since, cpu, thread) = (it.at, next.0, next.1);
            // The thread has been awake since its arrival on the CPU to which it moved.
            woken = match it.what {
                What::Migrate(..) => woken.map(|_| it.at),
                _ => None,
            };
        }
        let end = self.base + self.halted.len() as u64;
        self.paint_stay(since, end, cpu, thread, woken);
    }

    /// Sets the thread's state from `from` to `to`, in which it is on one CPU. After a wake-up the
    /// thread waits. If the CPU idles at the end, the whole time counts as sleep instead.
    fn paint_stay(&mut self, from: u64, to: u64, cpu: u64, thread: Thread, woken: Option<u64>) {
        let idles = from < to && self.does(cpu, to - 1, IDLES);
        let woken = woken.filter(|_| !idles).unwrap_or(to);
        let (first, last) = (self.place(from), self.place(to));
        let middle = match thread {
            Thread::Sleeps => self.place(woken),
            _ => last,
        };
        self.thread[first..middle].fill((thread, cpu));
        self.thread[middle..last].fill((Thread::Waits, cpu));
    }

    fn paint_vmm(&mut self) {
        let mut left = None;
        for it in self.moments {
            match it.what {
                What::RunLeave(tid) if tid == self.tid => left = Some(it.at),
                What::Entry(tid) if tid == self.tid => left = None,
                What::RunEnter(tid) if tid == self.tid => {
                    let range = self.place(left.take().unwrap_or(it.at))..self.place(it.at);
                    self.in_vmm[range].fill(true);
                }
                _ => {}
            }
        }
    }

    /// Sets halts, which the halted thread reports when they end.
    fn paint_halts(&mut self, known_at: u64) {
        for it in self.moments.iter().filter(|it| it.at > known_at) {
            if let What::Halted(tid, ns, _) = it.what
                && tid == self.tid
            {
                let from = self.place((it.at - ns).max(known_at));
                let to = self.place(it.at);
                self.halted[from..to].fill(true);
            }
        }
    }

    fn owner(&self, at: u64) -> Owner {
        let place = self.place(at);
        let (thread, cpu) = self.thread[place];
        let halted = self.halted[place];
        if thread == Thread::Sleeps && halted {
            return Owner::Halted;
        }
        match thread {
            _ if self.does(cpu, at, NMI) => Owner::Nmi,
            _ if self.does(cpu, at, IRQ) => Owner::Irq,
            _ if self.does(cpu, at, SOFTIRQ) => Owner::Softirq,
            Thread::Sleeps => Owner::Blocked,
            Thread::Waits if self.does(cpu, at, IDLES) => Owner::Throttled,
            Thread::Waits => Owner::Preempted,
            Thread::On if halted => Owner::Halted,
            Thread::On if self.in_vmm[place] => Owner::Vmm,
            Thread::On => Owner::Own,
        }
    }

    fn split(&self, from: u64, to: u64) -> ShareMap<u64> {
        let mut split = ShareMap::default();
        for at in from..to {
            *match self.owner(at) {
                Owner::Own => &mut split[Share::Kvm],
                Owner::Vmm => &mut split[Share::Vmm],
                Owner::Preempted => &mut split[Share::Preempted],
                Owner::Blocked => &mut split[Share::Blocked],
                Owner::Throttled => &mut split[Share::Throttled],
                Owner::Irq => &mut split[Share::HostIrq],
                Owner::Softirq => &mut split[Share::HostSoftirq],
                Owner::Nmi => &mut split[Share::HostNmi],
                Owner::Halted => &mut split[Share::Halted],
            } += 1;
        }
        split
    }

    /// Returns the exits. An exit begins at kvm_exit, or at the host's first work while the guest
    /// was entered. It ends at kvm_entry. Both ends must be reported, and no event between them may
    /// be lost. Otherwise the time is unknown from the begin on, or from the entry before if the
    /// begin was not reported.
    fn exits(&self) -> Painted {
        let mut painted = Painted::default();
        let (mut entered, mut heavy) = (false, false);
        let (mut first, mut exit) = (None, None);
        // End of the host's last NMI, if the host has done nothing else since the entry.
        let mut nmi_until: Option<u64> = None;
        let ran_after = |nmi_until: Option<u64>, at: u64| {
            nmi_until.is_some_and(|until: u64| at > until + ENTRY_NS)
        };
        let mut unseen_since = None;
        for it in self.moments {
            match it.what {
                What::Entry(tid) if tid == self.tid => {
                    if let Some((start, exit_cpu, code)) = exit.take() {
                        painted.exits.push(Exit {
                            start_mono_ns: start,
                            end_mono_ns: it.at,
                            reason: ExitReason {
                                isa: Isa::Svm,
                                code,
                            },
                            exit_cpu: exit_cpu as u32,
                            entry_cpu: it.cpu as u32,
                            heavy,
                            split: self.split(start, it.at),
                        });
                    } else if painted.first_mono_ns != 0 {
                        let since = unseen_since.unwrap_or(painted.last_mono_ns);
                        painted.unseen_ns += it.at - since;
                    }
                    unseen_since = None;
                    if painted.first_mono_ns == 0 {
                        painted.first_mono_ns = it.at;
                    }
                    painted.last_mono_ns = it.at;
                    (entered, heavy, first, nmi_until) = (true, false, None, None);
                }
                What::Exit(tid, code) if tid == self.tid => {
                    first = first.filter(|_| !ran_after(nmi_until, it.at));
                    let (start, cpu) = first.unwrap_or((it.at, it.cpu));
                    unseen_since = unseen_since.or(exit.map(|(start, ..)| start));
                    exit = entered.then_some((start, cpu, code));
                    entered = false;
                }
                What::RunLeave(tid) if tid == self.tid => (entered, heavy) = (false, true),
                What::RunEnter(tid) if tid == self.tid => entered = false,
                What::Halted(tid, ..) if tid == self.tid => entered = false,
                What::IrqEntry | What::SoftirqEntry | What::Nmi(_) | What::Switch(..)
                    if entered =>
                {
                    let length = match it.what {
                        What::Nmi(ns) => ns,
                        _ => 0,
                    };
                    if self.was_on(it) {
                        let start = it.at - length;
                        let is_alone = first.is_none() || nmi_until.is_some();
                        first = first.filter(|_| !ran_after(nmi_until, start));
                        first = first.or(Some((start, it.cpu)));
                        let is_nmi = matches!(it.what, What::Nmi(_));
                        nmi_until = Some(it.at).filter(|_| is_nmi && is_alone);
                    }
                }
                _ => {}
            }
        }
        painted
    }

    /// Returns whether the vCPU's thread had this CPU just before this event.
    fn was_on(&self, it: &Moment) -> bool {
        let before = self.place(it.at).checked_sub(1);
        before.is_some_and(|before| self.thread[before] == (Thread::On, it.cpu))
    }

    /// Returns the exits if kvm_exit never fires. An exit then begins when KVM_RUN is left, and
    /// ends when KVM_RUN is entered.
    fn runs(&self, known_at: u64) -> Painted {
        let mut painted = Painted {
            first_mono_ns: known_at,
            ..Painted::default()
        };
        let mut inside_from = known_at;
        let mut left: Option<(u64, u64)> = None;
        let mut outside: Vec<(u64, u64)> = Vec::new();
        for it in self.moments.iter().filter(|it| it.at >= known_at) {
            match it.what {
                What::RunLeave(tid) if tid == self.tid => left = Some((it.at, it.cpu)),
                What::RunEnter(tid) if tid == self.tid => {
                    painted.last_mono_ns = it.at;
                    let Some((start, cpu)) = left.take() else {
                        continue;
                    };
                    painted.exits.push(Exit {
                        start_mono_ns: start,
                        end_mono_ns: it.at,
                        reason: ExitReason {
                            isa: Isa::KvmRun,
                            code: 0,
                        },
                        exit_cpu: cpu as u32,
                        entry_cpu: it.cpu as u32,
                        heavy: true,
                        split: self.split(start, it.at),
                    });
                    outside.push((inside_from, start));
                    inside_from = it.at;
                }
                _ => {}
            }
        }
        outside.push((inside_from, painted.last_mono_ns));
        painted.stays = outside
            .into_iter()
            .map(|(from, to)| (from, to, self.split(from, to)))
            .collect();
        for (.., stay) in &painted.stays {
            painted.inside_run += *stay;
        }
        painted.inside_run[Share::Kvm] = 0;
        painted
    }
}
