//! What is asked of a CPU.

use std::fmt;
use std::rc::Rc;

use response_time_analysis::arrival::ArrivalBound;
use response_time_analysis::demand::RBF;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_FIFO and SCHED_RR: the task of the higher priority, and of equal ones any.
    FixedPriority,
    /// SCHED_DEADLINE: the job whose deadline is earlier.
    Edf,
    /// All of one priority: the job that came first.
    Fifo,
}

/// Where a job can be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// Anywhere.
    Full,
    /// Nowhere, once it runs.
    None,
    /// Anywhere but in sections of at most so long, which may be anywhere; nanoseconds.
    Sections(u64),
    /// At points between sections that are known: the longest of them, and the last; nanoseconds.
    Points {
        /// No section is longer.
        longest_ns: u64,
        /// The last one is so long.
        last_ns: u64,
    },
}

/// Tasks that share a CPU.
#[derive(Debug)]
pub struct TaskSet {
    /// Who of them goes first.
    pub policy: Policy,
    /// At least one.
    pub tasks: Vec<Task>,
}

/// One task: jobs that come, each of which has to be done by its deadline.
#[derive(Clone)]
pub struct Task {
    /// What it is called.
    pub name: String,
    /// What a job takes of the CPU at most, nanoseconds; not 0.
    pub cost_ns: u64,
    /// How many jobs come in a window at most.
    pub arrivals: Rc<dyn ArrivalBound>,
    /// How far apart they are in the long run at least, nanoseconds; not 0.
    pub period_ns: u64,
    /// By when after its arrival a job has to be done, nanoseconds; not 0.
    pub deadline_ns: u64,
    /// The higher goes first, as in Linux; of a fixed-priority set alone.
    pub priority: u32,
    /// Where it can be preempted.
    pub preemption: Preemption,
}

impl fmt::Debug for Task {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "{}: {} ns by {} ns",
            self.name, self.cost_ns, self.deadline_ns
        )
    }
}

/// What all jobs of a task need in a window.
pub(super) type Demand<'a> = RBF<&'a dyn ArrivalBound, Scalar>;

impl Task {
    /// The same, of which each job may come this much late: so jobs come closer together.
    pub fn late_by(&self, ns: u64) -> Task {
        let arrivals = self.arrivals.clone_with_jitter(Duration::from(ns));
        Task {
            arrivals: Rc::from(arrivals),
            ..self.clone()
        }
    }

    /// How Linux schedules it in a set of this policy. Where no priority is known, that is the lowest behind which a
    /// recorder can be.
    pub fn scheduled(&self, policy: Policy) -> vmnoise_events::Policy {
        match policy {
            Policy::FixedPriority => {
                vmnoise_events::Policy::Fifo(i32::try_from(self.priority).unwrap_or(i32::MAX))
            }
            Policy::Fifo => vmnoise_events::Policy::Fifo(2),
            Policy::Edf => vmnoise_events::Policy::Deadline {
                runtime_ns: self.cost_ns,
                period_ns: self.period_ns,
            },
        }
    }

    pub(super) fn demand(&self) -> Demand<'_> {
        RBF::new(&*self.arrivals, Scalar::new(self.cost()))
    }

    pub(super) fn cost(&self) -> Service {
        Service::from(self.cost_ns)
    }

    pub(super) fn deadline(&self) -> Duration {
        Duration::from(self.deadline_ns)
    }

    /// For how long a job that has begun can keep all others off, at most.
    pub(super) fn longest_section(&self) -> Service {
        match self.preemption {
            Preemption::Full => Service::epsilon(),
            Preemption::None => self.cost(),
            Preemption::Sections(longest_ns) | Preemption::Points { longest_ns, .. } => {
                Service::from(longest_ns.clamp(1, self.cost_ns))
            }
        }
    }

    /// What a job still needs at most once nobody can preempt it any more.
    pub(super) fn tail_cost(&self) -> Service {
        match self.preemption {
            Preemption::None => self.cost() - Service::epsilon(),
            Preemption::Points { last_ns, .. } => {
                Service::from(last_ns.clamp(1, self.cost_ns)) - Service::epsilon()
            }
            Preemption::Full | Preemption::Sections(_) => Service::none(),
        }
    }

    /// What it needs of the CPU in the long run, as a part of its time.
    pub fn utilisation(&self) -> f64 {
        self.cost_ns as f64 / self.period_ns as f64
    }
}
