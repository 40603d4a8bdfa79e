//! What was told of an exit, laid under it, gives its split again to the nanosecond.

use proptest::prelude::*;
use vmnoise_events::{
    Activity, ActivityKind, Event, Exit, ExitSplit, VcpuInterval, VcpuIntervalKind,
};

use super::harness::{CPUID, Handlers, IDLE, IO, SLEEPS, TASK, VCPU};

/// Who has a piece of an exit, by what covers it: the work on its CPU before the state of
/// its thread.
fn owner<'split>(
    split: &'split mut ExitSplit,
    activities: &[ActivityKind],
    states: &[VcpuIntervalKind],
) -> &'split mut u64 {
    let does = |kind| activities.contains(&kind);
    let is = |kind| states.contains(&kind);
    if does(ActivityKind::Nmi) {
        &mut split.host_nmi
    } else if does(ActivityKind::Irq) {
        &mut split.host_irq
    } else if does(ActivityKind::Softirq) {
        &mut split.host_softirq
    } else if is(VcpuIntervalKind::Blocked) {
        &mut split.blocked
    } else if is(VcpuIntervalKind::Waiting) && does(ActivityKind::Throttled) {
        &mut split.throttled
    } else if is(VcpuIntervalKind::Waiting) {
        assert!(
            does(ActivityKind::Thread),
            "a wait that nobody is named for"
        );
        &mut split.preempted
    } else if is(VcpuIntervalKind::Vmm) {
        &mut split.vmm
    } else {
        &mut split.kvm
    }
}

/// An exit of a vCPU that stays on its CPU, cut at every begin and every end.
fn lay_under(exit: &Exit, activities: &[Activity], intervals: &[VcpuInterval]) -> ExitSplit {
    let does = activities
        .iter()
        .map(|it| (it.start_mono_ns, it.end_mono_ns));
    let is = intervals
        .iter()
        .map(|it| (it.start_mono_ns, it.end_mono_ns));
    let mut cuts: Vec<u64> = does
        .chain(is)
        .flat_map(|(start, end)| [start, end])
        .filter(|at| (exit.start_mono_ns..exit.end_mono_ns).contains(at))
        .chain([exit.start_mono_ns, exit.end_mono_ns])
        .collect();
    cuts.sort_unstable();
    let mut split = ExitSplit::default();
    for piece in cuts.windows(2) {
        let covers = |start, end| start <= piece[0] && piece[1] <= end;
        let activities: Vec<_> = activities
            .iter()
            .filter(|it| it.cpu == exit.exit_cpu && covers(it.start_mono_ns, it.end_mono_ns))
            .map(|it| it.kind)
            .collect();
        let states: Vec<_> = intervals
            .iter()
            .filter(|it| covers(it.start_mono_ns, it.end_mono_ns))
            .map(|it| it.kind)
            .collect();
        if piece[0] < piece[1] {
            *owner(&mut split, &activities, &states) += piece[1] - piece[0];
        }
    }
    split
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Guest,
    Kvm,
    Vmm,
}

/// A CPU with one vCPU, which does what a kernel could do.
struct Machine {
    handlers: Handlers,
    now_ns: u64,
    step_ns: u64,
    place: Place,
    running: u64,
    asleep: bool,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            handlers: Handlers::entered(),
            now_ns: 1_000,
            step_ns: 0,
            place: Place::Guest,
            running: VCPU,
            asleep: false,
        }
    }

    fn run(&mut self, event: &str, values: &[u64]) {
        self.now_ns += self.step_ns;
        self.handlers.run(event, 0, self.now_ns, values);
    }

    /// An interrupt; it may hold an NMI and wake the vCPU.
    fn interrupt(&mut self, choice: u64) {
        self.run("irq_entry", &[]);
        if choice & 1 != 0 {
            self.run("nmi", &[self.step_ns / 2]);
        }
        if choice & 2 != 0 && self.asleep {
            self.wake();
        }
        self.run("irq_exit", &[]);
    }

    fn wake(&mut self) {
        self.run("waking", &[VCPU, TASK]);
        self.asleep = false;
    }

    fn switch(&mut self, sleeps: bool, next: u64) {
        let state = [u64::from(!sleeps), u64::from(sleeps) * SLEEPS];
        self.run("switch", &[state[0], state[1], self.running, next]);
        self.asleep |= self.running == VCPU && sleeps;
        self.running = next;
    }

    fn step(&mut self, event: u64, choice: u64) {
        let task = if choice & 4 != 0 { TASK } else { IDLE };
        match event {
            0 | 1 => {
                if event == 1 {
                    self.run("softirq_entry", &[3]);
                }
                self.interrupt(choice);
                if event == 1 {
                    self.run("softirq_exit", &[]);
                }
                // It made the guest leave.
                if self.running == VCPU && self.place == Place::Guest {
                    self.run("exit", &[VCPU, 0x60]);
                    self.place = Place::Kvm;
                }
            }
            2 if self.asleep => self.wake(),
            _ if self.running != VCPU => {
                let other = if self.running == TASK { IDLE } else { TASK };
                let stays_away = self.asleep || event == 3;
                self.switch(true, if stays_away { other } else { VCPU });
            }
            _ => match (self.place, event) {
                (Place::Guest, _) => {
                    self.run("exit", &[VCPU, if choice & 1 != 0 { CPUID } else { IO }]);
                    self.place = Place::Kvm;
                }
                (_, 4) => self.switch(choice & 1 != 0, task),
                (Place::Kvm, 5 | 6) => {
                    self.run("run_leave", &[VCPU]);
                    self.place = Place::Vmm;
                }
                (Place::Kvm, _) => {
                    self.run("entry", &[VCPU]);
                    self.place = Place::Guest;
                }
                (Place::Vmm, _) => {
                    self.run("run_enter", &[VCPU]);
                    self.place = Place::Kvm;
                }
            },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_told_gives_the_split_again(
        stream in proptest::collection::vec((0_u64..9, 1_u64..500, 0_u64..8), 0..80),
    ) {
        let mut machine = Machine::new();
        for (event, step_ns, choice) in stream {
            machine.step_ns = step_ns;
            machine.step(event, choice);
        }
        machine.handlers.vcpu(1);
        let told = machine.handlers.told();
        let activities: Vec<Activity> = told
            .iter()
            .filter_map(|event| match event {
                Event::Activity(activity) => Some(*activity),
                _ => None,
            })
            .collect();
        let intervals: Vec<VcpuInterval> = told
            .iter()
            .filter_map(|event| match event {
                Event::VcpuInterval(interval) => Some(*interval),
                _ => None,
            })
            .collect();
        for exit in machine.handlers.exits(1) {
            prop_assert_eq!(lay_under(&exit.exit, &activities, &intervals), exit.exit.split);
        }
    }
}
